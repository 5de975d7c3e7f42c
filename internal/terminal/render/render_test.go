package render_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/terminal/render"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

func terminal(text string) *vt.Terminal {
	t := vt.New(vt.Config{Cols: 30, Rows: 4, Scrollback: 100})
	t.Write([]byte(text))
	return t
}

func html(t *testing.T, text string, opts render.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := render.HTML(&b, terminal(text), opts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func svg(t *testing.T, text string, opts render.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := render.SVG(&b, terminal(text), opts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// body is what is between <pre> and </pre>.
func body(page string) string {
	_, rest, _ := strings.Cut(page, "<pre>")
	text, _, _ := strings.Cut(rest, "</pre>")
	return strings.TrimRight(text, "\n")
}

func TestHTML(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"plain", "hello", "hello"},
		{"escaped", `<b> & "x" 'y'`, "&lt;b&gt; &amp; &#34;x&#34; &#39;y&#39;"},
		{"colour", "\x1b[31mred\x1b[m.", `<span style="color:#cc0000">red</span>.`},
		{"bold is bright", "\x1b[1;31mred", `<span style="color:#ef2929;font-weight:bold">red</span>`},
		{"rgb", "\x1b[38;2;1;2;255;48;5;231mx", `<span style="color:#0102ff;background:#ffffff">x</span>`},
		{"inverse", "\x1b[7mx", `<span style="color:#000000;background:#e5e5e5">x</span>`},
		{"attributes", "\x1b[2;3;5;8;9;53mx", `<span class="k" style="font-style:italic;opacity:.5;visibility:hidden;text-decoration:line-through overline">x</span>`},
		{"underlines", "\x1b[4ma\x1b[4:3;58:5:9mb", `<span style="text-decoration:underline">a</span><span style="text-decoration:underline wavy #ef2929">b</span>`},
		{"wide", "a日b", `a<span class="c w">日</span>b`},
		{"combining", "e\u0301x", "<span class=\"c\">e\u0301</span>x"},
		{"not in every font", "a⣿⠋b─é", `a<span class="c">⣿</span><span class="c">⠋</span>b─é`},
		{"emoji", "a👩\u200d🚀b✅c✔d", "a<span class=\"c w\">👩\u200d</span><span class=\"c w\">🚀</span>b<span class=\"c w\">✅</span>c<span class=\"c\">✔</span>d"},
		{"own colours", "\x1b]4;1;#123456\x07\x1b[31mx\x1b]10;#abcdef\x07\x1b[0;7my", `<span style="color:#123456">x</span><span style="color:#000000;background:#abcdef">y</span>`},
		{"order", "x\u202eabc\u2066", `<span class="c">x</span>ab<span class="c">c</span>`},
		{"blank with a colour", "\x1b[41m  \x1b[m", `<span style="background:#cc0000">  </span>`},
		{"link", "\x1b]8;;https://example.com/?a=1&b=\"2\"\x07x", `<a href="https://example.com/?a=1&amp;b=&#34;2&#34;" rel="noopener noreferrer">x</a>`},
		{"mail", "\x1b]8;;mailto:a@example.com\x07x", `<a href="mailto:a@example.com" rel="noopener noreferrer">x</a>`},
		{"no script", "\x1b]8;;javascript:alert(1)\x07x", "x"},
		{"no data", "\x1b]8;;data:text/html,x\x07x", "x"},
		{"no file", "\x1b]8;;file:///etc/passwd\x07x", "x"},
	} {
		if got := body(html(t, c.text, render.Options{})); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestCursor(t *testing.T) {
	for text, want := range map[string]string{
		"ab":                  `ab<span style="color:#000000;background:#e5e5e5"> </span>`,
		"ab\x1b[1;5H":         `ab  <span style="color:#000000;background:#e5e5e5"> </span>`,
		"a日b\x1b[1;3H":        `a<span class="c w" style="color:#000000;background:#e5e5e5">日</span>b`,
		"abc\x1b[1;2H":        `a<span style="color:#000000;background:#e5e5e5">b</span>c`,
		"abc\x1b[?25l":        "abc",
		"\x1b[7mabc\x1b[1;2H": `<span style="color:#000000;background:#e5e5e5">a</span>b<span style="color:#000000;background:#e5e5e5">c</span>`,
	} {
		if got := body(html(t, text, render.Options{Cursor: true})); got != want {
			t.Errorf("%q: %s\nwant %s", text, got, want)
		}
	}
}

func TestScrollback(t *testing.T) {
	text := "1\r\n2\r\n3\r\n4\r\n5\r\n6"
	for scrollback, want := range map[int]string{0: "3\n4\n5\n6", 1: "2\n3\n4\n5\n6", -1: "1\n2\n3\n4\n5\n6", 50: "1\n2\n3\n4\n5\n6"} {
		if got := body(html(t, text, render.Options{Scrollback: scrollback})); got != want {
			t.Errorf("%d: %q, want %q", scrollback, got, want)
		}
	}
}

func TestTitle(t *testing.T) {
	text := "\x1b]2;<b>\x07"
	if page := html(t, text, render.Options{}); !strings.Contains(page, "<title>&lt;b&gt;</title>") {
		t.Error(page)
	}
	if page := svg(t, text, render.Options{Title: "a & b"}); !strings.Contains(page, "<title>a &amp; b</title>") {
		t.Error(page)
	}
}

// TestSVGStandsAlone: it is XML, fetches nothing, and its text is what the screen shows, each piece where it belongs.
func TestSVGStandsAlone(t *testing.T) {
	page := svg(t, "a <b> & c\r\n\x1b[31;44mred\x1b[m 日本 \x1b]8;;https://example.com\x07link\x1b]8;;javascript:x\x07no\r\n\x1b[4:3mcurly \x1b[7minverse\ufffe\uffff", render.Options{Cursor: true})
	var texts []string
	for d := xml.NewDecoder(strings.NewReader(page)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s\n%s", err, page)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "text" {
			var text string
			if err := d.DecodeElement(&text, &start); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
		}
	}
	want := []string{"a <b> & c", "red", "日", "本", "link", "no", "curly ", "inverse", "\ufffd", "\ufffd"}
	if got := strings.Join(texts, "|"); !strings.HasPrefix(got, strings.Join(want, "|")) {
		t.Errorf("%q, want %q", got, want)
	}
	if found := regexp.MustCompile(`(?i)<script|javascript:|@import|url\(|\son[a-z]+=|src=`).FindString(page); found != "" {
		t.Errorf("contains %s", found)
	}
	if !strings.Contains(page, `<a href="https://example.com">`) || strings.Count(page, "href=") != 1 {
		t.Errorf("links: %s", page)
	}
	// The wide character after "red " begins in column 4.
	if !strings.Contains(page, `<text x="41.6" y="38.0" textLength="16.8" lengthAdjust="spacingAndGlyphs" xml:space="preserve">日</text>`) {
		t.Errorf("a wide character is not in its place: %s", page)
	}
}

// TestSVGColumns: text is in its columns, however wide the font makes the text before it.
func TestSVGColumns(t *testing.T) {
	page := svg(t, "ab⣿cd👩\u200d🚀ef✔g", render.Options{})
	var got []string
	for _, m := range regexp.MustCompile(`<text x="([0-9.]+)".*>(.*)</text>`).FindAllStringSubmatch(page, -1) {
		x, _ := strconv.ParseFloat(m[1], 64)
		got = append(got, fmt.Sprintf("%.0f %s", (x-8)/8.4, m[2]))
	}
	want := []string{"0 ab", "2 ⣿", "3 cd", "5 👩\u200d", "7 🚀", "9 ef", "11 ✔", "12 g"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSVGLines: each line under, through and over text, in its own colour.
func TestSVGLines(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[4;58:2::1:2:3;31mx": `M8.0 23.0H16.4" stroke="#010203"`,
		"\x1b[4:3;58:5:9mx":       ` -2.4 4.20 0t4.2 0" stroke="#ef2929"`,
		"\x1b[4:5mx":              `H16.4" stroke="#e5e5e5" fill="none" stroke-dasharray="2.8 1.4"`,
		"\x1b[9;32;2mx":           `M8.0 17.0H16.4" stroke="#4e9a06" fill="none" class="d"`,
		"\x1b[53m  \x1b[m.":       `M8.0 9.0H24.8" stroke="#e5e5e5"`,
	} {
		if page := svg(t, text, render.Options{}); !strings.Contains(page, want) {
			t.Errorf("%q: %s\nwant %s", text, page, want)
		}
	}
}

// TestTheme: colours that the program did not choose are those of the theme, and nothing in a theme gets into the page that is no colour.
func TestTheme(t *testing.T) {
	theme := render.Theme{Foreground: "#111111", Background: "#222222", Palette: strings.Split("#000001:#000002:#000003:#000004:#000005:#000006:#000007:#000008", ":")}
	text := "\x1b[31ma\x1b[91mb\x1b[0;7mc"
	for name, page := range map[string]string{"html": html(t, text, render.Options{Theme: theme}), "svg": svg(t, text, render.Options{Theme: theme})} {
		for _, color := range []string{"#111111", "#222222", "#000002"} {
			if !strings.Contains(page, color) {
				t.Errorf("%s: no %s: %s", name, color, page)
			}
		}
		if strings.Contains(page, "#ef2929") {
			t.Errorf("%s: a bright colour is not that of the theme: %s", name, page)
		}
	}
	bad := render.Theme{Foreground: `"><script>`, Background: "red", Palette: []string{"#12345", "</style>", "#zzzzzz"}}
	if html(t, text, render.Options{Theme: bad}) != html(t, text, render.Options{}) || svg(t, text, render.Options{Theme: bad}) != svg(t, text, render.Options{}) {
		t.Error("a bad theme was taken")
	}
}

// TestErrorsAreTold: a writer that is full is not a success.
func TestErrorsAreTold(t *testing.T) {
	if render.HTML(full{}, terminal("x"), render.Options{}) == nil || render.SVG(full{}, terminal("x"), render.Options{}) == nil {
		t.Error("no error")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// FuzzSVG: for any output of a program, the picture is well-formed XML and contains only links to the web and to mail.
func FuzzSVG(f *testing.F) {
	f.Add([]byte("\x1b]8;;https://a\"<>\x07x\x1b[7m<&>\u0301日"))
	f.Add([]byte("\x1b[?25h\ufffe\x1b]2;<title>\x07"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, page := range []string{svg(t, string(text), render.Options{Scrollback: -1, Cursor: true})} {
			for d := xml.NewDecoder(strings.NewReader(page)); ; {
				token, err := d.Token()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("%s\n%s", err, page)
				}
				start, ok := token.(xml.StartElement)
				if !ok {
					continue
				}
				for _, a := range start.Attr {
					if lower := strings.ToLower(a.Value); a.Name.Local == "href" && !strings.HasPrefix(lower, "http:") && !strings.HasPrefix(lower, "https:") && !strings.HasPrefix(lower, "mailto:") {
						t.Fatalf("a link to %q", a.Value)
					}
				}
			}
		}
	})
}
