package terminal

import (
	"strings"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// lookCells is about how many cells above the screen are read at a time. That takes a
// millisecond, during which the program waits.
const lookCells = 100_000

// lineLook reads the new lines of a terminal: each line that was written since the last look,
// even if it has left the screen meanwhile. It joins the rows of a wrapped line.
type lineLook struct {
	since *uint64 // the first look reads only lines written after this version; nil: the whole screen

	begun   bool
	version uint64 // of the screen at the last look
	epoch   uint64 // absolute row numbers are comparable only within an epoch
	rebuilt int
	next    int64 // absolute number of the first row to read: rows above it cannot have changed

	// A look may be read in parts. It covers the lines that existed when it began, so that it ends
	// even if the program keeps writing. more is true while parts of it remain.
	more  bool
	until lookEnd
}

// lookEnd is the state of the screen when a look began.
type lookEnd struct {
	version     uint64
	top, bottom int64 // absolute numbers of the screen's first row, and of the row below its last
}

// read returns the new lines; with more, only the first of them.
func (l *lineLook) read(s *screen, v *vt.Terminal) (lines []string, more bool) {
	top := v.ScreenLine()
	cols, rows := v.Size()
	if !l.more || l.epoch != v.Epoch() || l.rebuilt != s.rebuilt {
		l.until = lookEnd{s.at(), top, top + int64(rows)}
	}
	end := min(l.until.bottom, top+int64(rows))
	switch {
	case !l.begun && l.since == nil:
		l.next = top
	case !l.begun:
		l.next, l.version = 0, *l.since
	case l.epoch != v.Epoch() || l.rebuilt != s.rebuilt:
		// Row numbers of the last look are void; the version of each row still counts.
		l.next = 0
	}
	all := !l.begun && l.since == nil
	l.begun, l.epoch, l.rebuilt = true, v.Epoch(), s.rebuilt

	after := s.since(l.version)
	abs := max(l.next, v.FirstLine())
	for pause := abs + int64(lookCells/cols); abs < end; {
		if abs >= pause && abs < top {
			l.next, l.more = abs, true
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
	l.next, l.version, l.more = l.until.top, l.until.version, false
	return lines, false
}

// blanksBeforeCursor returns the blanks between the text in the cursor's row and the cursor. The
// text of a line has no blanks at its end, but a caller may wait for a prompt that ends in one.
func blanksBeforeCursor(v *vt.Terminal) string {
	cursor := v.Cursor()
	used := 0
	for _, r := range v.RowText(cursor.Y) {
		used += vt.RuneWidth(r)
	}
	return strings.Repeat(" ", max(0, cursor.X-used))
}
