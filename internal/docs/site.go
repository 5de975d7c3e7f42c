package docs

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trl-dev/trl"
	"github.com/trl-dev/trl/web"
)

//go:embed assets/style.css assets/search.js
var assets embed.FS

// pictures are the pictures of the documents.
var pictures = []string{"docs/demo.svg", "docs/console-dialogue.webp", "docs/console-phone.webp", "docs/console-recording.webp"}

// policy is the Content-Security-Policy of all pages. Without a policy for Trusted Types no script
// can turn a text into HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// indexFile is the index of the search.
const indexFile = "search.json"

// Names returns the names of all files of the site.
func (s *Site) Names() []string {
	names := []string{"style.css", "search.js", "icon.svg", indexFile}
	for _, p := range pictures {
		names = append(names, path.Base(p))
	}
	for _, p := range s.pages {
		names = append(names, p.Name+".html")
	}
	return names
}

// File returns one file of the site.
func (s *Site) File(name string) (content []byte, found bool) {
	switch name {
	case "style.css", "search.js":
		content, err := assets.ReadFile("assets/" + name)
		return content, err == nil
	case "icon.svg":
		return web.Files()[name], true
	case indexFile:
		return s.index(), true
	}
	if slices.Contains(pictures, "docs/"+name) {
		content, err := trl.Documents.ReadFile("docs/" + name)
		return content, err == nil
	}
	p, _, found := s.Find(strings.TrimSuffix(name, ".html"))
	if !found || !strings.HasSuffix(name, ".html") {
		return nil, false
	}
	return s.html(p), true
}

// Export writes all files of the site into a directory.
func (s *Site) Export(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range s.Names() {
		content, _ := s.File(name)
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// ServeHTTP sends the files of the site to a browser.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	content, found := s.File(name)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "the documentation can only be read", http.StatusMethodNotAllowed)
		return
	case !found:
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	case path.Ext(name) == ".svg":
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	default:
		header.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
	}
	header.Set("Content-Type", contentTypes[path.Ext(name)])
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// contentTypes are the types of the files by their extensions. Package mime would ask the machine's tables.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".json": "application/json", ".png": "image/png", ".svg": "image/svg+xml", ".webp": "image/webp",
}

// renderer returns the renderer of a page.
func (s *Site) renderer(p Page) *renderer {
	return &renderer{link: func(target string) string { return s.address(p, target) }}
}

// html returns a page as a file.
func (s *Site) html(p Page) []byte {
	r := s.renderer(p)
	body := r.render(p.Markdown)
	var b bytes.Buffer
	b.WriteString("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
		"<meta http-equiv=\"Content-Security-Policy\" content=\"" + policy + "\">\n" +
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
		"<meta name=\"color-scheme\" content=\"light dark\">\n" +
		"<title>" + html.EscapeString(p.Title) + " · TRL</title>\n" +
		"<link rel=\"icon\" href=\"icon.svg\">\n<link rel=\"stylesheet\" href=\"style.css\">\n<script src=\"search.js\" defer></script>\n</head>\n<body>\n" +
		"<a class=\"skip\" href=\"#content\">Skip to the content</a>\n" +
		"<header><a class=\"home\" href=\"index.html\">TRL</a> <a class=\"menu\" href=\"#pages\">Pages</a>\n" +
		"<form id=\"search\" role=\"search\" hidden><input type=\"search\" placeholder=\"Search ( / )\" aria-label=\"Search\" " +
		"autocomplete=\"off\" spellcheck=\"false\"><ol id=\"found\" hidden></ol></form></header>\n<div class=\"columns\">\n")
	title, rest, _ := strings.Cut(body, "</h1>\n")
	b.WriteString("<main id=\"content\">\n" + title + "</h1>\n")
	contents(&b, r.sections)
	b.WriteString(rest + "</main>\n")
	s.menu(&b, p)
	b.WriteString("</div>\n</body>\n</html>\n")
	return b.Bytes()
}

// menu writes the list of pages, which a phone shows below the page. The decisions are on a page of
// their own.
func (s *Site) menu(b *bytes.Buffer, current Page) {
	b.WriteString("<nav id=\"pages\" aria-label=\"Pages\">\n")
	group := ""
	for _, p := range s.pages {
		if p.Group == groupDecisions {
			continue
		}
		if p.Group != group {
			if group != "" {
				b.WriteString("</ul>\n")
			}
			group = p.Group
			b.WriteString("<h2>" + group + "</h2>\n<ul>\n")
		}
		mark := ""
		if p.Name == current.Name {
			mark = " aria-current=\"page\""
		}
		fmt.Fprintf(b, "<li><a href=\"%s.html\"%s>%s</a></li>\n", p.Name, mark, html.EscapeString(p.Title))
	}
	b.WriteString("</ul>\n</nav>\n")
}

// contents writes the table of contents of a page with more than a few sections.
func contents(b *bytes.Buffer, sections []section) {
	var lines []string
	for _, s := range sections {
		if s.Level == 2 {
			lines = append(lines, fmt.Sprintf("<li><a href=\"#%s\">%s</a></li>\n", html.EscapeString(s.Anchor), html.EscapeString(s.Heading)))
		}
	}
	if len(lines) > 2 {
		b.WriteString("<details class=\"contents\"><summary>On this page</summary>\n<ul>\n" + strings.Join(lines, "") + "</ul></details>\n")
	}
}

// index returns the index of the search: a row of page, title, anchor, heading and text for each
// section.
func (s *Site) index() []byte {
	var rows [][5]string
	for _, p := range s.pages {
		r := s.renderer(p)
		r.render(p.Markdown)
		for _, x := range r.sections {
			if x.Text != "" || x.Heading != "" {
				rows = append(rows, [5]string{p.Name, p.Title, x.Anchor, x.Heading, x.Text})
			}
		}
	}
	content, err := json.Marshal(rows)
	if err != nil {
		panic(err) // texts have no other form
	}
	return content
}
