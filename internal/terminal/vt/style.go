package vt

import "fmt"

// Color is a colour as the program asked for it: the default, a number of the palette, or red, green and blue.
type Color uint32

const (
	paletteColor Color = 1 << 24
	rgbColor     Color = 2 << 24
)

// Palette is colour n of the 256.
func Palette(n uint8) Color { return paletteColor | Color(n) }

// RGB is a colour by its parts.
func RGB(r, g, b uint8) Color { return rgbColor | Color(r)<<16 | Color(g)<<8 | Color(b) }

// IsDefault reports whether c is the default colour.
func (c Color) IsDefault() bool { return c == 0 }

// Palette is the number in the palette, if it is one of the palette's.
func (c Color) Palette() (n uint8, ok bool) { return uint8(c), c&^0xffffff == paletteColor }

// RGB is the colour's parts, if it was given by them.
func (c Color) RGB() (r, g, b uint8, ok bool) {
	return uint8(c >> 16), uint8(c >> 8), uint8(c), c&^0xffffff == rgbColor
}

// String is "" for the default, "p12" for the palette and "#rrggbb" otherwise.
func (c Color) String() string {
	switch c &^ 0xffffff {
	case paletteColor:
		return fmt.Sprintf("p%d", uint8(c))
	case rgbColor:
		return fmt.Sprintf("#%06x", uint32(c&0xffffff))
	}
	return ""
}

// attr is everything SGR, DECSCA and OSC 8 say about a cell. It is comparable: equal attrs have the same number in the styles table.
type attr struct {
	fg, bg, ul Color
	flags      flags
	underline  uint8 // 0 none, 1 single, 2 double, 3 curly, 4 dotted, 5 dashed
	link       *link // nil: none
}

// flags are the attributes that are on or off.
type flags uint16

const (
	bold flags = 1 << iota
	dim
	italic
	blink
	inverse
	hidden
	strike
	overline
	protected // DECSCA: selective erase spares it
)

// link is the target of an OSC 8 hyperlink. Cells of one link point to the same one.
type link struct {
	id  string // what the program called it; often empty
	uri string
}
