package view

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// TestDrawing: in a window of another size a person sees the part of the screen that fits,
// with the cursor in it, and gets the first screen back as it was.
func TestDrawing(t *testing.T) {
	for _, window := range [][2]int{{30, 10}, {200, 60}, {30, 60}, {200, 5}, {2, 1}} {
		for _, kind := range []string{"real", "synth", "rand"} {
			for n, s := range streams(t, kind) {
				if kind != "real" && n%8 != 0 { // enough, and soon done
					continue
				}
				cols, height := window[0], window[1]
				session := vt.New(vt.Config{Cols: s.Cols, Rows: s.Rows, Scrollback: scrollback})
				d := newDesk(t, session, cols, height)
				before := allText(d.own)
				for i, op := range s.Ops {
					if op.Resize != nil {
						session.Resize(op.Resize[0], op.Resize[1])
						d.Resize(op.Resize[0], op.Resize[1])
					} else {
						d.write(op.Write)
					}
					if c, r := session.Size(); c == cols && r == height {
						t.Fatalf("%s: has the size of the window", s.Name)
					}
					if (i+n)%3 == 0 {
						d.flush(s.Name)
						d.part(s.Name)
					}
				}
				d.flush(s.Name)
				d.part(s.Name)
				d.erased = true
				if err := d.Leave(false); err != nil {
					t.Error(err)
				}
				if after := allText(d.own); after != before {
					t.Errorf("%s: left\n%s\nwant\n%s", s.Name, after, before)
				}
				d.clean(s.Name)
			}
		}
	}
}

// part compares what is seen with a part of the session's screen.
func (d *desk) part(name string) {
	d.t.Helper()
	cols, height := d.own.Size()
	all, allRows := d.session.Size()
	shownCols, shownRows := min(cols, all-d.left), min(height, allRows-d.above)
	got, want := rows(d.own, 0, 0, cols, shownRows), rows(d.session, d.left, d.above, shownCols, shownRows)
	if got != want {
		d.t.Errorf("%s, %dx%d from %d,%d of %dx%d: shows\n%s\nwant\n%s", name, cols, height, d.left, d.above, all, allRows, got, want)
	}
	cursor, shown := d.session.Cursor(), d.own.Cursor()
	cursor.X = min(cursor.X, all-1)
	if cursor.Visible && (!shown.Visible || shown.X != cursor.X-d.left || shown.Y != cursor.Y-d.above) || cursor.Style != shown.Style {
		d.t.Errorf("%s: the cursor is %+v of %+v from %d,%d", name, shown, cursor, d.left, d.above)
	}
	modes, own := d.session.Modes(), d.own.Modes()
	if modes.MouseEncoding = "default"; modes.Mouse != "none" {
		modes.MouseEncoding = "sgr" // translated by Typed
	}
	if own.ApplicationCursor != modes.ApplicationCursor || own.BracketedPaste != modes.BracketedPaste || own.Mouse != modes.Mouse || own.MouseEncoding != modes.MouseEncoding ||
		own.KittyFlags != modes.KittyFlags || own.ModifyOtherKeys != modes.ModifyOtherKeys || own.SendFocus != modes.SendFocus || d.own.Title() != d.session.Title() {
		d.t.Errorf("%s: modes %+v, want %+v", name, own, modes)
	}
}

// TestBothWays: between passing and drawing, back and forth, as sizes change.
func TestBothWays(t *testing.T) {
	for n, s := range streams(t, "real") {
		session := vt.New(vt.Config{Cols: s.Cols, Rows: s.Rows, Scrollback: scrollback})
		d := newDesk(t, session, s.Cols, s.Rows)
		d.flush(s.Name)
		for i, op := range s.Ops {
			if op.Resize == nil {
				d.write(op.Write)
			}
			d.erased = d.erased || strings.Contains(string(op.Write), "3J")
			switch cols, height := session.Size(); (i + n) % 5 {
			case 0: // another viewer takes the size
				session.Resize(cols+3, height-1)
				d.Resize(cols+3, height-1)
			case 1: // and gives it back
				cols, height := d.own.Size()
				session.Resize(cols, height)
				d.Resize(cols, height)
			case 2: // the window changes, and the terminal does not follow
				d.own.Resize(cols-5, height+2)
				d.Measure(cols-5, height+2)
				d.Settle()
			case 3: // and changes back
				d.own.Resize(cols, height)
				d.Measure(cols, height)
				d.Settle()
			}
			d.flush(s.Name)
		}
		cols, height := d.own.Size()
		session.Resize(cols, height)
		d.Resize(cols, height)
		d.flush(s.Name)
		if diff := d.differs(); diff != "" {
			t.Errorf("%s: %s", s.Name, diff)
		}
		d.clean(s.Name)
	}
}

// TestNotice: what is said over the screen leaves no trace in it.
func TestNotice(t *testing.T) {
	for _, cols := range []int{60, 70} {
		session := vt.New(vt.Config{Cols: 60, Rows: 5})
		session.Write([]byte("\x1b[2;4rone\r\ntwo\x1b[?6h\x1b[31mred\x1b["))
		d := newDesk(t, session, cols, 5)
		d.Notice("reconnecting…")
		d.flush("")
		if got := d.own.RowText(4); got != "reconnecting…" {
			t.Errorf("in %d columns: %q", cols, got)
		}
		d.write([]byte("32mgreen")) // goes on inside the sequence
		d.Notice("")
		d.flush("")
		if cols == 60 {
			if diff := d.differs(); diff != "" {
				t.Error(diff)
			}
		} else {
			d.part("notice")
		}
		d.clean("notice")
	}
}

// TestStatus: where there is room, a line says that the sizes differ.
func TestStatus(t *testing.T) {
	session := vt.New(vt.Config{Cols: 20, Rows: 3})
	d := newDesk(t, session, 30, 5)
	d.Status("20x3, the size of another viewer; and more")
	d.flush("")
	if got := d.own.RowText(4); got != "20x3, the size of another view" {
		t.Errorf("%q", got)
	}
	d = newDesk(t, session, 30, 3)
	d.Status("no room")
	d.flush("")
	if got := d.own.RowText(2); got != "" {
		t.Errorf("%q", got)
	}
}

// TestLastScreen: what was drawn stays when the program has ended.
func TestLastScreen(t *testing.T) {
	session := vt.New(vt.Config{Cols: 20, Rows: 4})
	session.Write([]byte("\x1b[31mone\x1b[m\r\ntwo\r\n"))
	d := newDesk(t, session, 30, 10)
	d.flush("")
	if err := d.Leave(true); err != nil {
		t.Fatal(err)
	}
	var got []string
	for y := range 5 {
		got = append(got, d.own.RowText(y))
	}
	if text := strings.Join(got, "|"); text != "before|$ trl attachone|two||" && text != "before|$ trl attach|one|two|" {
		t.Errorf("%q", text)
	}
	// And after that it can be shown again.
	d.Repaint()
	d.flush("")
	if d.own.RowText(0) != "one" || !d.own.Alternate() {
		t.Errorf("%q", d.own.RowText(0))
	}
}

// TestUnmeasured: a terminal that does not know its size is passed everything.
func TestUnmeasured(t *testing.T) {
	session := vt.New(vt.Config{Cols: 20, Rows: 4})
	own := vt.New(vt.Config{Cols: 20, Rows: 4})
	w := New(writer(own.Write), 0, 0)
	w.Output([]byte("too early"))
	w.Snapshot(session.Snapshot(0), 20, 4)
	w.Output([]byte("hello"))
	if err := w.Flush(); err != nil || own.RowText(0) != "hello" || own.Alternate() {
		t.Errorf("%q, %v", own.RowText(0), err)
	}
}
