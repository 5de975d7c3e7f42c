package vt

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode"
)

// stream is what is written to a terminal, with resizes and checkpoints.
type stream struct {
	Name string `json:"name"`
	Cols int    `json:"cols"`
	Rows int    `json:"rows"`
	Ops  []op   `json:"ops"`

	Scrollback *int `json:"scrollback,omitempty"` // lines kept; 10,000 unless it says otherwise
}

// op is one of: bytes, a size, a checkpoint.
type op struct {
	Write      []byte `json:"w,omitempty"`
	Resize     []int  `json:"r,omitempty"`
	Checkpoint int    `json:"c,omitempty"`
}

// states is what the page showed at the checkpoints of a stream and at its end.
type states struct {
	Name    string      `json:"name"`
	Crashed bool        `json:"crashed"` // the page threw an exception on the way
	States  []pageState `json:"states"`
}

type pageState struct {
	X          int            `json:"cx"`
	Y          int            `json:"cy"`
	Alternate  bool           `json:"alt"`
	Title      string         `json:"title"`
	Hidden     bool           `json:"hidden"`
	Modes      map[string]any `json:"modes"`
	Text       [][]string     `json:"t"`
	Attributes [][]string     `json:"a"`
	Wrapped    []bool         `json:"wr"`
	Lines      int            `json:"sbn"`
	Scrollback []string       `json:"sb"`
}

// play writes a stream to a terminal in pieces of at most cut bytes; 0 does not cut. It calls checkpoint at each.
func (s stream) play(cut int, checkpoint func(t *Terminal, scrollback bool)) *Terminal {
	lines := 10000
	if s.Scrollback != nil {
		lines = *s.Scrollback
	}
	t := New(Config{Cols: s.Cols, Rows: s.Rows, Scrollback: lines})
	for _, o := range s.Ops {
		switch {
		case o.Resize != nil:
			t.Resize(o.Resize[0], o.Resize[1])
		case o.Checkpoint != 0:
			checkpoint(t, o.Checkpoint == 2)
		default:
			for b := o.Write; len(b) > 0; {
				n := len(b)
				if cut > 0 {
					n = min(n, cut)
				}
				t.Write(b[:n])
				b = b[n:]
			}
		}
	}
	return t
}

// run plays a stream, cut as play does, and returns the states at its checkpoints and its end.
func (s stream) run(cut int) []pageState {
	var all []pageState
	t := s.play(cut, func(t *Terminal, scrollback bool) { all = append(all, t.pageState(scrollback)) })
	return append(all, t.pageState(true))
}

// pageState is the terminal in the page's words.
func (t *Terminal) pageState(scrollback bool) pageState {
	m := t.Modes()
	c := t.Cursor()
	s := pageState{X: c.X, Y: c.Y, Alternate: t.Alternate(), Title: t.Title(), Hidden: !c.Visible, Lines: t.history.len(), Modes: map[string]any{
		"applicationCursorKeysMode": m.ApplicationCursor, "applicationKeypadMode": m.ApplicationKeypad,
		"bracketedPasteMode": m.BracketedPaste, "insertMode": m.Insert, "mouseTrackingMode": m.Mouse, "originMode": m.Origin,
		"reverseWraparoundMode": m.ReverseWraparound, "sendFocusMode": m.SendFocus, "synchronizedOutputMode": m.SynchronizedOutput,
		"wraparoundMode": m.Wraparound,
	}}
	for y := range t.rows {
		cells, wrapped, _ := t.row(y)
		var text, attributes []string
		for _, c := range cells {
			content := string(t.text(nil, c))
			switch {
			case c.width() == 0:
				content = ""
			case content == "":
				content = " "
			}
			text = append(text, content)
			attributes = append(attributes, t.style(c).page())
		}
		s.Text = append(s.Text, text)
		s.Attributes = append(s.Attributes, attributes)
		s.Wrapped = append(s.Wrapped, wrapped)
	}
	if scrollback {
		s.Scrollback = []string{}
		for y := -t.history.len(); y < 0; y++ {
			cells, _, _ := t.row(y)
			var line []byte
			for x := 0; x < min(contentLen(cells), len(cells)); x += max(cells[x].width(), 1) {
				was := len(line)
				if line = t.text(line, cells[x]); len(line) == was {
					line = append(line, ' ')
				}
			}
			s.Scrollback = append(s.Scrollback, strings.TrimRightFunc(string(line), unicode.IsSpace))
		}
	}
	return s
}

// page is a style as the recorded states have it.
func (a attr) page() string {
	set := ""
	for i, letter := range "BDI" {
		if a.flags&(1<<i) != 0 {
			set += string(letter)
		}
	}
	if a.underline != 0 || a.link != nil { // the page underlines links
		set += "U"
	}
	for i, letter := range "KRHS" {
		if a.flags&(blink<<i) != 0 {
			set += string(letter)
		}
	}
	return a.fg.String() + "," + a.bg.String() + "," + set
}

// difference says what differs first, "" when nothing does.
func (got pageState) difference(want pageState) string {
	for y := range want.Text {
		if y >= len(got.Text) {
			return "rows"
		}
		for x := range want.Text[y] {
			if g, w := got.Text[y][x], want.Text[y][x]; g != w {
				return fmt.Sprintf("text at %d,%d: %q, want %q; row %q, want %q", x, y, g, w, strings.Join(got.Text[y], ""), strings.Join(want.Text[y], ""))
			}
		}
	}
	for y := range want.Attributes {
		for x := range want.Attributes[y] {
			if g, w := got.Attributes[y][x], want.Attributes[y][x]; g != w {
				return fmt.Sprintf("attributes at %d,%d: %q, want %q", x, y, g, w)
			}
		}
	}
	if got.X != want.X || got.Y != want.Y {
		return fmt.Sprintf("cursor %d,%d, want %d,%d", got.X, got.Y, want.X, want.Y)
	}
	if !reflect.DeepEqual(got.Wrapped, want.Wrapped) {
		return fmt.Sprintf("wraps %v, want %v", got.Wrapped, want.Wrapped)
	}
	if got.Lines != want.Lines {
		return fmt.Sprintf("%d lines of scrollback, want %d", got.Lines, want.Lines)
	}
	for y := range want.Scrollback {
		if y >= len(got.Scrollback) || got.Scrollback[y] != want.Scrollback[y] {
			return fmt.Sprintf("scrollback %d: %q, want %q", y, got.Scrollback[y], want.Scrollback[y])
		}
	}
	for name, w := range want.Modes {
		if g := got.Modes[name]; g != w {
			return fmt.Sprintf("mode %s %v, want %v", name, g, w)
		}
	}
	if got.Title != want.Title || got.Hidden != want.Hidden || got.Alternate != want.Alternate {
		return fmt.Sprintf("title %q hidden %v alternate %v, want %q %v %v", got.Title, got.Hidden, got.Alternate, want.Title, want.Hidden, want.Alternate)
	}
	return ""
}

// readLines decodes one value per line of a file, which may be compressed.
func readLines[T any](t testing.TB, path string) []T {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = bufio.NewReader(f)
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(r); err != nil {
			t.Fatal(err)
		}
	}
	var all []T
	for d := json.NewDecoder(r); ; {
		var v T
		err := d.Decode(&v)
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
}

// compare plays streams, cut as play does, and returns what differs from the recorded states, by name.
func compare(streams []stream, want []states, cut int) map[string]string {
	different := map[string]string{}
	for i, s := range streams {
		for n, got := range s.run(cut) {
			if d := got.difference(want[i].States[n]); d != "" {
				different[s.Name] = fmt.Sprintf("state %d: %s", n, d)
				break
			}
		}
	}
	return different
}

// knownDifferences are the streams that do not end as the page does. testdata/differences.md has the reasons.
var knownDifferences = map[string]bool{
	"erase/ED1-6;20": true, "erase/ED?1-6;20": true, "wild/true/1000014": true, "wild/false/1000141": true, // the page throws an exception
	"wild/true/1000040": true, // the page mixes up combining characters
}

// TestConformance plays the recorded streams. Exactly the known differences are there.
func TestConformance(t *testing.T) {
	for _, corpus := range []string{"synth", "rand", "generated"} {
		t.Run(corpus, func(t *testing.T) {
			streams := corpusStreams(t, corpus)
			different := compare(streams, readLines[states](t, "testdata/"+corpus+".states.jsonl.gz"), 0)
			for name, d := range different {
				if !knownDifferences[name] {
					t.Errorf("%s: %s", name, d)
				}
			}
			for _, s := range streams {
				if knownDifferences[s.Name] && different[s.Name] == "" {
					t.Errorf("%s: no longer differs: take it from the list", s.Name)
				}
			}
		})
	}
}

// TestCuts plays the recorded streams in small pieces: the state does not depend on where they are cut.
func TestCuts(t *testing.T) {
	for _, corpus := range []string{"synth", "rand", "generated"} {
		t.Run(corpus, func(t *testing.T) {
			nothing := func(*Terminal, bool) {}
			for _, s := range corpusStreams(t, corpus) {
				whole := s.play(0, nothing)
				for cut := 1; cut <= 17; cut++ {
					if pieces := s.play(cut, nothing); !pieces.sameAs(whole) {
						t.Errorf("%s: in pieces of %d: %s", s.Name, cut, pieces.pageState(true).difference(whole.pageState(true)))
					}
				}
			}
		})
	}
}

// sameAs says whether two terminals that got the same bytes are the same.
func (t *Terminal) sameAs(other *Terminal) bool {
	same := reflect.DeepEqual(t.parser.state, other.parser.state) && t.visible() == other.visible() && t.pen.sameAs(other.pen) &&
		t.charsets == other.charsets && t.gl == other.gl && t.joining == other.joining && t.history.len() == other.history.len() &&
		reflect.DeepEqual(t.replies, other.replies) && string(t.unfinished(nil)) == string(other.unfinished(nil))
	for y := -t.history.len(); same && y < t.rows; y++ {
		cells, wrapped, _ := t.row(y)
		cells2, wrapped2, _ := other.row(y)
		same = wrapped == wrapped2 && len(cells) == len(cells2)
		for x := 0; same && x < len(cells); x++ {
			a, b := cells[x], cells2[x]
			same = a.width() == b.width() && t.style(a).sameAs(other.style(b)) && (a.ch == b.ch || string(t.text(nil, a)) == string(other.text(nil, b)))
		}
	}
	return same
}

func (a attr) sameAs(other attr) bool {
	if a.link != nil && other.link != nil && *a.link == *other.link {
		a.link = other.link
	}
	return a == other
}

// corpusStreams are the streams of a corpus: from its file, or made anew.
func corpusStreams(t testing.TB, corpus string) []stream {
	if corpus == "generated" {
		return generatedStreams()
	}
	return readLines[stream](t, "testdata/"+corpus+".streams.jsonl.gz")
}
