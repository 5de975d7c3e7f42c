package terminal

import (
	"strings"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// lookCells is about how many cells above the screen are read at a time: a millisecond's
// work, in which the program waits.
const lookCells = 100_000

// lineLook reads the lines of a terminal as they come: each that was written since the
// look before, also when it has left the screen meanwhile. The rows of a line that was
// wrapped are joined.
type lineLook struct {
	since *uint64 // of the first look: only what was written after that version; nil: all that is shown

	begun   bool
	version uint64 // of the screen at the last look
	epoch   uint64 // in which absolute numbers mean what they meant then
	rebuilt int
	next    int64 // absolute number of the first row to read: what is above it cannot have changed
}

// read returns the lines, or with more those that come first.
func (l *lineLook) read(s *screen, v *vt.Terminal) (lines []string, more bool) {
	top := v.ScreenLine()
	cols, rows := v.Size()
	end := top + int64(rows)
	switch {
	case !l.begun && l.since == nil:
		l.next = top
	case !l.begun:
		l.next, l.version = 0, *l.since
	case l.epoch != v.Epoch() || l.rebuilt != s.rebuilt:
		// Where a line was says nothing now, only when it was written.
		l.next = 0
	}
	all := !l.begun && l.since == nil
	l.begun, l.epoch, l.rebuilt = true, v.Epoch(), s.rebuilt

	after := s.since(l.version)
	abs := max(l.next, v.FirstLine())
	for pause := abs + int64(lookCells/cols); abs < end; {
		if abs >= pause && abs < top {
			l.next = abs
			return lines, true
		}
		first, written := abs, all
		for next := true; next; next = abs < end && v.Row(int(abs-top)).Wrapped {
			written = written || v.Row(int(abs-top)).Written > after
			abs++
		}
		if written {
			text, _, _ := v.Logical(first)
			lines = append(lines, text)
			if blanks := blanksBeforeCursor(v); blanks != "" && abs-1 == top+int64(v.Cursor().Y) {
				lines = append(lines, text+blanks)
			}
		}
	}
	l.next, l.version = top, s.at()
	return lines, false
}

// blanksBeforeCursor are the blanks between the text in the cursor's row and the cursor.
// A line has none at its end; but a prompt that ends in one is to be found with it.
func blanksBeforeCursor(v *vt.Terminal) string {
	cursor := v.Cursor()
	used := 0
	for _, r := range v.RowText(cursor.Y) {
		used += vt.RuneWidth(r)
	}
	return strings.Repeat(" ", max(0, cursor.X-used))
}
