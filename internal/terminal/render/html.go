package render

import (
	"io"
	"strings"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// HTML writes a page with the screen of a terminal, and scrollback above it.
func HTML(w io.Writer, t *vt.Terminal, opts Options) error {
	p := newPage(w, t, opts)
	p.say(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>%s</title>
<style>
body { margin: 0; background: %s; }
pre { margin: 0; padding: 1ch; display: inline-block; min-width: %dch; color: %s; font: 14px/1.2 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; direction: ltr; unicode-bidi: bidi-override; }
a { color: inherit; }
.c { display: inline-block; width: 1ch; overflow: hidden; vertical-align: bottom; }
.w { width: 2ch; }
.k { animation: k 1s steps(2) infinite; }
@keyframes k { to { visibility: hidden; } }
</style>
</head>
<body>
<pre>`, escape(p.opts.Title), p.bg, p.cols, p.fg)
	for y := p.first; y < p.rows; y++ {
		for _, piece := range p.row(y) {
			p.htmlPiece(piece)
		}
		p.say("\n")
	}
	p.say("</pre>\n</body>\n</html>\n")
	return p.Flush()
}

func (p *page) htmlPiece(piece piece) {
	s := piece.shown()
	rules := p.htmlRules(s)
	target, linked := link(s.Link)
	tag := "span"
	if linked {
		tag = "a"
	}
	if plain := !linked && !piece.alone && !s.Blink && rules == ""; plain {
		p.say("%s", escape(piece.text))
		return
	}
	p.say("<%s", tag)
	if linked {
		p.say(` href="%s" rel="noopener noreferrer"`, escape(target))
	}
	var classes []string
	if piece.alone {
		classes = append(classes, "c")
	}
	if piece.width == 2 && piece.alone {
		classes = append(classes, "w")
	}
	if s.Blink {
		classes = append(classes, "k")
	}
	if len(classes) > 0 {
		p.say(` class="%s"`, strings.Join(classes, " "))
	}
	if rules != "" {
		p.say(` style="%s"`, rules)
	}
	p.say(">%s</%s>", escape(piece.text), tag)
}

func (p *page) htmlRules(s vt.Style) string {
	var rules []string
	add := func(on bool, rule string) {
		if on {
			rules = append(rules, rule)
		}
	}
	fg, bg := p.colors(s)
	add(fg != "", "color:"+fg)
	add(bg != "", "background:"+bg)
	add(s.Bold, "font-weight:bold")
	add(s.Italic, "font-style:italic")
	add(s.Dim, "opacity:.5")
	add(s.Hidden, "visibility:hidden")
	add(p.decoration(s) != "", "text-decoration:"+p.decoration(s))
	return strings.Join(rules, ";")
}

// decoration is the value of text-decoration.
func (p *page) decoration(s vt.Style) string {
	var lines []string
	if s.Underline > 0 {
		lines = append(lines, "underline")
	}
	if s.Strike {
		lines = append(lines, "line-through")
	}
	if s.Overline {
		lines = append(lines, "overline")
	}
	if s.Underline > 1 {
		lines = append(lines, [...]string{2: "double", 3: "wavy", 4: "dotted", 5: "dashed"}[min(s.Underline, 5)])
	}
	if c := p.css(s.UnderlineColor); c != "" && s.Underline > 0 {
		lines = append(lines, c)
	}
	return strings.Join(lines, " ")
}
