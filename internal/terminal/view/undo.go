package view

// undo resets the modes that a program may have left behind. It leaves alone which screen is
// shown, titles, kitty keys and colours. It prints nothing and makes the terminal send nothing;
// the position of the cursor is undefined afterwards.
const undo = "\x18" + // ends an unfinished sequence
	"\x1b]8;;\x1b\\" + // no link
	"\x1b[?2026l" + // no batch
	"\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l" + // no mouse
	"\x1b[?1004l\x1b[?2004l\x1b[?2031l" + // no focus, paste, colour scheme
	"\x1b[?1l\x1b[?66l\x1b>" + // cursor keys and keypad
	"\x1b[4l\x1b[20l\x1b[?6l\x1b[?7h\x1b[?45l" + // insert, newline, origin, wrap
	"\x1b[r" + // no region
	"\x0f\x1b(B\x1b)B\x1b*B\x1b+B" + // ASCII
	"\x1b[0 q\x1b[?12l\x1b[?25h" + // the cursor
	"\x1b[0\"q\x1b[0m"

const (
	toAlternate = "\x1b[?1049h"
	toPrimary   = "\x1b[?1049l"
	// reset is an empty first screen in which nothing is set.
	reset = undo + toPrimary + undo + clear
	// clear empties the screen and leaves the scrollback alone: terminals that keep a
	// screen that is erased as a whole do not keep what is erased below the cursor.
	clear = "\x1b[H\x1b[J"

	noModifiedKeys = "\x1b[>4m" // of modifyOtherKeys
	ownColors      = "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\"
	noProgress     = "\x1b]9;4;0\x1b\\"
	pushTitle      = "\x1b[22;0t"
	popTitle       = "\x1b[23;0t"
	popKitty       = "\x1b[<u"
	beginBatch     = "\x1b[?2026h"
	endBatch       = "\x1b[?2026l"
)

// tabStops appends what sets a tab stop every eight columns; the cursor moves.
func tabStops(dst []byte, cols int) []byte {
	dst = append(dst, "\x1b[3g\r\x1bH"...)
	for x := 8; x < cols; x += 8 {
		dst = append(dst, "\x1b[8C\x1bH"...)
	}
	return dst
}
