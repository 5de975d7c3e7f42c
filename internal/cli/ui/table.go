package ui

import (
	"slices"
	"strings"
)

// A Cell is one field of a table.
type Cell struct {
	Text  string
	Style Style
}

// Text returns a cell without a style.
func Text(s string) Cell { return Cell{Text: s} }

// Painted returns a cell in a style.
func Painted(s string, st Style) Cell { return Cell{Text: s, Style: st} }

// A Table is rows of cells below a header.
type Table struct {
	Header []string
	Rows   [][]Cell
	// Spare are the columns that a narrow window does not show, the least important first; nil is
	// all from the last but one backwards, without the first two.
	Spare []string
	// Whole are the columns that are never shortened, beside ID.
	Whole []string
}

// Add adds a row.
func (t *Table) Add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// Table prints aligned columns on a terminal, no wider than its window; elsewhere it prints
// lines of tab-separated fields, without a header.
func (p *Printer) Table(t Table) {
	var b strings.Builder
	if !p.TTY {
		for _, row := range t.Rows {
			for i, c := range row {
				if i > 0 {
					b.WriteByte('\t')
				}
				b.WriteString(OrDash(Printable(c.Text)))
			}
			b.WriteByte('\n')
		}
		_, _ = p.Write([]byte(b.String()))
		return
	}
	rows := make([][]Cell, 0, len(t.Rows)+1)
	head := make([]Cell, len(t.Header))
	for i, name := range t.Header {
		head[i] = Painted(name, Bold)
	}
	rows = append(rows, head)
	for _, row := range t.Rows {
		clean := make([]Cell, len(row))
		for i, c := range row {
			clean[i] = Painted(OrDash(Printable(c.Text)), c.Style)
		}
		rows = append(rows, clean)
	}
	widths := make([]int, len(t.Header))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], Columns([]byte(c.Text)))
		}
	}
	widths = t.fit(widths, p.Width())
	for _, row := range rows {
		b.WriteString(p.row(row, widths))
	}
	_, _ = p.Write([]byte(b.String()))
}

// row formats one line of a table. It leaves out columns without a width.
func (p *Printer) row(cells []Cell, widths []int) string {
	var b strings.Builder
	gap := ""
	for i, c := range cells {
		if widths[i] == 0 {
			continue
		}
		c.Text = Shorten(c.Text, widths[i])
		b.WriteString(gap + p.Paint(c.Style, c.Text))
		gap = strings.Repeat(" ", widths[i]-Columns([]byte(c.Text))+2)
	}
	return b.String() + "\n"
}

// leastColumn is the width that a column keeps when narrow shortens columns.
const leastColumn = 8

// fit returns the widths with which a table fits into the window; 0 leaves a column out. Columns
// without any value go first. Then it shortens the widest columns, and leaves out those that the
// table can spare only if that is not enough: the others get the room.
func (t *Table) fit(full []int, window int) []int {
	full = slices.Clone(full)
	for i := range full {
		if total(full) > window && t.blank(i) {
			full[i] = 0
		}
	}
	spare := t.spare()
	for {
		widths := t.narrow(full, window)
		if total(widths) <= window || len(spare) == 0 {
			return widths
		}
		full[spare[0]], spare = 0, spare[1:]
	}
}

// blank reports whether no row has a value in a column.
func (t *Table) blank(column int) bool {
	return !slices.ContainsFunc(t.Rows, func(row []Cell) bool { return OrDash(row[column].Text) != "-" })
}

// spare returns the columns that a narrow window does not show, in the order in which they go.
func (t *Table) spare() (columns []int) {
	if t.Spare == nil {
		for i := len(t.Header) - 2; i > 1; i-- {
			columns = append(columns, i)
		}
	}
	for _, name := range t.Spare {
		if i := slices.Index(t.Header, name); i >= 0 {
			columns = append(columns, i)
		}
	}
	return columns
}

// narrow reduces widths until they fit into the window, or cannot be less. It takes from the widest
// columns first. It never shortens ids: part of an id is useless.
func (t *Table) narrow(full []int, window int) []int {
	widths := slices.Clone(full)
	for total(widths) > window {
		widest := -1
		for i, w := range widths {
			whole := t.Header[i] == "ID" || slices.Contains(t.Whole, t.Header[i])
			if !whole && w > leastColumn && (widest < 0 || w >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// total is the width of a row.
func total(widths []int) int {
	n := -2
	for _, w := range widths {
		if w > 0 {
			n += w + 2
		}
	}
	return n
}

// Facts prints names and values one below the other.
func (p *Printer) Facts(list [][2]string) {
	t := Table{}
	width := 0
	for _, f := range list {
		width = max(width, len(f[0]))
	}
	if !p.TTY {
		for _, f := range list {
			t.Add(Text(f[0]), Text(f[1]))
		}
		p.Table(t)
		return
	}
	for _, f := range list {
		p.Linef("%s  %s", p.Paint(Bold, f[0])+strings.Repeat(" ", width-len(f[0])), OrDash(Printable(f[1])))
	}
}
