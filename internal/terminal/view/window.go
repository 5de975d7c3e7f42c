package view

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// Window shows a terminal on another one, that of a person.
//
// While both have the same size, what the program writes passes as it is, through a
// Filter: the person's terminal shows it as if the program ran there, and its scrollback
// fills. When the sizes differ, the screen is drawn from a model of the terminal: in the
// upper left corner of a window that is larger, and around the cursor in one that is
// smaller.
//
// What is shown is written by Flush. A Window is used by one goroutine at a time.
type Window struct {
	out  io.Writer
	buf  []byte
	err  error
	cols int // of the person's terminal; 0 if its size is unknown
	rows int

	model  *vt.Terminal // nil before the first snapshot
	way    way
	filter Filter
	status string
	notice string

	title       string
	titled      bool    // the title that was there is on the terminal's stack
	kitty       [2]int  // flags of the first and the alternate screen, as they are there
	pushed      [2]bool // there is an entry of ours on their stacks
	modified    bool    // modifyOtherKeys was switched on
	painted     bool    // the alternate screen that is shown was not entered by the program itself
	paintedCols int     // size of the window when everything was shown last
	paintedRows int
	disturbed   bool      // the window was resized since
	drawn       []string  // the lines as they were drawn
	modes       drawModes // as they were set while drawing
	left, above int       // of a window that is smaller: the columns and rows that are not shown
	dirty       bool      // there is something to draw
	skipping    bool      // the output passes no more until the next Flush, see Skip
}

// way is how the terminal is shown.
type way uint8

const (
	hidden  way = iota
	passing     // the output passes
	drawing     // the screen is drawn from the model
)

// scrollback is how many lines above its screen the model keeps: those that come back when
// the terminal becomes taller.
const scrollback = 1000

// New makes a Window on a terminal of that size; 0 and 0 when it could not be measured.
func New(out io.Writer, cols, rows int) *Window {
	return &Window{out: out, cols: cols, rows: rows}
}

// Snapshot shows a terminal of that size to which data was written.
func (w *Window) Snapshot(data []byte, cols, rows int) {
	w.model = vt.New(vt.Config{Cols: cols, Rows: rows, Scrollback: scrollback})
	w.model.Write(data)
	if w.skipping {
		return
	}
	if w.way != hidden {
		data = w.model.Snapshot(0)
	}
	w.show(data)
}

// show shows the model, of which that is a snapshot.
func (w *Window) show(snapshot []byte) {
	switch {
	case !w.fits():
		w.draw()
	case w.way == hidden:
		w.enter()
		// The used part of the screen moves up into the scrollback.
		w.add(strings.Repeat("\r\n", w.height()))
		w.pass(snapshot)
	default:
		w.repaint(w.comeBack())
	}
	w.follow()
}

// Shown reports whether there was a snapshot yet.
func (w *Window) Shown() bool { return w.model != nil }

// Output takes what the program writes.
func (w *Window) Output(p []byte) {
	if w.model == nil {
		return
	}
	w.model.Write(p)
	w.model.Replies() // the program is answered elsewhere
	if w.skipping {
		w.skip(p)
		return
	}
	w.buf = w.filter.Append(w.buf, p)
	if w.way == drawing {
		w.dirty = true
	} else if w.painted && !w.model.Alternate() {
		// Where the cursor was on the first screen, not every terminal knows when it was
		// not told in the usual way.
		w.repaint(0)
	}
	w.follow()
}

// Resize gives the terminal another size.
func (w *Window) Resize(cols, rows int) {
	if w.model == nil {
		return
	}
	if c, r := w.model.Size(); c == cols && r == rows {
		return
	}
	back := w.comeBack()
	w.model.Resize(cols, rows)
	if w.skipping {
		return
	}
	if w.way == passing && w.fits() {
		w.repaint(back)
	}
	w.Settle()
}

// comeBack is how many lines on the first screen may not belong to the session: lines that were there
// before, and lines that returned from the scrollback when the window grew. Their number is at most
// that of the added rows and of the rows that joining wrapped lines has freed.
func (w *Window) comeBack() int {
	switch {
	case w.paintedRows == 0 || w.way == drawing && w.disturbed:
		return w.height()
	case !w.disturbed:
		return 0
	}
	n := max(0, w.height()-w.paintedRows)
	if w.width() <= w.paintedCols {
		return n
	}
	if w.model.Alternate() {
		return w.height()
	}
	for y := range w.paintedRows {
		if w.model.Row(y).Wrapped {
			n++
		}
	}
	return n
}

// Measure sets the size of the person's terminal. While output is passed on, nothing is drawn anew:
// usually the program's terminal is about to get the same size. Settle says that it will not.
func (w *Window) Measure(cols, rows int) {
	w.cols, w.rows, w.disturbed = cols, rows, true
	if w.way == drawing {
		w.drawn = nil // the terminal may have moved or cut the drawn rows
		w.Settle()
	}
}

// Settle shows the terminal in the way that is right for both sizes as they are.
func (w *Window) Settle() {
	switch {
	case w.model == nil || w.way == hidden:
	case w.skipping:
		w.catchUp()
		return
	case !w.fits():
		w.draw()
	case w.way == drawing || w.disturbed:
		w.repaint(w.comeBack())
	}
	w.follow()
}

// Status is shown in the last line while the screen is drawn and leaves room for it.
func (w *Window) Status(text string) { w.status, w.dirty = text, true }

// Notice is shown over the last line until it is taken back with an empty text. It does
// no harm to the screen.
func (w *Window) Notice(text string) {
	if w.notice == text || w.model == nil {
		return
	}
	w.notice = text
	switch {
	case w.way == drawing:
		w.dirty = true
	case text == "":
		w.Repaint()
	default:
		w.add(fmt.Sprintf("\x1b7\x1b[?6l\x1b[%d;1H\x1b[0;7m\x1b[2K%s\x1b[0m\x1b8", w.height(), fit(text, w.width())))
	}
}

// Repaint draws everything again, also after Leave, or after another program has written to the
// terminal.
func (w *Window) Repaint() {
	switch {
	case w.model == nil:
		return
	case w.way == drawing:
		w.drawn, w.dirty = nil, true
		return
	}
	w.skipping = false
	w.show(w.model.Snapshot(0))
}

// Flush writes what there is to show.
func (w *Window) Flush() error {
	if w.skipping {
		w.catchUp()
	}
	if w.way == drawing && w.dirty {
		w.frame()
		w.dirty = false
	}
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.out.Write(w.buf)
	}
	if w.buf = w.buf[:0]; cap(w.buf) > 1<<20 {
		w.buf = nil
	}
	return w.err
}

// fits reports whether the output may be passed on as it is: the sizes are the same, or one of
// them is unknown.
func (w *Window) fits() bool {
	cols, rows := w.model.Size()
	return w.cols == 0 || w.rows == 0 || w.cols == cols && w.rows == rows
}

func (w *Window) width() int {
	if cols, _ := w.model.Size(); w.cols == 0 {
		return cols
	}
	return w.cols
}

func (w *Window) height() int {
	if _, rows := w.model.Size(); w.rows == 0 {
		return rows
	}
	return w.rows
}

func (w *Window) add(s string) { w.buf = append(w.buf, s...) }

// enter remembers what is on the terminal's stacks.
func (w *Window) enter() {
	if !w.titled {
		w.titled = true
		w.add(pushTitle)
	}
}

// repaint shows the screen of the model in the way of passing. The uppermost lines of the
// first screen, that many, go up into the scrollback first: they would be lost.
func (w *Window) repaint(others int) {
	if w.way == drawing {
		w.leaveDrawing()
	}
	if others > 0 {
		w.add(undo + toPrimary + undo + fmt.Sprintf("\x1b[%d;1H", w.height()) + strings.Repeat("\n", min(others, w.height())))
	}
	w.pass(w.model.Snapshot(0))
}

// pass shows a snapshot on the terminal itself; what follows it passes.
func (w *Window) pass(snapshot []byte) {
	w.way, w.painted, w.disturbed = passing, w.model.Alternate(), false
	w.paintedCols, w.paintedRows = w.width(), w.height()
	w.filter.Reset()
	w.filter.Effects, w.filter.Spare = false, true
	w.add(reset)
	// A snapshot begins with a full reset, which would take the scrollback with it.
	w.buf = w.filter.Append(w.buf, bytes.TrimPrefix(snapshot, []byte("\x1bc")))
	w.filter.Spare = false
	if notice := w.notice; notice != "" {
		w.notice = ""
		w.Notice(notice)
	}
}

// follow brings title and keyboard to what the model has.
func (w *Window) follow() {
	if w.way == hidden {
		return
	}
	if title := w.model.Title(); title != w.title {
		w.title = title
		w.add("\x1b]2;" + strings.Map(printable, title) + "\x1b\\")
	}
	modes := w.model.Modes()
	w.modified = w.modified || modes.ModifyOtherKeys != 0
	if screen := w.screen(); w.kitty[screen] != modes.KittyFlags {
		w.kitty[screen] = modes.KittyFlags
		if w.pushed[screen] {
			w.add(fmt.Sprintf("\x1b[=%d;1u", modes.KittyFlags))
		} else {
			w.add(fmt.Sprintf("\x1b[>%du", modes.KittyFlags))
			w.pushed[screen] = true
		}
	}
	if w.way == drawing {
		w.setModes(modes)
	}
}

func printable(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}

// screen is which screen of the person's terminal is shown: 0 or, for the alternate, 1.
func (w *Window) screen() int {
	if w.way == drawing || w.model.Alternate() {
		return 1
	}
	return 0
}
