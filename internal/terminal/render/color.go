package render

import (
	"fmt"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// Theme is the colours of a terminal that its program did not choose, as #rrggbb. An empty
// one is the default.
type Theme struct {
	Foreground, Background string
	Palette                []string // the first 8 or 16
}

// The colours of a terminal whose program has changed none.
const (
	background = "#000000"
	foreground = "#e5e5e5"
)

var named = [16]string{
	"#2e3436", "#cc0000", "#4e9a06", "#c4a000", "#3465a4", "#75507b", "#06989a", "#d3d7cf",
	"#555753", "#ef2929", "#8ae234", "#fce94f", "#729fcf", "#ad7fa8", "#34e2e2", "#eeeeec",
}

// scheme is the colours of one rendering.
type scheme struct {
	fg, bg string
	t      *vt.Terminal
	named  [16]string
}

// newScheme takes the colours that the program set, then those of the theme, then ours.
func newScheme(t *vt.Terminal, theme Theme) scheme {
	c := scheme{fg: foreground, bg: background, t: t, named: named}
	set := func(to *string, color string) {
		if isColor(color) {
			*to = color
		}
	}
	set(&c.fg, theme.Foreground)
	set(&c.bg, theme.Background)
	for i := range c.named {
		switch n := len(theme.Palette); {
		case i < n:
			set(&c.named[i], theme.Palette[i])
		case n == 8: // a theme of eight has no bright ones of its own
			set(&c.named[i], theme.Palette[i-8])
		}
	}
	fg, bg := t.DefaultColors()
	set(&c.fg, fg.String())
	set(&c.bg, bg.String())
	return c
}

// isColor reports whether s is #rrggbb. A theme comes from a file: nothing else may get into
// the page.
func isColor(s string) bool {
	if len(s) != 7 || s[0] != '#' {
		return false
	}
	for _, b := range []byte(s[1:]) {
		if (b < '0' || b > '9') && (b < 'a' || b > 'f') && (b < 'A' || b > 'F') {
			return false
		}
	}
	return true
}

// css is a colour as HTML and SVG write it; "" for the default.
func (c scheme) css(color vt.Color) string {
	if n, ok := color.Palette(); ok {
		if own := c.t.PaletteColor(n); !own.IsDefault() {
			return own.String()
		}
		return c.palette(int(n))
	}
	return color.String()
}

// palette is colour n of the 256: sixteen with names, a cube of 6x6x6, and 24 greys.
func (c scheme) palette(n int) string {
	switch {
	case n < 16:
		return c.named[n]
	case n < 232:
		level := func(i int) int {
			if i == 0 {
				return 0
			}
			return 55 + 40*i
		}
		n -= 16
		return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
	}
	grey := 8 + 10*(n-232)
	return fmt.Sprintf("#%02x%02x%02x", grey, grey, grey)
}

// colors returns the colours of a style: bold lightens the first eight colours, as terminals do, and inverse exchanges the two. A background
// of "" is that of the page.
func (c scheme) colors(s vt.Style) (fg, bg string) {
	if n, ok := s.Fg.Palette(); ok && s.Bold && n < 8 {
		s.Fg = vt.Palette(n + 8)
	}
	fg, bg = c.css(s.Fg), c.css(s.Bg)
	if s.Inverse {
		if bg == "" {
			bg = c.bg
		}
		if fg == "" {
			fg = c.fg
		}
		return bg, fg
	}
	return fg, bg
}
