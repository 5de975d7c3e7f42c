// Package docs is the documentation as a site and as pages for a terminal. The documents are the
// Markdown files of the repository, which the program embeds; a page becomes HTML when it is asked
// for. The site needs no network: its style, its script and the index of its search are files of
// its own.
package docs

import (
	"path"
	"slices"
	"strings"

	"github.com/trl-dev/trl"
	"github.com/trl-dev/trl/internal/near"
)

// A Page is one document.
type Page struct {
	Name     string `json:"name"` // in trl docs NAME and, with .html, in addresses
	Title    string `json:"title"`
	Group    string `json:"group"`
	Markdown string `json:"markdown,omitempty"`

	path string // in the repository, for its links; "" for a generated page
}

// The groups of pages, in the order of the menu.
const (
	groupStart     = "Start"
	groupGuides    = "Guides"
	groupConcepts  = "Concepts"
	GroupReference = "Reference"
	groupSubjects  = "Subjects"
	groupProject   = "Project"
	groupDecisions = "Decisions"
)

// pages are the documents in the order of the menu. Other documents in folders follow at the end of
// the folder's group.
var pages = []struct{ group, name, path string }{
	{groupStart, "index", "docs/README.md"},
	{groupStart, "quickstart", "docs/quickstart.md"},
	{groupStart, "readme", "README.md"},
	{groupGuides, "agent-builder", "docs/guides/agent-builder.md"},
	{groupGuides, "ci", "docs/guides/ci.md"},
	{groupGuides, "tmux-user", "docs/guides/tmux-user.md"},
	{groupGuides, "coding-agents", "docs/guides/coding-agents.md"},
	{groupGuides, "operator", "docs/guides/operator.md"},
	{groupConcepts, "concepts", "docs/concepts.md"},
	{groupConcepts, "coming-from", "docs/coming-from.md"},
	{groupConcepts, "comparison", "docs/comparison.md"},
	{groupConcepts, "security", "SECURITY.md"},
	{groupConcepts, "troubleshooting", "docs/troubleshooting.md"},
	{groupSubjects, "terminals", "docs/terminals.md"},
	{groupSubjects, "dialogues", "docs/dialogues.md"},
	{groupSubjects, "runtimes", "docs/runtimes.md"},
	{groupSubjects, "shells", "docs/shells.md"},
	{groupSubjects, "limits", "docs/limits.md"},
	{groupSubjects, "isolation", "docs/isolation.md"},
	{groupSubjects, "network", "docs/network.md"},
	{groupSubjects, "console", "docs/console.md"},
	{groupSubjects, "audit", "docs/audit.md"},
	{groupSubjects, "telemetry", "docs/telemetry.md"},
	{groupSubjects, "macos", "docs/macos.md"},
	{GroupReference, "api", "docs/api.md"},
	{GroupReference, "http", "docs/http.md"},
	{GroupReference, "grpc", "docs/grpc.md"},
	{GroupReference, "python", "sdk/python/README.md"},
	{GroupReference, "typescript", "sdk/typescript/README.md"},
	{GroupReference, "go", "client/README.md"},
	{groupProject, "architecture", "docs/architecture.md"},
	{groupProject, "adr", "docs/adr/README.md"},
	{groupProject, "releasing", "docs/releasing.md"},
	{groupProject, "contributing", "CONTRIBUTING.md"},
	{groupProject, "principles", "PRINCIPLES.md"},
	{groupProject, "changelog", "CHANGELOG.md"},
}

// folders have documents that need no row in pages. name returns the name of a page.
var folders = []struct {
	path, group string
	name        func(file string) string
}{
	{"docs", groupSubjects, withoutSuffix},
	{"docs/guides", groupGuides, withoutSuffix},
	{"docs/adr", groupDecisions, func(file string) string {
		number, _, _ := strings.Cut(file, "-")
		return "adr-" + strings.TrimLeft(number, "0")
	}},
}

func withoutSuffix(file string) string { return strings.TrimSuffix(file, ".md") }

// titles are of pages whose first heading says too little, or too much, in the menu.
var titles = map[string]string{"readme": "README", "python": "The Python client", "typescript": "The TypeScript client"}

// A Site is all pages. It is not changed after New, so any goroutine may use it.
type Site struct{ pages []Page }

// New returns the site of the embedded documents and of generated pages, which come last in their
// groups.
func New(generated ...Page) *Site {
	s := &Site{}
	for _, p := range pages {
		s.pages = append(s.pages, read(p.group, p.name, p.path))
	}
	for _, folder := range folders {
		files, err := trl.Documents.ReadDir(folder.path)
		if err != nil {
			panic(err) // the folder is embedded
		}
		for _, f := range files { // sorted
			file := folder.path + "/" + f.Name()
			known := slices.ContainsFunc(s.pages, func(p Page) bool { return p.path == file })
			if !known && path.Ext(file) == ".md" {
				s.insert(read(folder.group, folder.name(f.Name()), file))
			}
		}
	}
	for _, p := range generated {
		s.insert(p)
	}
	return s
}

// insert adds a page at the end of its group.
func (s *Site) insert(p Page) {
	last := len(s.pages)
	for i, other := range s.pages {
		if other.Group == p.Group {
			last = i + 1
		}
	}
	s.pages = slices.Insert(s.pages, last, p)
}

// read returns the page of an embedded document.
func read(group, name, file string) Page {
	text, err := trl.Documents.ReadFile(file)
	if err != nil {
		panic(err) // every page has a document
	}
	title := titles[name]
	for line := range strings.Lines(string(text)) {
		if heading, ok := strings.CutPrefix(line, "# "); ok && title == "" {
			title = strings.TrimSpace(heading)
		}
	}
	return Page{Name: name, Title: title, Group: group, Markdown: string(text), path: file}
}

// Pages returns all pages, in the order of the menu.
func (s *Site) Pages() []Page { return slices.Clone(s.pages) }

// Find returns the page of that name, or of that file, such as guides/ci.md. If there is none, similar is the most similar name, or "".
func (s *Site) Find(name string) (p Page, similar string, found bool) {
	i := slices.IndexFunc(s.pages, func(p Page) bool { return p.Name == name })
	for _, file := range []string{name, "docs/" + name, "docs/" + name + ".md"} {
		if i < 0 {
			i = slices.IndexFunc(s.pages, func(p Page) bool { return p.path == file && file != "" })
		}
	}
	if i >= 0 {
		return s.pages[i], "", true
	}
	var names []string
	for _, p := range s.pages {
		names = append(names, p.Name)
	}
	return Page{}, near.Word(name, names, 2), false
}

// source is where the files are that are no pages.
const source = "https://github.com/trl-dev/trl/blob/main/"

// address returns the address of a link on a page.
func (s *Site) address(from Page, target string) string {
	file, anchor, _ := strings.Cut(target, "#")
	if anchor != "" {
		anchor = "#" + anchor
	}
	switch {
	case file == "" || strings.Contains(target, "://"):
		return target
	case from.path == "":
		return file + ".html" + anchor // generated pages name other pages
	}
	file = path.Join(path.Dir(from.path), file)
	for _, p := range s.pages {
		if p.path == file || p.path == file+"/README.md" {
			return p.Name + ".html" + anchor
		}
	}
	if slices.Contains(pictures, file) {
		return path.Base(file)
	}
	return source + file + anchor
}
