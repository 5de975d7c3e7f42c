package render

import (
	"io"
	"strings"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// The size of a cell, and where in it the base line is. Text is fitted to its cells in every font.
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
`, width, height, width, height, escape(p.opts.Title), p.fg, p.bg)
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
	if _, bg := p.colors(piece.shown()); bg != "" {
		p.say("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
			margin+float64(piece.x)*cellWidth, top, float64(piece.width)*cellWidth, cellHeight, bg)
	}
}

func (p *page) svgText(piece piece, top float64) {
	s := piece.shown()
	decorated := s.Underline > 0 || s.Strike || s.Overline
	blank := strings.Trim(piece.text, " ") == ""
	if blank && !decorated {
		return
	}
	target, linked := link(s.Link)
	if linked {
		p.say(`<a href="%s">`, escape(target))
	}
	if !blank {
		p.say(`<text x="%.1f" y="%.1f" textLength="%.1f" lengthAdjust="spacingAndGlyphs" xml:space="preserve"%s`,
			column(piece.x), top+baseLine, float64(piece.width)*cellWidth, classes(s))
		if fg, _ := p.colors(s); fg != "" {
			p.say(` style="fill:%s"`, fg)
		}
		p.say(">%s</text>", escape(piece.text))
	}
	if decorated {
		p.svgLines(piece, s, top)
	}
	if linked {
		p.say("</a>")
	}
	p.say("\n")
}

func column(x int) float64 { return margin + float64(x)*cellWidth }

// classes is the attribute that names what a style is beside its colours.
func classes(s vt.Style) string {
	var names []string
	for _, class := range []struct {
		on   bool
		name string
	}{{s.Bold, "b"}, {s.Italic, "i"}, {s.Dim, "d"}, {s.Hidden, "h"}, {s.Blink, "k"}} {
		if class.on {
			names = append(names, class.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ` class="` + strings.Join(names, " ") + `"`
}

// svgLines draws the lines under, through and over text. They are shapes: viewers of SVG do
// not agree on text-decoration, and none gives it a colour of its own.
func (p *page) svgLines(piece piece, s vt.Style, top float64) {
	fg, _ := p.colors(s)
	if fg == "" {
		fg = p.fg
	}
	from, to := column(piece.x), column(piece.x+piece.width)
	line := func(y float64, color, dashes string) {
		if dashes != "" {
			dashes = ` stroke-dasharray="` + dashes + `"`
		}
		p.say(`<path d="M%.1f %.1fH%.1f" stroke="%s" fill="none"%s%s/>`, from, y, to, color, dashes, classes(s))
	}
	under := fg
	if c := p.css(s.UnderlineColor); c != "" {
		under = c
	}
	switch y := top + baseLine + 2; s.Underline {
	case 0:
	case 2:
		line(y-1, under, "")
		line(y+1, under, "")
	case 3:
		p.say(`<path d="M%.1f %.1f`, from, y)
		for range piece.width { // a wave for each column
			p.say("q%.2f -2.4 %.2f 0t%[2]g 0", cellWidth/4, cellWidth/2)
		}
		p.say(`" stroke="%s" fill="none"%s/>`, under, classes(s))
	case 4:
		line(y, under, "1 1.1")
	case 5:
		line(y, under, "2.8 1.4")
	default:
		line(y, under, "")
	}
	if s.Strike {
		line(top+baseLine-4, fg, "")
	}
	if s.Overline {
		line(top+1, fg, "")
	}
}
