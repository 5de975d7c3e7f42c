package vt

import (
	"fmt"
	"strings"
	"testing"
)

// The recordings of real programs are made by tests/vt/record.py; what xterm.js shows of them is beside them.

func TestRecordingsConform(t *testing.T) {
	streams := readStreams(t, "real")
	want := readLines[states](t, "testdata/real.states.jsonl.gz")
	if len(streams) < 20 || len(streams) != len(want) {
		t.Fatalf("%d streams and %d states", len(streams), len(want))
	}
	checkpoints := 0
	for _, w := range want {
		checkpoints += len(w.States)
	}
	cuts := []int{0, 1, 3, 7, 17}
	if testing.Short() {
		cuts = []int{0, 1}
	}
	for _, cut := range cuts {
		for name, d := range compare(streams, want, cut) {
			t.Errorf("cut %d: %s: %s", cut, name, d)
		}
	}
	t.Logf("%d recordings, %d checkpoints, in pieces of %v bytes", len(streams), checkpoints, cuts)
}

// moreState is what the states of real recordings have beside what pageState has: cells that are overlined, have an underline of another
// kind or colour, or a link; and which lines of scrollback are wrapped.
type moreState struct {
	States []struct {
		Extended [][3]any `json:"e"`
		Wrapped  []int    `json:"sbw"`
	} `json:"states"`
}

func TestRecordingsConformInDetail(t *testing.T) {
	want := readLines[moreState](t, "testdata/real.states.jsonl.gz")
	seen := 0
	for i, s := range readStreams(t, "real") {
		term := New(Config{Cols: s.Cols, Rows: s.Rows, Scrollback: 10000})
		n := 0
		check := func() {
			w := want[i].States[n]
			var expected []string
			for _, e := range w.Extended {
				expected = append(expected, fmt.Sprint(e[0], ",", e[1], " ", e[2]))
			}
			seen += len(expected)
			if d := firstDifference(strings.Join(term.extendedCells(), "\n"), strings.Join(expected, "\n")); d != "" {
				t.Errorf("%s: state %d: %s", s.Name, n, d)
			}
			for y, wrapped := range w.Wrapped {
				if row := y - len(w.Wrapped); term.Row(row).Wrapped != (wrapped == 1) {
					t.Errorf("%s: state %d: row %d: wrapped is wrong", s.Name, n, row)
				}
			}
			n++
		}
		for _, o := range s.Ops {
			if o.Checkpoint != 0 {
				check()
			} else {
				o.apply(term)
			}
		}
		check()
	}
	if seen == 0 {
		t.Error("no recording has such cells")
	}
}

// extendedCells tells what is special about the cells of the screen, as the oracle does.
func (t *Terminal) extendedCells() []string {
	var all []string
	for y := range t.rows {
		for x, c := range t.active.lines[y].cells[:t.cols] {
			a := t.style(c)
			var parts []string
			if a.flags&overline != 0 {
				parts = append(parts, "O")
			}
			if a.underline > 1 {
				parts = append(parts, fmt.Sprintf("u%d", a.underline))
			}
			if a.underline > 0 && a.ul != 0 {
				parts = append(parts, "c"+a.ul.String())
			}
			if a.link != nil {
				parts = append(parts, "l"+a.link.uri)
			}
			if len(parts) > 0 {
				all = append(all, fmt.Sprintf("%d,%d %s", y, x, strings.Join(parts, " ")))
			}
		}
	}
	return all
}
