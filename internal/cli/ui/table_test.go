package ui

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shown returns the lines of a table on a terminal of 80 columns, without the spaces at their ends.
func shown(t *testing.T, table Table) []string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	(&Printer{File: f, TTY: true}).Table(table)
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return Lines(string(b))
}

// row returns one row, of cells that are separated by "|".
func row(words string) (cells []Cell) {
	for word := range strings.SplitSeq(words, "|") {
		cells = append(cells, Text(word))
	}
	return cells
}

func TestTableFitsTheWindow(t *testing.T) {
	long := strings.Repeat("x", 60)
	wide := []string{"ID", "A", "B", "C", "D", "E", "F", "G", "H"}
	for name, c := range map[string]struct {
		table Table
		want  []string
	}{
		"all fits": {
			Table{Header: []string{"A", "B", "C"}, Rows: [][]Cell{row("a||c")}},
			[]string{"A  B  C", "a  -  c"},
		},
		"a column without a value goes first": {
			Table{Header: []string{"A", "B", "C"}, Rows: [][]Cell{row(long + "||0123456789012345")}},
			[]string{"A" + strings.Repeat(" ", 61) + "C", long + "  0123456789012345"},
		},
		"the widest are shortened": {
			Table{Header: []string{"A", "B"}, Rows: [][]Cell{row(long + "|" + long)}},
			[]string{"A" + strings.Repeat(" ", 40) + "B", strings.Repeat("x", 38) + "…  " + strings.Repeat("x", 38) + "…"},
		},
		"an id and what is whole are not": {
			Table{Header: []string{"ID", "A", "B"}, Rows: [][]Cell{row(strings.Repeat("i", 30) + "|" + long + "|" + strings.Repeat("b", 30))}, Whole: []string{"B"}},
			[]string{"ID" + strings.Repeat(" ", 30) + "A" + strings.Repeat(" ", 17) + "B", strings.Repeat("i", 30) + "  " + strings.Repeat("x", 15) + "…  " + strings.Repeat("b", 30)},
		},
		"the last but one goes, and the others get its room": {
			Table{Header: wide, Rows: [][]Cell{row("0123456789|aaaaaaaa|bbbbbbbb|cccccccc|dddddddd|eeeeeeee|ffffffff|" + long + "|hhhhhhhh")}},
			[]string{"ID          A         B         C         D         E         F         H", "0123456789  aaaaaaaa  bbbbbbbb  cccccccc  dddddddd  eeeeeeee  ffffffff  hhhhhhhh"},
		},
		"the caller says what goes": {
			Table{Header: wide, Spare: []string{"none", "B", "A"}, Rows: [][]Cell{row("0123456789012345|aaaaaaaa|bbbbbbbb|cccccccc|dddddddd|eeeeeeee|ffffffff|gggggggggg|hhhhhhhhhh")}},
			[]string{"ID                C         D         E         F         G           H", "0123456789012345  cccccccc  dddddddd  eeeeeeee  ffffffff  gggggggggg  hhhhhhhhhh"},
		},
		"wide characters": {
			Table{Header: []string{"A", "B"}, Rows: [][]Cell{row(strings.Repeat("語", 40) + "|" + strings.Repeat("界", 10)), row("a|b")}},
			[]string{
				"A" + strings.Repeat(" ", 59) + "B",
				strings.Repeat("語", 28) + "…   " + strings.Repeat("界", 10),
				"a" + strings.Repeat(" ", 59) + "b",
			},
		},
	} {
		got := shown(t, c.table)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: prints\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		for _, line := range got {
			if n := Columns([]byte(line)); n > 80 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
	}
}
