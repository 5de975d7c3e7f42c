package shell

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStatements(t *testing.T) {
	for _, tc := range []struct {
		text, names, flags string
	}{
		{"A='1'\nB='it'\"'\"'s'\n", "A B", " "},
		{"A='two\nlines'\nB='x'\n", "A B", " "},
		{"declare -x P=\"a\\\"b\nc\"\ndeclare -ar Q=([0]=\"x\" [1]=\"y z\")\ndeclare -- R=$'it\\'s\\n'\n", "P Q R", "x ar -"},
		{"typeset -g -i10 N=3\nexport -T PATH path=( /a /b )\ntypeset -g S='a\nb'\n", "N PATH S", "gi10 T g"},
		{"export HOME='/root'\nexport EMPTY\n", "HOME EMPTY", " "},
		{"ll='ls -l'\nalias x='y'\n", "ll alias", " "},
		{"A='unfinished\nB='1'\n", "A", ""},
	} {
		var names, flags []string
		for _, s := range posixStatements(tc.text) {
			names, flags = append(names, s.name), append(flags, s.flags)
		}
		if got := strings.Join(names, " "); got != tc.names {
			t.Errorf("%q: names %q, want %q", tc.text, got, tc.names)
		}
		if got := strings.Join(flags, " "); strings.TrimSpace(got) != strings.TrimSpace(strings.ReplaceAll(tc.flags, "-", "")) {
			t.Errorf("%q: flags %q, want %q", tc.text, got, tc.flags)
		}
	}
}

// dump is a complete dump, as the script of posixDump prints it.
const dump = "state\x00A='1'\nB='x'\n\x00export B='x'\n\x00\x00\x00ll='ls'\n\x00set +o errexit\nset -o noglob\n\x000027\n\x00/tmp\x00a\x01b c\x01\x00end\x00"

func TestParseDump(t *testing.T) {
	st := parseDump([]byte(dump), posixStatements)
	if st == nil || len(st.vars) != 2 || len(st.exports) != 1 || st.umask != "0027" || st.cwd != "/tmp" || len(st.params) != 2 || st.params[1] != "b c" {
		t.Fatalf("%+v", st)
	}
	// A dump that was cut off is dropped when the next one begins.
	if st := parseDump([]byte("state\x00A='cut"+"\x00"+dump), posixStatements); st == nil || len(st.vars) != 2 {
		t.Errorf("after a cut dump: %+v", st)
	}
	for _, bad := range []string{"", "end\x00", "\x00end\x00", "state\x00\x00end\x00", dump[:len(dump)-1], dump + "x"} {
		if st := parseDump([]byte(bad), posixStatements); st != nil {
			t.Errorf("%q is taken for a dump", bad)
		}
	}
	old := &State{vars: []statement{{name: "A", text: "A='0'"}}}
	merged := st.withDefinitions(map[string]bool{"A": true, "B": true}, old)
	if len(merged.vars) != 1 || merged.vars[0].text != "A='0'" || len(merged.exports) != 0 {
		t.Errorf("merged: %+v", merged)
	}
}

func TestParseStatus(t *testing.T) {
	in := []byte("noise\x00a 0 /x\x00b 256 /\x00b -1 /\x00 3 /\x00c 7 not/absolute\x00d 9 /with space\nand more\x00e 1 /par")
	want := []status{{"a", 0, "/x"}, {"c", 7, ""}, {"d", 9, "/with space\nand more"}}
	for _, w := range want {
		st, rest, ok := parseStatus(in)
		if !ok || st != w {
			t.Fatalf("%+v %v, want %+v", st, ok, w)
		}
		in = rest
	}
	if _, rest, ok := parseStatus(in); ok || string(rest) != "e 1 /par" {
		t.Errorf("an incomplete message: %v %q", ok, rest)
	}
	if _, rest, ok := parseStatus(bytes.Repeat([]byte("x"), maxStatus+1)); ok || len(rest) != 0 {
		t.Errorf("a message without end is kept: %d bytes", len(rest))
	}
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte("tok 0 /tmp\x00"), 3)
	f.Add([]byte("tok 0 /tmp\x00tok2 256 /\x00junk\x00"), 5)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		whole := all(b)
		// The messages are the same however the bytes are divided.
		if cut < 0 || cut > len(b) {
			return
		}
		var got []status
		buf := append([]byte(nil), b[:cut]...)
		for range 2 {
			for {
				st, rest, ok := parseStatus(buf)
				buf = rest
				if !ok {
					break
				}
				got = append(got, st)
			}
			buf = append(append([]byte(nil), buf...), b[cut:]...)
			b, cut = b[:len(b):len(b)], len(b)
		}
		if len(b) < maxStatus && len(got) != len(whole) {
			t.Fatalf("%d messages in pieces, %d at once", len(got), len(whole))
		}
	})
}

func all(b []byte) (list []status) {
	for {
		st, rest, ok := parseStatus(b)
		if !ok {
			return list
		}
		list, b = append(list, st), rest
	}
}

func FuzzDump(f *testing.F) {
	f.Add([]byte(dump))
	f.Add([]byte("state\x00declare -x A=\"\\\x00\x00\x00\x00\x00\x00\x00\x00\x00end\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, fam := range []Family{Dash, Ash, Bash, Zsh, Fish} {
			d := dialectOf(Program{Family: fam})
			if st := parseDump(b, d.statements); st != nil {
				d.restore(st)
				st.unset([]string{"A=1"})
			}
		}
	})
}

// TestQuoting checks the quoting itself; tests/cases runs quoted text in the real shells.
func TestQuoting(t *testing.T) {
	for in, want := range map[string]string{`it's`: `'it'\''s'`, ``: `''`} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %q, want %q", in, got, want)
		}
	}
	if got := bashQuote("a\\b\"c$d`e!f'g\n"); got != "\"a\\\\b\\\"c\\$d\\`e!f'g\n\"" {
		t.Errorf("bashQuote: %q", got)
	}
	if got := fishQuote(`a\b'c`); got != `'a\\b\'c'` {
		t.Errorf("fishQuote: %q", got)
	}
}

func TestFind(t *testing.T) {
	for name, want := range map[string]Family{"sh": "", "bash": Bash, "dash": Dash, "/bin/bash": Bash} {
		p, err := Find(name, "/usr/local/bin:/usr/bin:/bin", "/")
		if err != nil {
			t.Logf("NOT TESTED: %v", err)
		} else if want != "" && p.Family != want {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, name := range []string{"/bin/cat", "cat", "/nope/sh", "nope", "/tmp", "/etc/passwd"} {
		if p, err := Find(name, "/usr/bin:/bin", "/"); err == nil {
			t.Errorf("%s: taken for %+v", name, p)
		}
	}
	for base, want := range map[string]Family{"bash-5.2": Bash, "zsh5": Zsh, "fish": Fish, "rbash": Bash, "bashful": "", "python3": "", "sh": ""} {
		if got := familyOf(base); got != want {
			t.Errorf("familyOf(%q) = %q, want %q", base, got, want)
		}
	}
}

// TestSelected: on macOS, /bin/sh executes the shell that a link points to.
func TestSelected(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]Family{"bash": Bash, "dash": Dash, "zsh": Zsh, "ksh": Bash} {
		shell, link := filepath.Join(dir, name), filepath.Join(dir, "select-"+name)
		if err := errors.Join(os.WriteFile(shell, nil, 0o700), os.Symlink(shell, link)); err != nil {
			t.Fatal(err)
		}
		if got := selected(link); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := selected(filepath.Join(dir, "none")); got != Bash {
		t.Errorf("none: %s", got)
	}
}

// TestScriptWithoutRoom: writing a script to a full disk is an error, so that half a command
// never runs.
func TestScriptWithoutRoom(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	f := script{file: full}
	defer f.close()
	if err := f.put("rm -rf /tmp/x"); err == nil {
		t.Error("writing to a full device succeeded")
	}
}
