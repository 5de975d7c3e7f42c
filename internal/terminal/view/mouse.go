package view

import (
	"bytes"
	"fmt"
)

// mousePlaces is the largest column and row in a report that encodes them as single bytes.
const mousePlaces = 223

// Typed translates the person's input for the program. While the screen is drawn, reports of the
// mouse have positions in the window; Typed turns them into positions on the program's screen, in
// the form that the program chose. It drops clicks beside the screen.
//
// p must consist of whole sequences, as Keys returns them.
func (w *Window) Typed(p []byte) []byte {
	if w.way != drawing || w.modes.mouseEncoding != "sgr" {
		return p
	}
	var out []byte
	for {
		at := bytes.Index(p, []byte("\x1b[<"))
		if at < 0 {
			return append(out, p...)
		}
		out = append(out, p[:at]...)
		n, _ := sequence(p[at:])
		out = w.mouse(out, p[at:at+n])
		p = p[at+n:]
	}
}

// mouse appends one report.
func (w *Window) mouse(out, report []byte) []byte {
	var button, x, y int
	var final byte
	if n, _ := fmt.Sscanf(string(report), "\x1b[<%d;%d;%d%c", &button, &x, &y, &final); n != 4 || final != 'M' && final != 'm' {
		return append(out, report...)
	}
	cols, rows := w.model.Size()
	x, y = x+w.left, y+w.above
	released := final == 'm'
	switch beside := x < 1 || y < 1 || x > cols || y > rows; {
	case beside && !released:
		return out
	case beside: // a button that was pressed on the screen is let go at its edge
		x, y = min(max(x, 1), cols), min(max(y, 1), rows)
	}
	m := w.model.Modes()
	switch {
	case m.MouseEncoding == "sgr":
		return fmt.Appendf(out, "\x1b[<%d;%d;%d%c", button, x, y, final)
	case released && m.Mouse == "x10" || x > mousePlaces || y > mousePlaces:
		return out
	case released:
		button |= 3
	}
	return append(out, 0x1b, '[', 'M', byte(button+32), byte(x+32), byte(y+32))
}

// Encoded reports whether the program asked for keys to be sent as sequences, see Keys.
func (w *Window) Encoded() bool {
	if w.model == nil {
		return false
	}
	m := w.model.Modes()
	return m.KittyFlags != 0 || m.ModifyOtherKeys != 0
}
