package view

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// stream is what a program wrote, as package vt keeps it.
type stream struct {
	Name       string
	Cols, Rows int
	Ops        []struct {
		Write  []byte `json:"w"`
		Resize []int  `json:"r"`
	}
}

func streams(t *testing.T, kind string) []stream {
	t.Helper()
	f, err := os.Open("../vt/testdata/" + kind + ".streams.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	var list []stream
	for dec := json.NewDecoder(z); ; {
		var s stream
		if err := dec.Decode(&s); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
}

// desk is a person's terminal with a Window on it, and the session's terminal beside it.
type desk struct {
	*Window
	t       *testing.T
	own     *vt.Terminal // the person's
	session *vt.Terminal
	erased  bool // the program asked for the scrollback to be erased
}

// newDesk attaches a window of that size to the session.
func newDesk(t *testing.T, session *vt.Terminal, cols, rows int) *desk {
	d := &desk{t: t, own: vt.New(vt.Config{Cols: cols, Rows: rows, Scrollback: 2000}), session: session}
	d.own.Write([]byte("before\r\n$ trl attach"))
	d.Window = New(writer(d.own.Write), cols, rows)
	c, r := session.Size()
	d.Snapshot(session.Snapshot(-1), c, r)
	return d
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// write has the program write.
func (d *desk) write(p []byte) {
	d.session.Write(p)
	d.session.Replies()
	d.Output(p)
}

// flush shows everything. A person's terminal is never asked anything.
func (d *desk) flush(name string) {
	d.t.Helper()
	if err := d.Flush(); err != nil {
		d.t.Error(err)
	}
	if answers := d.own.Replies(); len(answers) > 0 {
		d.t.Errorf("%s: it was asked, and answers %q", name, answers)
	}
}

// rows is the text of a part of a screen.
func rows(t *vt.Terminal, x, y, cols, rows int) string {
	var b strings.Builder
	for i := range rows {
		b.Write(t.RowPart(y+i, x, cols, nil))
		b.WriteByte('\n')
	}
	return b.String()
}

// differs compares what the person sees with what the session shows.
func (d *desk) differs() string {
	cols, height := d.session.Size()
	own, session := d.own, d.session
	if got, want := rows(own, 0, 0, cols, height), rows(session, 0, 0, cols, height); got != want {
		return fmt.Sprintf("shows\n%s\nwant\n%s", got, want)
	}
	if own.Cursor() != session.Cursor() || own.Modes() != session.Modes() || own.Alternate() != session.Alternate() || own.Title() != session.Title() {
		return fmt.Sprintf("cursor %+v, modes %+v, title %q, want %+v, %+v, %q", own.Cursor(), own.Modes(), own.Title(), session.Cursor(), session.Modes(), session.Title())
	}
	return ""
}

// clean compares the person's terminal with one on which nothing ever ran.
func (d *desk) clean(name string) {
	d.t.Helper()
	if err := d.Leave(false); err != nil {
		d.t.Error(err)
	}
	if above := allText(d.own); !d.erased && !strings.Contains(above, "$trlattach") {
		d.t.Errorf("%s: what was on the screen before is gone: %s", name, above)
	}
	cols, height := d.own.Size()
	fresh := vt.New(vt.Config{Cols: cols, Rows: height})
	for _, t := range []*vt.Terminal{d.own, fresh} {
		// Where a cursor was saved on the other screen makes no difference.
		t.Write([]byte("\x1b[?1047h\x1b[H\x1b7\x1b[?1047l\x1b[H\x1b[2J\x1b[3J\x1b7\x1b]7;file:///\x1b\\"))
	}
	if got, want := d.own.Snapshot(0), fresh.Snapshot(0); !bytes.Equal(got, want) {
		d.t.Errorf("%s: left with %q, want %q", name, got, want)
	}
}

func allText(t *vt.Terminal) string {
	_, height := t.Size()
	var b strings.Builder
	for y := -t.ScrollbackLen(); y < height; y++ {
		b.WriteString(strings.ReplaceAll(t.RowText(y), " ", "")) // however it is wrapped
	}
	return b.String()
}

// TestPassing: in a window of the same size a person sees exactly what the session shows,
// whenever they come, and leaves a clean terminal, whenever they go.
func TestPassing(t *testing.T) {
	for _, kind := range []string{"real", "synth", "rand"} {
		seen, garbage := 0, 0
		for n, s := range streams(t, kind) {
			session := vt.New(vt.Config{Cols: s.Cols, Rows: s.Rows, Scrollback: scrollback})
			come := n * 7 % max(len(s.Ops), 1) // somewhere in the middle
			var d *desk
			for i, op := range s.Ops {
				if i == come {
					d = newDesk(t, session, s.Cols, s.Rows)
					d.flush(s.Name)
				}
				switch {
				case d == nil && op.Resize != nil:
					session.Resize(op.Resize[0], op.Resize[1])
					s.Cols, s.Rows = op.Resize[0], op.Resize[1]
				case d == nil:
					session.Write(op.Write)
					session.Replies()
				case op.Resize != nil: // the person's window, which the session follows
					d.own.Resize(op.Resize[0], op.Resize[1])
					d.Measure(op.Resize[0], op.Resize[1])
					session.Resize(op.Resize[0], op.Resize[1])
					d.Resize(op.Resize[0], op.Resize[1])
					d.flush(s.Name)
				default:
					for p := op.Write; len(p) > 0; {
						k := min(len(p), 1+n%100)
						d.write(p[:k])
						d.flush(s.Name)
						p = p[k:]
					}
				}
			}
			if d == nil {
				continue
			}
			for _, op := range s.Ops {
				d.erased = d.erased || bytes.Contains(op.Write, []byte("3J"))
			}
			d.flush(s.Name)
			seen++
			if diff := d.differs(); diff != "" && strings.Contains(s.Name, "broken") {
				garbage++
			} else if diff != "" {
				t.Errorf("%s: %s", s.Name, diff)
			}
			d.clean(s.Name)
		}
		// A sequence that means nothing does not pass. Between a character and one that
		// combines with it, or its repetition, it would have made a difference.
		if t.Logf("%s: %d streams, of which %d differ", kind, seen, garbage); garbage > seen/100 {
			t.Errorf("%s: %d of %d streams differ", kind, garbage, seen)
		}
	}
}

// TestProgressIsTakenAway: a bar that the program shows in the window's frame goes with it.
func TestProgressIsTakenAway(t *testing.T) {
	for output, want := range map[string]bool{
		"\x1b]9;4;1;50\x07": true, "\x1b]9;4;3\x1b\\": true, "\x1b]9;4;1;50\x07\x1b]9;4;0\x07": false, "\x1b]9;done\x07": false, "\x1b]9;42\x07": false, "x": false,
	} {
		for _, cols := range []int{80, 60} { // where it passes, and where it is drawn
			var written bytes.Buffer
			w := New(&written, cols, 24)
			w.Snapshot(nil, 80, 24)
			w.Output([]byte(output))
			_ = w.Flush()
			written.Reset()
			if _ = w.Leave(false); strings.Contains(written.String(), noProgress) != want {
				t.Errorf("%q in %d columns: left with %q", output, cols, written.String())
			}
		}
	}
}
