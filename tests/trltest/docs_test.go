package trltest

import (
	"slices"
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		want           bool
	}{
		{"hello", "hello", true},
		{"hello", "hello\nhello", false},
		{"a … c", "a b c", true},
		{"a\n…\nc", "a\n1\n2\nc", true},
		{"a … c", "a b d", false},
		{"1.5 (x)", "1.5 (x)", true},
		{"1.5", "1x5", false},
	} {
		if got := Matches(c.shown, c.printed); got != c.want {
			t.Errorf("Matches(%q, %q) = %v", c.shown, c.printed, got)
		}
	}
}

func TestBlocks(t *testing.T) {
	got, err := Blocks("# A\n<!-- given: x=1 -->\n<!-- given: y=2 -->\n```sh\necho $x\n```\n```text\n1\n```\n\n" +
		"<!-- needs: CI -->\n```sh\nmake\n```\n\n```text\nnot its output\n```\n" +
		"<!-- at a terminal: ctrl-d -->\n```sh\ncat\n```\n<!-- needs: Docker -->\n```sh\ndocker\n```\n")
	want := []Block{
		{Line: 4, Given: "x=1\ny=2\n", Code: "echo $x\n", Shown: "1", Checked: true},
		{Line: 12, Code: "make\n", Needs: "CI"},
		{Line: 20, Code: "cat\n", Keys: "ctrl-d"},
		{Line: 24, Code: "docker\n", Needs: "Docker"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for page, part := range map[string]string{
		"<!-- needs: luck -->\n```sh\nx\n```\n": "is none of",
		"<!-- needs: CI -->\n\n```sh\nx\n```\n": "not directly before a block",
		"<!-- given: x -->\n```text\nx\n```\n":  "before a block without any",
		"```sh\nx\n":                            "block without an end",
	} {
		if _, err := Blocks(page); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", page, err, part)
		}
	}
}
