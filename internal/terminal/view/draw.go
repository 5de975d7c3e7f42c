package view

import (
	"fmt"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// draw begins to draw the screen, on the alternate screen of the person's terminal, or
// goes on with it.
func (w *Window) draw() {
	w.dirty = true
	if w.way == drawing {
		return
	}
	if w.way == passing {
		if w.pushed[1] && w.model.Alternate() {
			w.add(popKitty)
			w.pushed[1], w.kitty[1] = false, 0
		}
		w.add(undo + toPrimary + undo)
		if w.modified {
			w.add(noModifiedKeys)
		}
	}
	w.enter()
	w.add(toAlternate + "\x1b[?7l" + clear) // lines must not wrap
	w.way, w.drawn, w.modes, w.left, w.above = drawing, nil, drawModes{style: "block"}, 0, 0
	w.filter.Reset()
	w.filter.Effects = true
}

// leaveDrawing gives back the first screen as it was.
func (w *Window) leaveDrawing() {
	if w.pushed[1] {
		w.add(popKitty)
		w.pushed[1], w.kitty[1] = false, 0
	}
	if w.modes.modifyOtherKeys != 0 {
		w.add(noModifiedKeys)
	}
	w.add(undo + clear + toPrimary)
	w.way = hidden
}

// frame draws the lines that have changed, and the cursor.
func (w *Window) frame() {
	cols, rows := w.model.Size()
	cursor := w.model.Cursor()
	cursor.X = min(cursor.X, cols-1)
	if cursor.Visible {
		w.left = around(cursor.X, w.left, w.cols)
		w.above = around(cursor.Y, w.above, w.rows)
	}
	w.left, w.above = min(w.left, max(0, cols-w.cols)), min(w.above, max(0, rows-w.rows))

	if len(w.drawn) != w.rows {
		w.drawn = make([]string, w.rows)
		w.add("\x1b[0m" + clear)
	}
	w.add(beginBatch + "\x1b[?25l")
	var line []byte
	for i := range w.rows {
		line = line[:0]
		switch {
		case i == w.rows-1 && w.notice != "":
			line = append(line, "\x1b[7m"+fit(w.notice, w.cols)+"\x1b[0m"...)
		case w.above+i < rows:
			line = w.model.RowPart(w.above+i, w.left, min(w.cols, cols-w.left), line)
		case i == w.rows-1 && w.status != "":
			line = append(line, "\x1b[2m"+fit(w.status, w.cols)+"\x1b[0m"...)
		}
		if string(line) != w.drawn[i] {
			w.drawn[i] = string(line)
			// Erased first: behind the last column there is nothing left to erase from.
			w.add(fmt.Sprintf("\x1b[%d;1H\x1b[K", i+1))
			w.buf = append(w.buf, line...)
		}
	}
	if x, y := cursor.X-w.left, cursor.Y-w.above; cursor.Visible && x >= 0 && x < w.cols && y >= 0 && y < w.rows {
		w.add(fmt.Sprintf("\x1b[%d;%dH\x1b[?25h", y+1, x+1))
	}
	w.add(endBatch)
}

// around is the first of n columns or rows to show, so that the cursor at x is among them;
// those that were shown, from first on, are kept as far as possible.
func around(x, first, n int) int { return min(max(first, x-n+1), x) }

// fit cuts a text of our own to the width of a line.
func fit(text string, cols int) string {
	if utf8.RuneCountInString(text) > cols {
		return string([]rune(text)[:max(cols, 0)])
	}
	return text
}

// drawModes are the modes that are set on the person's terminal while the screen is drawn:
// those that decide what the keys and the mouse send, and how the cursor looks.
type drawModes struct {
	applicationCursor, applicationKeypad, bracketedPaste, sendFocus bool

	mouse, mouseEncoding string
	modifyOtherKeys      int
	style                string
	blink                bool
}

var mouseModes = map[string]int{"x10": 9, "vt200": 1000, "drag": 1002, "any": 1003}

var mouseEncodings = map[string]int{"sgr": 1006, "sgr-pixels": 1016}

// setModes sets the modes of the program. The mouse always reports in the SGR form, and Typed
// translates the reports into the form that the program chose. Reports in pixels cannot be
// translated, so they are switched off while a part of the screen is hidden: their positions
// would be wrong.
func (w *Window) setModes(m vt.Modes) {
	cols, rows := w.model.Size()
	cursor := w.model.Cursor()
	now := drawModes{
		applicationCursor: m.ApplicationCursor, applicationKeypad: m.ApplicationKeypad,
		bracketedPaste: m.BracketedPaste, sendFocus: m.SendFocus,
		modifyOtherKeys: m.ModifyOtherKeys, style: cursor.Style, blink: cursor.Blink,
	}
	switch pixels := m.MouseEncoding == "sgr-pixels"; {
	case pixels && cols <= w.cols && rows <= w.rows:
		now.mouse, now.mouseEncoding = m.Mouse, m.MouseEncoding
	case !pixels && m.Mouse != "none":
		now.mouse, now.mouseEncoding = m.Mouse, "sgr"
	}
	was := w.modes
	if now == was {
		return
	}
	w.modes = now
	w.onOff(was.applicationCursor, now.applicationCursor, "\x1b[?1h", "\x1b[?1l")
	w.onOff(was.applicationKeypad, now.applicationKeypad, "\x1b=", "\x1b>")
	w.onOff(was.bracketedPaste, now.bracketedPaste, "\x1b[?2004h", "\x1b[?2004l")
	w.onOff(was.sendFocus, now.sendFocus, "\x1b[?1004h", "\x1b[?1004l")
	w.exchange(mouseModes, was.mouse, now.mouse)
	w.exchange(mouseEncodings, was.mouseEncoding, now.mouseEncoding)
	if was.modifyOtherKeys != now.modifyOtherKeys {
		w.add(fmt.Sprintf("\x1b[>4;%dm", now.modifyOtherKeys))
	}
	if was.style != now.style || was.blink != now.blink {
		w.add(cursorStyle(now.style, now.blink))
	}
}

func (w *Window) onOff(was, now bool, on, off string) {
	if was != now && now {
		w.add(on)
	} else if was != now {
		w.add(off)
	}
}

// exchange switches one of several modes off, and another on.
func (w *Window) exchange(modes map[string]int, was, now string) {
	if was == now {
		return
	}
	if n := modes[was]; n != 0 {
		w.add(fmt.Sprintf("\x1b[?%dl", n))
	}
	if n := modes[now]; n != 0 {
		w.add(fmt.Sprintf("\x1b[?%dh", n))
	}
}

var cursorStyles = map[string]int{"block": 2, "underline": 4, "bar": 6}

func cursorStyle(style string, blink bool) string {
	n := cursorStyles[style]
	if blink {
		n--
	}
	return fmt.Sprintf("\x1b[%d q", max(n, 0))
}
