package trltest

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Needs are the things without which the commands of a block cannot run, each with the directory of the
// tests that have it, or with a script: <!-- needs: THING --> on a line before it. Other tests leave the block out;
// one of internal/cli parses its commands of trl.
var Needs = map[string]string{
	"CI":                       ".ci/run",
	"Claude Code":              "tests/repo",
	"Codex":                    "tests/repo",
	"Docker":                   "tests/places",
	"a network":                "tests/repo",
	"a release":                "tools/release",
	"another machine":          "tests/places",
	"grpcurl":                  "tests/grpc",
	"kubectl":                  "tests/places",
	"minutes":                  "tests/compare",
	"npm and PyPI":             "tests/compare",
	"package registries":       "sdk/test.sh",
	"systemd":                  "tests/vm",
	"the packages of the SDKs": "sdk/packages.sh",
}

// Block is an sh block of a page.
type Block struct {
	Line int // of its fence
	// Given are commands before it that the page does not show, because they only make what the reader
	// has: <!-- given: COMMAND --> on a line before the block.
	Given string
	// Keys are pressed while each line of it runs at a terminal, in turn, until it ends:
	// <!-- at a terminal: KEY … --> on a line before the block.
	Keys    string
	Code    string
	Shown   string // the text block directly behind it: what it prints; … stands for anything
	Checked bool   // whether there is one
	Needs   string // one of Needs
}

// leftOut returns why a reader who has these things does not type the block; "" if they do.
func (b Block) leftOut(has []string) string {
	if b.Needs == "" || slices.Contains(has, b.Needs) {
		return ""
	}
	return "needs " + b.Needs + "; typed by " + Needs[b.Needs]
}

// commented reports whether a comment about the commands of the block was read.
func (b Block) commented() bool {
	return b.Given != "" || b.Keys != "" || b.Needs != ""
}

var aboutCommands = regexp.MustCompile(`^<!-- (given|needs|at a terminal): (.+) -->$`)

// Blocks returns the sh blocks of a page.
func Blocks(page string) ([]Block, error) {
	var blocks []Block
	var next Block
	lang, text, last := "", "", -10
	for i, line := range strings.Split(page, "\n") {
		comment := aboutCommands.FindStringSubmatch(line)
		switch {
		case lang == "" && strings.HasPrefix(line, "```"):
			lang, text, next.Line = line[3:]+" ", "", i+1
		case lang != "" && line == "```":
			switch {
			case lang == "sh ":
				next.Code, last = text, i
				blocks = append(blocks, next)
			case next.commented():
				return nil, fmt.Errorf("line %d: a comment about commands is before a block without any", next.Line)
			case lang == "text " && next.Line == last+2:
				blocks[len(blocks)-1].Shown, blocks[len(blocks)-1].Checked = strings.TrimSpace(text), true
			}
			lang, next = "", Block{}
		case lang != "":
			text += line + "\n"
		case comment != nil && comment[1] == "given":
			next.Given += comment[2] + "\n"
		case comment != nil && comment[1] == "at a terminal":
			next.Keys = comment[2]
		case comment != nil:
			next.Needs = comment[2]
			if Needs[next.Needs] == "" {
				return nil, fmt.Errorf("line %d: needs: %q is none of %q", i+1, next.Needs, slices.Sorted(maps.Keys(Needs)))
			}
		case next.commented():
			return nil, fmt.Errorf("line %d: a comment about commands is not directly before a block", i+1)
		}
	}
	if lang != "" {
		return nil, fmt.Errorf("line %d: block without an end", next.Line)
	}
	return blocks, nil
}

// Page types every sh block of a document into one bash, from top to bottom, and compares
// what each prints with the text block behind it. The reader has a home directory of their
// own with the token of a daemon, trl in their path, no daemon on their socket, and finds replaced
// what the Replacer says. They have those of Needs that has names.
func Page(t *testing.T, file, token string, replaced *strings.Replacer, has ...string) {
	t.Helper()
	dir := t.TempDir()
	state, bin, run := filepath.Join(dir, ".local", "state", "trl"), filepath.Join(dir, "bin"), filepath.Join(dir, "run")
	for _, d := range []string{state, bin, run} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(state, "token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(Binary(t), filepath.Join(bin, "trl")); err != nil {
		t.Fatal(err)
	}
	Reader{Has: has, Env: []string{
		"HOME=" + dir, "PATH=" + bin + ":" + os.Getenv("PATH"), "TRL_STATE_DIR=" + state, "TRL_RUNTIME_DIR=" + run, "TRL_SOCKET_PATH=" + filepath.Join(run, "trl.sock"),
	}}.Type(t, file, replaced.Replace(read(t, file)))
}

// Section does the same with the blocks of one section of a document. The heading begins with its marks,
// such as "## ".
func (r Reader) Section(t *testing.T, file, heading string, replaced *strings.Replacer) {
	t.Helper()
	_, section, found := strings.Cut(read(t, file), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", file, heading)
	}
	marks, _, _ := strings.Cut(heading, " ")
	section, _, _ = strings.Cut(section, "\n"+marks+" ")
	r.Type(t, heading, replaced.Replace(section))
}

// Example does the same with the README of a folder of examples, in that folder, for a reader who has
// the environment of the test, with env in addition. An example in Go runs where it is, because its
// module is there; any other in a copy, with sdk beside it, because it may write files.
func Example(t *testing.T, name string, replaced *strings.Replacer, env ...string) {
	t.Helper()
	root, err := moduleRoot()
	if err == nil {
		err = touch(root, "examples/"+name, "sdk/python/src", "sdk/typescript/src")
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "examples", name)
	page := read(t, filepath.Join(dir, "README.md"))
	if _, err := os.Stat(filepath.Join(dir, "main.go")); err != nil {
		there := t.TempDir()
		if err := os.Symlink(filepath.Join(root, "sdk"), filepath.Join(there, "sdk")); err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(there, "examples", name)
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		dir = copied
	}
	Reader{Dir: dir, Env: append(os.Environ(), env...)}.Type(t, name, replaced.Replace(page))
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Reader is a person who types the commands of a page.
type Reader struct {
	Dir string // the working directory; empty for that of the test
	Env []string
	Has []string // those of Needs that this reader has
}

// Type types the sh blocks of a page into one bash, and prints which of them it leaves out, and why.
func (r Reader) Type(t *testing.T, name, page string) {
	t.Helper()
	blocks, err := Blocks(page)
	if err != nil {
		t.Fatalf("%s: %s", name, err)
	}
	dir := t.TempDir()
	var script strings.Builder
	// A page may leave commands running in the background.
	script.WriteString("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n")
	for i, b := range blocks {
		if why := b.leftOut(r.Has); why != "" {
			t.Logf("%s, line %d: %s", name, b.Line, why)
			continue
		}
		fmt.Fprintf(&script, "exec >%s/%d 2>&1\n%sexec >%s/%d 2>&1\n%s", dir, i, b.Given, dir, i, b.typed(dir))
	}
	if err := os.WriteFile(filepath.Join(dir, "person.py"), person, 0o600); err != nil {
		t.Fatal(err)
	}
	// A file, not stdin: a command that reads its input must not eat the rest.
	file := filepath.Join(dir, "script")
	if err := os.WriteFile(file, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", file)
	cmd.Dir, cmd.Env = r.Dir, append(r.Env, "GORACE=atexit_sleep_ms=0")
	failed := cmd.Run()
	for i, b := range blocks {
		if b.leftOut(r.Has) != "" {
			continue
		}
		out, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Errorf("%s, line %d: was not reached", name, b.Line)
			break
		}
		// curl prints a body without a line end as it is, and headers with CR.
		got := strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(string(out), "\r", ""), "}{", "}\n{"))
		if b.Checked && !Matches(b.Shown, got) {
			t.Errorf("%s, line %d: printed\n%s\nthe page says\n%s", name, b.Line, got, b.Shown)
		} else if _, err := os.Stat(filepath.Join(dir, fmt.Sprint(i+1))); failed != nil && err != nil {
			t.Logf("%s, line %d:\n%sprinted\n%s", name, b.Line, b.Given+b.Code, tail(got, 4000))
		}
	}
	if failed != nil {
		t.Errorf("%s: %v", name, failed)
	}
}

//go:embed person.py
var person []byte

// typed returns what the shell runs for a block.
func (b Block) typed(dir string) string {
	if b.Keys == "" {
		return b.Code
	}
	var script strings.Builder
	for line := range strings.Lines(b.Code) {
		fmt.Fprintf(&script, "python3 %s/person.py %s %s\n", dir, quoted(b.Keys), quoted(strings.TrimSpace(line)))
	}
	return script.String()
}

func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// Matches reports whether a text is what a page shows; … stands for any text.
func Matches(shown, printed string) bool {
	var pattern strings.Builder
	for i, part := range strings.Split(shown, "…") {
		if i > 0 {
			pattern.WriteString("(?s:.*)")
		}
		pattern.WriteString(regexp.QuoteMeta(part))
	}
	return regexp.MustCompile(`\A` + pattern.String() + `\z`).MatchString(printed)
}
