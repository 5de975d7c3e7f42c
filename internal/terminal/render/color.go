package render

import (
	"fmt"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// The colours that a terminal has until somebody changes them.
const (
	background = "#000000"
	foreground = "#e5e5e5"
)

var named = [16]string{
	"#2e3436", "#cc0000", "#4e9a06", "#c4a000", "#3465a4", "#75507b", "#06989a", "#d3d7cf",
	"#555753", "#ef2929", "#8ae234", "#fce94f", "#729fcf", "#ad7fa8", "#34e2e2", "#eeeeec",
}

// css is a colour as HTML and SVG write it; "" for the default.
func css(c vt.Color) string {
	if n, ok := c.Palette(); ok {
		return palette(int(n))
	}
	if r, g, b, ok := c.RGB(); ok {
		return fmt.Sprintf("#%02x%02x%02x", r, g, b)
	}
	return ""
}

// palette is colour n of the 256: sixteen with names, a cube of 6x6x6, and 24 greys.
func palette(n int) string {
	switch {
	case n < 16:
		return named[n]
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

// colors are what a style comes to: bold lightens the first eight colours as terminals do, inverse exchanges the two. A background of ""
// is the page's own.
func colors(s vt.Style) (fg, bg string) {
	if n, ok := s.Fg.Palette(); ok && s.Bold && n < 8 {
		s.Fg = vt.Palette(n + 8)
	}
	fg, bg = css(s.Fg), css(s.Bg)
	if s.Inverse {
		if bg == "" {
			bg = background
		}
		if fg == "" {
			fg = foreground
		}
		return bg, fg
	}
	return fg, bg
}
