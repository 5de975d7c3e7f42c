package repo_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// phrases are wordings that hide who does what, with the cure. They are matched in any letter
// case, as whole words, also across a line end.
var phrases = []struct{ bad, cure string }{
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

// TestEnglishIsPlain keeps the phrases out of the contract and the documents. Code blocks and
// text between backquotes are left alone.
func TestEnglishIsPlain(t *testing.T) {
	var words []string
	for _, p := range phrases {
		words = append(words, strings.ReplaceAll(p.bad, " ", `(?:\s|//)+`))
	}
	pattern := regexp.MustCompile(`(?i)\b(?:` + strings.Join(words, "|") + `)\b`)
	sourceFiles(t, func(file string) {
		text := read(t, file)
		switch {
		case path.Dir(file) == "api" && path.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go"):
		case path.Ext(file) == ".md" && (strings.HasPrefix(file, "docs/") || path.Dir(file) == "." && file != "CHANGELOG.md" || file == "client/README.md"):
			text = withoutCode(text)
		default:
			return
		}
		for _, at := range pattern.FindAllStringIndex(text, -1) {
			found := strings.ToLower(strings.Join(strings.Fields(strings.ReplaceAll(text[at[0]:at[1]], "//", "")), " "))
			i := slices.IndexFunc(phrases, func(p struct{ bad, cure string }) bool { return p.bad == found })
			t.Errorf("%s:%d: %q: %s", file, 1+strings.Count(text[:at[0]], "\n"), found, phrases[i].cure)
		}
	})
}

var codeSpan = regexp.MustCompile("(?s)```.*?```|`[^`]*`|\"[^\"\n]*\"|<!--.*?-->")

// withoutCode blanks code blocks, code spans, quotations and comments of Markdown, and keeps the line ends.
func withoutCode(text string) string {
	return codeSpan.ReplaceAllStringFunc(text, func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) })
}
