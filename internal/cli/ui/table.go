package ui

import (
	"strings"
	"unicode/utf8"
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
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	fit(widths, t.Header, p.Width())
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
		gap = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.Text)+2)
	}
	return b.String() + "\n"
}

// leastColumn is the width that a column keeps when fit makes columns narrower.
const leastColumn = 8

// fit reduces the widths of a table until it fits into the window. It takes from the widest
// columns first. If that is not enough, it leaves out columns, from the last but one backwards;
// the first two stay. It never shortens ids: part of an id is useless.
func fit(widths []int, header []string, window int) {
	total := func() int {
		n := -2
		for _, w := range widths {
			if w > 0 {
				n += w + 2
			}
		}
		return n
	}
	for total() > window {
		widest := -1
		for i, w := range widths {
			if header[i] != "ID" && w > leastColumn && (widest < 0 || w >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for i := len(widths) - 2; i > 1 && total() > window; i-- {
		widths[i] = 0
	}
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
