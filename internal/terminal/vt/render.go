package vt

// RowANSI appends row y as text with SGR sequences. The text begins and ends in the default style, without blanks of that style at the end,
// so rows can be printed one below the other.
func (t *Terminal) RowANSI(y int, dst []byte) []byte {
	if !t.hasRow(y) {
		return dst
	}
	cells, _, _ := t.row(y)
	return t.appendANSI(dst, cells[:t.shown(cells)])
}

// RowPart is RowANSI of the columns from x up to, not including, x+width. A wide character that an edge cuts in two becomes a space.
func (t *Terminal) RowPart(y, x, width int, dst []byte) []byte {
	if !t.hasRow(y) {
		return dst
	}
	cells, _, _ := t.row(y)
	x = min(max(x, 0), len(cells))
	part := append([]cell{}, cells[x:min(x+max(width, 0), len(cells))]...)
	if n := len(part); n > 0 {
		if part[0].ch == isSpacer && x > 0 {
			part[0].ch = ' '
		}
		if part[n-1].width() == 2 {
			part[n-1].ch = ' '
		}
	}
	return t.appendANSI(dst, part[:t.shown(part)])
}

func (t *Terminal) appendANSI(dst []byte, cells []cell) []byte {
	var pen attr
	var number uint32
	for x, c := range cells {
		if c.style != number {
			number = c.style
			next := t.style(c)
			dst = appendRestyle(dst, pen, next)
			pen = next
		}
		if t.lone(c) { // it has a column of its own
			dst = append(dst, ' ')
		}
		dst = t.appendCell(dst, cells, x)
	}
	return appendRestyle(dst, pen, attr{})
}
