package trltest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Page runs every sh block of a document in one bash, from top to bottom, and compares
// what each prints with the text block behind it; … stands for anything. A block behind
// the line <!-- not run: why --> is left out. The reader has a home directory of their
// own with the token of a daemon, trl in their path, and finds replaced what the
// Replacer says.
func Page(t *testing.T, file, token string, replaced *strings.Replacer) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	state, bin := filepath.Join(dir, ".local", "state", "trl"), filepath.Join(dir, "bin")
	for _, d := range []string{state, bin} {
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
	blocks := blocksOf(replaced.Replace(string(page)))
	reader{env: []string{"HOME=" + dir, "PATH=" + bin + ":" + os.Getenv("PATH")}}.run(t, filepath.Base(file), blocks)
	if len(blocks) < 2 {
		t.Errorf("%d blocks", len(blocks))
	}
}

// Section does the same with the blocks of one section of a document, for a reader with that environment.
func Section(t *testing.T, file, heading string, replaced *strings.Replacer, env ...string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", file, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	reader{env: env}.run(t, heading, blocksOf(replaced.Replace(section)))
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
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
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
	reader{dir: dir, env: append(os.Environ(), env...)}.run(t, name, blocksOf(replaced.Replace(string(page))))
}

// reader is a person who runs the blocks of a page.
type reader struct {
	dir string // the working directory; empty for that of the test
	env []string
}

// run runs blocks in one bash.
func (r reader) run(t *testing.T, name string, blocks []block) {
	t.Helper()
	dir := t.TempDir()
	var script strings.Builder
	script.WriteString("set -eu\n")
	for i, b := range blocks {
		fmt.Fprintf(&script, "exec >%s/%d 2>&1\n%s", dir, i, b.code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-c", script.String())
	cmd.Dir, cmd.Env = r.dir, append(r.env, "GORACE=atexit_sleep_ms=0")
	failed := cmd.Run()
	printed := 0
	for i, b := range blocks {
		out, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Errorf("line %d was not reached", b.line)
			continue
		}
		printed += len(out)
		// curl prints a body without a line end as it is, and headers with CR.
		got := strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(string(out), "\r", ""), "}{", "}\n{"))
		if !matches(b.shown, got) {
			t.Errorf("%s, line %d: printed\n%s\nthe page says\n%s", name, b.line, got, b.shown)
		}
	}
	if failed != nil || printed == 0 {
		t.Errorf("%s: %d blocks: %v", name, len(blocks), failed)
	}
}

type block struct {
	line        int
	code, shown string
}

// blocksOf returns the sh blocks of a page that must run, with the text blocks after them.
func blocksOf(page string) []block {
	var blocks []block
	before, lang, skipped, text, last := "", "", false, "", -10
	for i, line := range strings.Split(page, "\n") {
		switch {
		case lang == "" && strings.HasPrefix(line, "```"):
			lang, text = line[3:], ""
			if lang == "sh" {
				skipped = strings.HasPrefix(before, "<!-- not run: ")
				if !skipped {
					blocks = append(blocks, block{line: i + 1})
				}
			}
			if lang == "text" && last != i-1 { // it shows something else
				lang = "other"
			}
		case lang != "" && line == "```":
			switch n := len(blocks) - 1; {
			case lang == "sh" && !skipped:
				blocks[n].code, last = text, i
			case lang == "text":
				blocks[n].shown = strings.TrimSpace(text)
			}
			lang = ""
		case lang != "":
			text += line + "\n"
		}
		before = line
	}
	return blocks
}

func matches(shown, printed string) bool {
	var pattern strings.Builder
	for i, part := range strings.Split(shown, "…") {
		if i > 0 {
			pattern.WriteString("(?s:.*)")
		}
		pattern.WriteString(regexp.QuoteMeta(part))
	}
	return regexp.MustCompile(`\A` + pattern.String() + `\z`).MatchString(printed)
}
