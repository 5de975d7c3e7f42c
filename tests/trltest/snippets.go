package trltest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Snippet is a block of a page that is neither commands nor the text that they print: a program, a
// configuration, a request, or a picture.
type Snippet struct {
	Line    int    // of its fence
	Heading string // the line of the heading above it, with its marks
	Lang    string // the word after the fence; empty for a picture
	Code    string
}

// hidden finds code that other readers of Markdown see as a block, and Blocks and Snippets do not.
var hidden = regexp.MustCompile("^(\\s+(```|~~~)|~~~|````)|<pre\\b")

// Snippets returns the snippets of a page.
func Snippets(page string) ([]Snippet, error) {
	var list []Snippet
	var open *Snippet
	heading, commandsEnd := "", -10
	for i, line := range strings.Split(page, "\n") {
		switch {
		case open == nil && hidden.MatchString(line):
			return nil, fmt.Errorf("line %d: a block begins with three backquotes at the beginning of a line", i+1)
		case open == nil && strings.HasPrefix(line, "```"):
			open = &Snippet{Line: i + 1, Heading: heading, Lang: line[3:]}
		case open == nil && strings.HasPrefix(line, "#"):
			heading = line
		case open == nil:
		case line != "```":
			open.Code += line + "\n"
		default:
			printed := open.Lang == "text" && open.Line == commandsEnd+2
			if open.Lang == "sh" {
				commandsEnd = i
			} else if !printed {
				list = append(list, *open)
			}
			open = nil
		}
	}
	if open != nil {
		return nil, fmt.Errorf("line %d: block without an end", open.Line)
	}
	return list, nil
}

// AllSnippets returns those of a page in one language. The page is named from the top of the repository.
func AllSnippets(t testing.TB, page, lang string) []Snippet {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := Snippets(read(t, filepath.Join(root, page)))
	if err != nil {
		t.Fatalf("%s: %s", page, err)
	}
	var list []Snippet
	for _, s := range all {
		if s.Lang == lang {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s: has no block of %s", page, lang)
	}
	return list
}

// OneSnippet returns the only one in a language below a heading of a page.
func OneSnippet(t testing.TB, page, heading, lang string) string {
	t.Helper()
	var found []string
	for _, s := range AllSnippets(t, page, lang) {
		if s.Heading == heading {
			found = append(found, s.Code)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s: has %d blocks of %s below %q, want one", page, len(found), lang, heading)
	}
	return found[0]
}

// FunctionWith returns the name of the function of a Go file that has the lines of a snippet, in their order; a
// line … stands for any lines. A test that runs this function has run the snippet.
func FunctionWith(t testing.TB, file, snippet string) string {
	t.Helper()
	text := read(t, file)
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		if inOrder(snippet, text[fset.Position(f.Body.Lbrace).Offset:fset.Position(f.Body.Rbrace).Offset]) {
			return f.Name.Name
		}
	}
	t.Errorf("%s: no function has these lines in this order:\n%s", file, snippet)
	return ""
}

// inOrder reports whether a text has the lines of a snippet, one after the other.
func inOrder(snippet, text string) bool {
	wanted := strings.Split(snippet, "\n")
	next := func() string {
		for len(wanted) > 0 {
			if line := strings.TrimSpace(wanted[0]); line != "" && line != "…" {
				return line
			}
			wanted = wanted[1:]
		}
		return ""
	}
	for line := range strings.Lines(text) {
		if want := next(); want != "" && strings.TrimSpace(line) == want {
			wanted = wanted[1:]
		}
	}
	return next() == ""
}
