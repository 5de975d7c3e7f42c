package vt

// cell is one column of one row.
//
// ch holds what is in it: the low 21 bits are a code point, or the number of a cluster when isCluster is set; 0 is a cell that was never
// written, which is not the same as a space. The two bits above say how wide it is. So a cell with a narrow character is the character
// itself, and the zero cell is an empty one of the default style.
type cell struct {
	ch    uint32
	style uint32 // number in Terminal.styles; 0 is the default style
}

const (
	chMask    = 1<<21 - 1
	isCluster = 1 << 21 // the low bits are a number in Terminal.clusters
	isSpacer  = 1 << 22 // the right half of a wide character: no width, no text
	isWide    = 1 << 23 // two columns; the next cell is a spacer
	widthMask = isSpacer | isWide
)

// width is 0 for the right half of a wide character, 2 for its left half, otherwise 1.
func (c cell) width() int {
	switch c.ch & widthMask {
	case isSpacer:
		return 0
	case isWide:
		return 2
	}
	return 1
}

// empty says whether nothing was ever written here (it may still have a background).
func (c cell) empty() bool { return c.ch == 0 }

// line is one row of a screen. It has as many cells as the screen has columns, or more on the alternate screen: cells that a narrower
// window hides are visible again in a wider one.
type line struct {
	cells   []cell
	wrapped bool   // it continues the line before: no newline was between them
	version uint64 // Terminal.stamp when it last changed
}
