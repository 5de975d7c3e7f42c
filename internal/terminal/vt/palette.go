package vt

import (
	"fmt"
	"strconv"
	"strings"
)

// palette is what the program made of the colours (OSC 4, 10, 11, 12). What the others look like is the page's business.
type palette struct {
	colors  map[uint8]Color // colours that the program set
	special [3]Color        // foreground, background, cursor; 0 when not set
}

// The answers to a program that asks for a colour it did not set: light grey on black, for every viewer.
var (
	defaultSpecial = [3]Color{RGB(0xe5, 0xe5, 0xe5), RGB(0, 0, 0), RGB(0xe5, 0xe5, 0xe5)}
	defaultColors  = [16]uint32{
		0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5,
		0x7f7f7f, 0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff,
	}
)

// defaultColor returns the default of colour n of 256: sixteen, a cube of 6x6x6, and 24 greys.
func defaultColor(n uint8) Color {
	if n < 16 {
		return rgbColor | Color(defaultColors[n])
	}
	if n >= 232 {
		grey := 8 + 10*(n-232)
		return RGB(grey, grey, grey)
	}
	n -= 16
	level := func(i uint8) uint8 {
		if i == 0 {
			return 0
		}
		return 55 + 40*i
	}
	return RGB(level(n/36), level(n/6%6), level(n%6))
}

// PaletteColor is what the program made of colour n of the 256; the default when it left it
// alone.
func (t *Terminal) PaletteColor(n uint8) Color { return t.palette.colors[n] }

// DefaultColors are what the program made of the colours of text and background; the default
// when it left them alone.
func (t *Terminal) DefaultColors() (fg, bg Color) { return t.palette.special[0], t.palette.special[1] }

// paletteColors is OSC 4: pairs of a number and a colour, or a question mark.
func (t *Terminal) paletteColors(text []byte) {
	parts := strings.Split(string(text), ";")
	for i := 0; i+1 < len(parts); i += 2 {
		number, err := strconv.ParseUint(parts[i], 10, 8)
		if err != nil {
			continue
		}
		n := uint8(number)
		if parts[i+1] == "?" {
			color, ok := t.palette.colors[n]
			if !ok {
				color = defaultColor(n)
			}
			t.reply("\x1b]4;%d;%s\x1b\\", n, color.x11())
		} else if color, ok := parseColor(parts[i+1]); ok {
			if t.palette.colors == nil {
				t.palette.colors = map[uint8]Color{}
			}
			t.palette.colors[n] = color
		}
	}
}

// specialColors is OSC 10, 11 and 12: foreground, background, cursor; further parts are about the next ones.
func (t *Terminal) specialColors(number int, text []byte) {
	for _, part := range strings.Split(string(text), ";") {
		i := number - 10
		if i >= len(t.palette.special) {
			return
		}
		if part == "?" {
			color := t.palette.special[i]
			if color == 0 {
				color = defaultSpecial[i]
			}
			t.reply("\x1b]%d;%s\x1b\\", number, color.x11())
		} else if color, ok := parseColor(part); ok {
			t.palette.special[i] = color
		}
		number++
	}
}

// reset is OSC 104: the colours with these numbers, or all.
func (p *palette) reset(numbers string) {
	if numbers == "" {
		p.colors = nil
		return
	}
	for _, number := range strings.Split(numbers, ";") {
		if n, err := strconv.ParseUint(number, 10, 8); err == nil {
			delete(p.colors, uint8(n))
		}
	}
}

// parseColor reads a colour as X11 writes it: rgb:r/g/b with one to four digits each, or #rgb with as many for each.
func parseColor(s string) (Color, bool) {
	var parts []string
	if rest, ok := strings.CutPrefix(s, "rgb:"); ok {
		parts = strings.Split(rest, "/")
	} else if rest, ok := strings.CutPrefix(s, "#"); ok && len(rest)%3 == 0 {
		n := len(rest) / 3
		parts = []string{rest[:n], rest[n : 2*n], rest[2*n:]}
	}
	if len(parts) != 3 {
		return 0, false
	}
	var level [3]uint8
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 16, 16)
		if err != nil || len(part) != len(parts[0]) || len(part) > 4 {
			return 0, false
		}
		most := uint64(1)<<(4*len(part)) - 1
		level[i] = uint8(v * 255 / most)
	}
	return RGB(level[0], level[1], level[2]), true
}

// x11 is a colour as X11 writes it, with 16 bits of each part.
func (c Color) x11() string {
	r, g, b, _ := c.RGB()
	return fmt.Sprintf("rgb:%02x%02x/%02x%02x/%02x%02x", r, r, g, g, b, b)
}
