package repo_test

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

type phrase struct{ bad, cure string }

// phrases are wordings that hide who does what, with the cure. They are matched in any letter
// case, as whole words, also across a line end.
var phrases = []phrase{
	{"is told", "name the event that is published, or the call that returns it"},
	{"are told", "name the event that is published, or the call that returns it"},
	{"was told", "name the message"},
	{"nobody", "name the thing that is missing: no client, no reader, no daemon"},
	{"somebody", "name the caller: a client, a viewer, a process"},
	{"whoever", "name the caller: a client, a viewer, a process"},
	{"whatever", "name the thing"},
	{"was asked", "name the request"},
	{"is given", "say who sets or sends it"},
	{"for ever", "without a limit, permanently"},
	{"says so", "say what is reported, and where"},
	{"of before", "earlier, previous"},
	{"is gone", "has ended, has closed, is no longer kept"},
	{"are gone", "have ended, have closed, are no longer kept"},
	{"is no more", "has ended, was removed"},
	{"what was said", "the conversation, the transcript"},
	{"comes back", "reconnects, resumes, returns"},
}

// commentPhrases are wordings that hide who does what in comments, in addition to phrases.
var commentPhrases = []phrase{
	{"were told", "name the message"},
	{"been told", "name the message"},
	{"who holds", "the holder"},
	{"who writes", "the writer"},
	{"of whom", "name the callers"},
	{"lets go of", "releases, closes"},
	{"takes notice of", "notices, reaps"},
	{"call with mu held", "end the name of the method in Locked"},
	{"anybody", "name the caller: a client, a viewer, a process"},
	{"everybody", "name the callers: all clients, all viewers, all processes"},
	{"what is told", "name the event"},
	{"what was told", "name the event"},
	{"tells of", "describes, reports"},
	{"told of", "name the report"},
	{"is to be", "must be, should be, will be"},
	{"are to be", "must be, should be, will be"},
	{"makes no sense", "is malformed, is invalid"},
	{"who reads", "the reader"},
	{"who takes", "name the caller"},
	{"who waits", "the waiting caller"},
	{"who asks", "the caller"},
	{"those who", "name the callers"},
	{"mu is held", "end the name of the method in Locked"},
}

// TestEnglishIsPlain keeps the phrases out of the contract and the documents. Code blocks and
// text between backquotes are left alone.
func TestEnglishIsPlain(t *testing.T) {
	find := finder(phrases)
	sourceFiles(t, func(file string) {
		text := read(t, file)
		switch {
		case path.Dir(file) == "api" && path.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go"):
		case path.Ext(file) == ".md" && (strings.HasPrefix(file, "docs/") || path.Dir(file) == "." && file != "CHANGELOG.md" || file == "client/README.md"):
			text = withoutCode(text)
		default:
			return
		}
		find(text, func(line int, p phrase) { t.Errorf("%s:%d: %q: %s", file, 1+line, p.bad, p.cure) })
	})
}

// TestCommentsArePlain keeps the phrases out of all comments, also those of tests.
func TestCommentsArePlain(t *testing.T) {
	find := finder(slices.Concat(phrases, commentPhrases))
	allGoFiles(t, func(file string, fset *token.FileSet, f *ast.File) {
		for _, group := range f.Comments {
			var text strings.Builder
			for _, c := range group.List {
				text.WriteString(c.Text + "\n")
			}
			first := fset.Position(group.Pos()).Line
			find(text.String(), func(line int, p phrase) { t.Errorf("%s:%d: %q: %s", file, first+line, p.bad, p.cure) })
		}
	})
}

// TestMessagesArePlain keeps the phrases out of the string literals of the program and of the
// console: errors, log messages, help texts and labels.
func TestMessagesArePlain(t *testing.T) {
	find := finder(phrases)
	goFiles(t, func(file string, fset *token.FileSet, f *ast.File) {
		if strings.HasPrefix(file, "tests/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			first := fset.Position(lit.Pos()).Line
			find(lit.Value, func(line int, p phrase) { t.Errorf("%s:%d: %q: %s", file, first+line, p.bad, p.cure) })
			return true
		})
	})
	sourceFiles(t, func(file string) {
		if !strings.HasPrefix(file, "web/src/") || !slices.Contains([]string{".ts", ".tsx"}, path.Ext(file)) {
			return
		}
		find(read(t, file), func(line int, p phrase) { t.Errorf("%s:%d: %q: %s", file, 1+line, p.bad, p.cure) })
	})
}

// maxColumns is the width of prose in documents.
const maxColumns = 100

// TestDocumentsAreWrapped refuses lines of prose that are too wide for a terminal. Tables, code
// blocks, comments, and lines without a space to break at keep their width.
func TestDocumentsAreWrapped(t *testing.T) {
	sourceFiles(t, func(file string) {
		switch {
		case path.Ext(file) != ".md", strings.HasPrefix(file, "tests/"), strings.Contains(file, "/testdata/"):
			return
		}
		inCode := false
		for i, line := range strings.Split(read(t, file), "\n") {
			text := strings.TrimSpace(line)
			if strings.HasPrefix(text, "```") {
				inCode = !inCode
			}
			isTable, isComment := strings.HasPrefix(text, "|"), strings.HasPrefix(text, "<!--")
			if inCode || isTable || isComment || !strings.Contains(strings.TrimPrefix(text, "- "), " ") {
				continue
			}
			if n := utf8.RuneCountInString(line); n > maxColumns {
				t.Errorf("%s:%d: %d columns, at most %d: break the line", file, i+1, n, maxColumns)
			}
		}
	})
}

// finder returns a function that calls found with the line, from 0, of each phrase in a text.
func finder(list []phrase) func(text string, found func(line int, p phrase)) {
	var words []string
	for _, p := range list {
		words = append(words, strings.ReplaceAll(p.bad, " ", `(?:\s|//)+`))
	}
	pattern := regexp.MustCompile(`(?i)\b(?:` + strings.Join(words, "|") + `)\b`)
	return func(text string, found func(line int, p phrase)) {
		// The pattern takes a minute for all comments under the race detector, and nearly none has a phrase.
		plain := strings.ToLower(strings.Join(strings.Fields(strings.ReplaceAll(text, "//", " ")), " "))
		if !slices.ContainsFunc(list, func(p phrase) bool { return strings.Contains(plain, p.bad) }) {
			return
		}
		for _, at := range pattern.FindAllStringIndex(text, -1) {
			match := strings.ToLower(strings.Join(strings.Fields(strings.ReplaceAll(text[at[0]:at[1]], "//", "")), " "))
			i := slices.IndexFunc(list, func(p phrase) bool { return p.bad == match })
			found(strings.Count(text[:at[0]], "\n"), list[i])
		}
	}
}

var codeSpan = regexp.MustCompile("(?s)```.*?```|`[^`]*`|\"[^\"\n]*\"|<!--.*?-->")

// withoutCode blanks code blocks, code spans, quotations and comments of Markdown, and keeps the line ends.
func withoutCode(text string) string {
	return codeSpan.ReplaceAllStringFunc(text, func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) })
}
