package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHintWhileItRuns: a person whose program needs a terminal sees how to give it one while
// the program runs: without a terminal it may never end.
func TestHintWhileItRuns(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	gate := filepath.Join(s.dir, "gate")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.work, "vim"), []byte("#!/bin/sh\necho starts; read line < "+gate+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const hint = "hint: vim is made for a terminal: `trl run -t` gives it one\n"
	for command, hinted := range map[string]bool{
		"trl run ./vim":                true,
		"trl run ./vim < /dev/null":    true,
		"trl run -s a ./vim x":         true,
		"trl run -i ./vim":             true,
		"trl run -i ./vim < /dev/null": false, // a pipe is what it wants
		"trl run ./vim 2> /dev/null":   false,
	} {
		p := s.onTerminal(t, s.command("/bin/sh", "-c", "NO_COLOR=1 "+command))
		seen := ""
		for more := range p.seen {
			if seen += more; strings.Contains(seen, "starts\n") && (!hinted || strings.Contains(seen, hint)) {
				break
			}
		}
		if err := os.WriteFile(gate, []byte("\n"), 0); err != nil {
			t.Fatal(err)
		}
		rest, status := p.all(t)
		want := 0
		if hinted {
			want = 1
		}
		if seen += rest; status != 0 || strings.Count(seen, "hint:") != want || strings.Count(seen, hint) != want {
			t.Errorf("%s: status %d, seen %q", command, status, seen)
		}
	}
}

// TestHintNamesEveryKind: where a name may be that of more than a session, the hint for an unknown one
// names each list.
func TestHintNamesEveryKind(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for command, want := range map[string]string{
		"share": "trl: session or dialogue \"nosuch\": not found\nhint: `trl ls` lists the sessions, `trl dialogue ls -a` the dialogues\n",
		"open":  "trl: session or dialogue \"nosuch\": not found\nhint: `trl ls` lists the sessions, `trl dialogue ls -a` the dialogues\n",
		"play":  "trl: session \"nosuch\": not found\nhint: `trl ls -a` lists the sessions, `trl recordings` the recordings\n",
	} {
		if o := s.run(t, command, "nosuch"); o.status != 125 || o.stdout != "" || o.stderr != want {
			t.Errorf("%s: %+v", command, o)
		}
	}
}
