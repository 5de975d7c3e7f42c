package docs

import (
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl"
)

func TestRender(t *testing.T) {
	for text, want := range map[string]string{
		"# A `b` *c*\n":                             `<h1 id="a-b-c">A <code>b</code> <em>c</em></h1>`,
		"one\ntwo\n\nthree":                         "<p>one two</p> <p>three</p>",
		"a **b** `c*d*` \\*e\\* < & 2 * 3":          "<p>a <strong>b</strong> <code>c*d*</code> *e* &lt; &amp; 2 * 3</p>",
		"``a`b`` and `open":                         "<p><code>a`b</code> and `open</p>",
		"[a `]` b](x.md#y) [no] (z)":                `<p><a href="to:x.md#y">a <code>]</code> b</a> [no] (z)</p>`,
		"[split\nlabel](x.md)":                      `<p><a href="to:x.md">split label</a></p>`,
		"![a \"b\"](c.svg)":                         `<p><img src="to:c.svg" alt="a &#34;b&#34;"></p>`,
		"<https://a.b/?c&d>":                        `<p><a href="https://a.b/?c&amp;d">https://a.b/?c&amp;d</a></p>`,
		"<script>alert(1)</script>":                 "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
		"<!-- not\nshown -->\nshown":                "<p>shown</p>",
		"```sh\n# <x>\n\n- y\n```\nz":               `<pre class="sh" tabindex="0"><code># &lt;x&gt; - y </code></pre> <p>z</p>`,
		"```\n```":                                  `<pre tabindex="0"><code></code></pre>`,
		"````\n```\n````":                           "<pre tabindex=\"0\"><code>``` </code></pre>",
		"- a\n  b\n- c\n  - d\n\n  e\nf\n":          "<ul> <li>a b </li> <li>c <ul> <li>d </li> </ul> <p>e f</p> </li> </ul>",
		"1. a\n2. b\n\ntext":                        "<ol> <li>a </li> <li>b </li> </ol> <p>text</p>",
		"3) a":                                      `<ol start="3"> <li>a </li> </ol>`,
		"in\n26. text":                              "<p>in 26. text</p>",
		"- a\n\n- b":                                "<ul> <li>a </li> <li>b </li> </ul>",
		"| a | b |\n|---|:-:|\n| `x\\|y` | **z** |": `<div class="table" tabindex="0"><table> <tr><th>a</th><th>b</th></tr> <tr><td><code>x|y</code></td><td><strong>z</strong></td></tr> </table></div>`,
		"> a\n> b":                                  "<blockquote> <p>a b</p> </blockquote>",
		"---":                                       "<hr>",
	} {
		r := &renderer{link: func(target string) string { return "to:" + target }}
		if got := strings.Join(strings.Fields(r.render(text)), " "); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", text, got, want)
		}
	}
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	r := &renderer{link: func(target string) string { return target }}
	r.render("# T\n## system.ping\n## type PlaceOptions\n## What is the same, and what is not\n## Twice\n## Twice\n## `trl_x` & co\n")
	var got []string
	for _, s := range r.sections[1:] {
		got = append(got, s.Anchor)
	}
	want := []string{"systemping", "type-placeoptions", "what-is-the-same-and-what-is-not", "twice", "twice-1", "trl_x--co"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFlow(t *testing.T) {
	const text = "# A\nb\nc\n\n<!-- x -->\n- d\n  e\n  - f\n    g\n\n```sh\nh\ni\n```\n| j |\n|---|\n| k |\nl\nm\n\n1. n\n2. o\n   p\n"
	const want = "# A\nb c\n\n- d e\n  - f g\n\n```sh\nh\ni\n```\n| j |\n|---|\n| k |\nl m\n\n1. n\n2. o p\n"
	if got := Flow(text); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestEveryDocumentIsAPage: a document that is added without a place in the menu is not found.
func TestEveryDocumentIsAPage(t *testing.T) {
	site := New()
	for _, dir := range []string{".", "docs", "docs/adr", "docs/guides"} {
		files, err := trl.Documents.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			path := strings.TrimPrefix(dir+"/"+f.Name(), "./")
			if strings.HasSuffix(path, ".md") && !slices.ContainsFunc(site.pages, func(p Page) bool { return p.path == path }) {
				t.Errorf("%s: is no page of the site", path)
			}
		}
	}
}

var (
	hrefs = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	ids   = regexp.MustCompile(`id="([^"]+)"`)
	tags  = regexp.MustCompile(`</?([a-z0-9]+)`)
)

// TestSiteIsWhole: every link of every page leads to a file and an anchor of the site, every tag is
// closed, and nothing is loaded from elsewhere or runs inline.
func TestSiteIsWhole(t *testing.T) {
	site := New(Page{Name: "made", Title: "Made", Group: GroupReference, Markdown: "# Made\n[api](api#stability)\n"})
	anchors := map[string][]string{}
	for _, name := range site.Names() {
		content, found := site.File(name)
		if !found || len(content) == 0 {
			t.Fatalf("%s: is missing", name)
		}
		for _, m := range ids.FindAllStringSubmatch(string(content), -1) {
			anchors[name] = append(anchors[name], html.UnescapeString(m[1]))
		}
	}
	for _, p := range site.Pages() {
		name := p.Name + ".html"
		content, _ := site.File(name)
		text := string(content)
		for _, m := range hrefs.FindAllStringSubmatch(text, -1) {
			target := html.UnescapeString(m[1])
			file, anchor, _ := strings.Cut(target, "#")
			if strings.HasPrefix(m[0], "href") && strings.HasPrefix(target, "https://") {
				continue
			}
			if file == "" {
				file = name
			}
			if !slices.Contains(site.Names(), file) {
				t.Errorf("%s: %s leads nowhere", name, target)
			} else if anchor != "" && !slices.Contains(anchors[file], anchor) {
				t.Errorf("%s: %s: there is no such anchor", name, target)
			}
		}
		if strings.Contains(text, "<script>") || strings.Contains(text, " style=") || strings.Contains(text, " on") && regexp.MustCompile(`<[^>]* on[a-z]+=`).MatchString(text) {
			t.Errorf("%s: has an inline script or style", name)
		}
		open := map[string]int{}
		for _, m := range tags.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[0], "</") {
				open[m[1]]--
			} else {
				open[m[1]]++
			}
		}
		for tag, n := range open {
			if n != 0 && !slices.Contains([]string{"meta", "link", "input", "img", "hr"}, tag) {
				t.Errorf("%s: %d more <%s> than </%s>", name, n, tag, tag)
			}
		}
	}
}

// TestMarkdownIsUnderstood: no page shows marks that the renderer does not know.
func TestMarkdownIsUnderstood(t *testing.T) {
	site := New()
	code := regexp.MustCompile(`(?s)<pre.*?</pre>|<code>.*?</code>`)
	for _, p := range site.Pages() {
		text := code.ReplaceAllString(site.renderer(p).render(p.Markdown), "")
		for _, mark := range []string{"```", "](", "**", "&lt;!--", "<p>|", "<p>#", "<p>- "} {
			if at := strings.Index(text, mark); at >= 0 {
				t.Errorf("%s: shows %q: …%s…", p.Name, mark, text[max(at-60, 0):min(at+60, len(text))])
			}
		}
	}
}

func TestServe(t *testing.T) {
	site := New()
	get := func(method, path string) *http.Response {
		w := httptest.NewRecorder()
		site.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Result()
	}
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8", "/api.html": "text/html; charset=utf-8",
		"/search.json": "application/json", "/search.js": "text/javascript; charset=utf-8", "/style.css": "text/css; charset=utf-8", "/demo.svg": "image/svg+xml",
		"/console-dialogue.webp": "image/webp"} {
		r := get("GET", path)
		csp := r.Header.Get("Content-Security-Policy")
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != kind || !strings.HasPrefix(csp, "default-src 'none'") {
			t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
		}
		if path != "/demo.svg" && strings.Contains(csp, "unsafe") {
			t.Errorf("%s: %s", path, csp)
		}
	}
	for path, status := range map[string]int{"/nosuch.html": 404, "/api": 404, "/../README.md": 404, "/index": 404} {
		if r := get("GET", path); r.StatusCode != status {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if r := get("POST", "/"); r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", r.StatusCode, r.Header)
	}
}

// TestIndexLeadsToSections: the search finds a section by words of its text, and its anchor exists.
func TestIndexLeadsToSections(t *testing.T) {
	site := New()
	content, _ := site.File("search.json")
	var rows [][5]string
	if err := json.Unmarshal(content, &rows); err != nil {
		t.Fatal(err)
	}
	found := slices.ContainsFunc(rows, func(row [5]string) bool {
		return row[0] == "api" && row[2] == "stability" && row[3] == "Stability" && strings.Contains(row[4], "keeps its name, its type and its meaning")
	})
	if !found || len(rows) < 300 {
		t.Errorf("%d rows; the section on stability: %v", len(rows), found)
	}
}

func TestExport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "site")
	site := New()
	if err := site.Export(dir); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(site.Names()) {
		t.Errorf("%d files, %v; want %d", len(files), err, len(site.Names()))
	}
}

func TestFind(t *testing.T) {
	site := New()
	if _, similar, found := site.Find("quickstrat"); found || similar != "quickstart" {
		t.Errorf("%q %v", similar, found)
	}
	if p, _, found := site.Find("adr-1"); !found || p.path != "docs/adr/0001-runner-per-session.md" {
		t.Errorf("%+v", p)
	}
}

// FuzzRender: every text becomes HTML whose tags are ours, and no text is lost to the search.
func FuzzRender(f *testing.F) {
	for _, p := range New().Pages()[:12] {
		f.Add(p.Markdown)
	}
	f.Add("- a\n\n  ```\n  x\n- b\n> c\n| d |\n|--|\n")
	known := []string{"h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "table", "tr", "th", "td", "div", "blockquote", "pre", "code", "a", "img", "strong", "em", "hr"}
	f.Fuzz(func(t *testing.T, text string) {
		r := &renderer{link: func(target string) string { return target }}
		for _, m := range tags.FindAllStringSubmatch(r.render(text), -1) {
			if !slices.Contains(known, m[1]) {
				t.Errorf("%q: has <%s>", text, m[1])
			}
		}
		Flow(text)
	})
}
