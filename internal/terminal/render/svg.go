package render

import (
	"io"
	"strings"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// The size of a cell, and where in it the base line is. Text is fitted to its cells, whatever font there is.
const (
	cellWidth, cellHeight = 8.4, 17.0
	baseLine              = 13.0
	margin                = 8.0
)

// SVG writes a picture of the screen of a terminal, and scrollback above it.
func SVG(w io.Writer, t *vt.Terminal, opts Options) error {
	p := newPage(w, t, opts)
	width := float64(p.cols)*cellWidth + 2*margin
	height := float64(p.rows-p.first)*cellHeight + 2*margin
	p.say(`<svg xmlns="http://www.w3.org/2000/svg" width="%.1f" height="%.1f" viewBox="0 0 %.1f %.1f">
<title>%s</title>
<style>
text { font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: %s; white-space: pre; direction: ltr; unicode-bidi: bidi-override; }
.b { font-weight: bold; } .i { font-style: italic; } .d { opacity: .5; } .h { visibility: hidden; }
.k { animation: k 1s steps(2) infinite; }
@keyframes k { to { visibility: hidden; } }
</style>
<rect width="100%%" height="100%%" fill="%s"/>
`, width, height, width, height, escape(p.opts.Title), foreground, background)
	for y := p.first; y < p.rows; y++ {
		pieces := p.row(y)
		top := margin + float64(y-p.first)*cellHeight
		for _, piece := range pieces {
			p.svgBackground(piece, top)
		}
		for _, piece := range pieces {
			p.svgText(piece, top)
		}
	}
	p.say("</svg>\n")
	return p.Flush()
}

func (p *page) svgBackground(piece piece, top float64) {
	if _, bg := colors(piece.shown()); bg != "" {
		p.say("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
			margin+float64(piece.x)*cellWidth, top, float64(piece.width)*cellWidth, cellHeight, bg)
	}
}

func (p *page) svgText(piece piece, top float64) {
	s := piece.shown()
	decorated := decoration(s)
	if strings.Trim(piece.text, " ") == "" && decorated == "" {
		return
	}
	target, linked := link(s.Link)
	if linked {
		p.say(`<a href="%s">`, escape(target))
	}
	p.say(`<text x="%.1f" y="%.1f" textLength="%.1f" lengthAdjust="spacingAndGlyphs" xml:space="preserve"`,
		margin+float64(piece.x)*cellWidth, top+baseLine, float64(piece.width)*cellWidth)
	var classes []string
	for _, class := range []struct {
		on   bool
		name string
	}{{s.Bold, "b"}, {s.Italic, "i"}, {s.Dim, "d"}, {s.Hidden, "h"}, {s.Blink, "k"}} {
		if class.on {
			classes = append(classes, class.name)
		}
	}
	if len(classes) > 0 {
		p.say(` class="%s"`, strings.Join(classes, " "))
	}
	var rules []string
	if fg, _ := colors(s); fg != "" {
		rules = append(rules, "fill:"+fg)
	}
	if decorated != "" {
		rules = append(rules, "text-decoration:"+decorated)
	}
	if len(rules) > 0 {
		p.say(` style="%s"`, strings.Join(rules, ";"))
	}
	p.say(">%s</text>", escape(piece.text))
	if linked {
		p.say("</a>")
	}
	p.say("\n")
}
