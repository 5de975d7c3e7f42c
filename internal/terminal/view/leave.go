package view

import "fmt"

// Leave restores the terminal, with the cursor on a new line. Output that was passed on stays
// visible; a drawn screen stays if last is set. Leave may be called at any time, and more than
// once.
func (w *Window) Leave(last bool) error {
	if w.way == hidden {
		return w.Flush()
	}
	if w.skipping {
		w.catchUp()
	}
	w.dirty = false
	if w.modified {
		w.add(noModifiedKeys)
	}
	if w.way == drawing {
		w.leaveDrawing()
		if last && !w.model.Alternate() {
			w.print()
		}
	} else {
		w.leavePassing()
	}
	if w.pushed[0] {
		w.add(popKitty)
	}
	if w.titled {
		w.add(popTitle)
	}
	if w.filter.Colors {
		w.add(ownColors)
	}
	if w.filter.Progress {
		w.add(noProgress)
		w.filter.Progress = false
	}
	w.way, w.kitty, w.pushed, w.titled, w.title, w.modified = hidden, [2]int{}, [2]bool{}, false, "", false
	return w.Flush()
}

// print leaves the lines of the screen behind.
func (w *Window) print() {
	row, fresh := w.lastRow()
	for y := range row {
		w.buf = append(w.model.RowANSI(y, w.buf), "\r\n"...)
	}
	if !fresh {
		w.buf = append(w.model.RowANSI(row, w.buf), "\r\n"...)
	}
}

// leavePassing switches to the first screen and moves the cursor below its text.
func (w *Window) leavePassing() {
	alternate := w.model.Alternate()
	switch {
	case alternate && w.pushed[1]:
		w.add(popKitty)
	case w.pushed[1]:
		w.add(toAlternate + popKitty)
	}
	w.add(undo + toPrimary + undo)
	if w.filter.Tabs {
		w.buf = tabStops(w.buf, w.width())
	}
	row, fresh := w.height()-1, false
	if !alternate {
		row, fresh = w.lastRow()
	}
	w.add(fmt.Sprintf("\x1b[%d;1H", row+1))
	if !fresh {
		w.add("\r\n")
	}
	w.add("\x1b[J")
}

// lastRow is the last row that shows anything or, when the cursor is at the beginning of
// one below, that one, which is fresh.
func (w *Window) lastRow() (row int, fresh bool) {
	_, rows := w.model.Size()
	for row = rows - 1; row > 0 && w.model.RowText(row) == ""; {
		row--
	}
	cursor := w.model.Cursor()
	if cursor.X == 0 && (cursor.Y > row || w.model.RowText(cursor.Y) == "" && cursor.Y == row) {
		return cursor.Y, true
	}
	return max(row, cursor.Y), false
}
