package trltest

import (
	"slices"
	"strings"
	"testing"
)

func TestSnippets(t *testing.T) {
	got, err := Snippets("# A\n```sh\necho 1\n# no heading\n```\n```text\n1\n```\n## B\n```text\nnot printed\n```\n" +
		"```go\nx := 1\n```\n```\n─▶\n```\n")
	want := []Snippet{
		{Line: 10, Heading: "## B", Lang: "text", Code: "not printed\n"},
		{Line: 13, Heading: "## B", Lang: "go", Code: "x := 1\n"},
		{Line: 16, Heading: "## B", Code: "─▶\n"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for page, part := range map[string]string{
		"- a list\n  ```go\n  x\n  ```\n": "at the beginning of a line",
		"~~~go\nx\n~~~\n":                 "at the beginning of a line",
		"````go\nx\n````\n":               "at the beginning of a line",
		"<pre>x</pre>\n":                  "at the beginning of a line",
		"```go\nx\n":                      "block without an end",
	} {
		if _, err := Snippets(page); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", page, err, part)
		}
	}
}

func TestInOrder(t *testing.T) {
	const text = "\ta := 1\n\tif a > 0 {\n\t\tb()\n\t}\n\tc()\n"
	for snippet, want := range map[string]bool{
		"a := 1\nc()\n":       true,
		"a := 1\n…\n\nc()\n":  true,
		"c()\na := 1\n":       false,
		"b()\nb()\n":          false,
		"a := 1\nnot there\n": false,
	} {
		if got := inOrder(snippet, text); got != want {
			t.Errorf("%q: %v, want %v", snippet, got, want)
		}
	}
}
