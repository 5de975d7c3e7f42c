// Package http_test speaks HTTP with the real daemon, and types what docs/http.md says.
package http_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/tests/trltest"
)

const patience = 60 * time.Second

// TestDocs runs every sh block of the page in one shell, from top to bottom, and
// compares what each prints with the text block behind it; … stands for anything.
func TestDocs(t *testing.T) {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	page, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0"))
	url, token := d.HTTP(t)
	home := t.TempDir()
	file := filepath.Join(home, ".local", "state", "trl", "token")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	blocks := blocksOf(strings.ReplaceAll(string(page), "http://127.0.0.1:7330", url))
	var script strings.Builder
	script.WriteString("set -eu\n")
	for i, b := range blocks {
		fmt.Fprintf(&script, "exec >%s/%d 2>&1\n%s", home, i, b.code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-c", script.String())
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	failed := cmd.Run()
	printed := 0
	for i, b := range blocks {
		out, err := os.ReadFile(filepath.Join(home, fmt.Sprint(i)))
		if err != nil {
			t.Errorf("line %d was not reached", b.line)
			continue
		}
		printed += len(out)
		// curl prints a body without a line end as it is, and headers with CR.
		got := strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(string(out), "\r", ""), "}{", "}\n{"))
		if !matches(b.shown, got) {
			t.Errorf("docs/http.md, line %d: printed\n%s\nthe page says\n%s", b.line, got, b.shown)
		}
	}
	if failed != nil || len(blocks) < 6 || printed == 0 {
		t.Errorf("%d blocks: %v", len(blocks), failed)
	}
}

type block struct {
	line        int
	code, shown string
}

// blocksOf returns the sh blocks that are to be run, with the text blocks behind them.
func blocksOf(page string) []block {
	var blocks []block
	before, lang, skipped, text := "", "", false, ""
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
		case lang != "" && line == "```":
			switch last := len(blocks) - 1; {
			case skipped:
			case lang == "sh":
				blocks[last].code = text
			case lang == "text":
				blocks[last].shown = strings.TrimSpace(text)
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
