package vt

import "strconv"

// painter writes the bytes that make an empty screen look like ours. It relies on nothing but what every cell is: a cell that was never
// written stays so, a line that was wrapped is wrapped by the terminal that reads this, and colours of erased cells are painted by erasing.
type painter struct {
	t      *Terminal
	out    []byte
	pen    attr   // of the terminal that reads this
	number uint32 // the pen's number in styles

	changes [1024]styleChange // of the same from and to, by a hash of both

	y     int    // its cursor's row
	top   int    // the row that its row 1 is, in origin mode
	edge  bool   // its cursor is behind the last column: the next character wraps
	begun bool   // a row was painted
	above []cell // that row
	room  []cell // for the next
}

// A wide character that stands where a wrap has to be made and the text has nothing to make it with.
const wide = "一"

func (p *painter) csi(final byte, params ...int) {
	p.out = append(p.out, 0x1b, '[')
	for i, n := range params {
		if i > 0 {
			p.out = append(p.out, ';')
		}
		p.out = strconv.AppendInt(p.out, int64(n), 10)
	}
	p.out = append(p.out, final)
}

// move goes to a position, which is not behind the last column, wherever the cursor is.
func (p *painter) move(x, y int) {
	p.csi('H', y-p.top+1, x+1)
	p.y, p.edge = y, false
}

// column goes to a column of the present row.
func (p *painter) column(x int) {
	p.csi('G', x+1)
	p.edge = false
}

// forward moves by n columns.
func (p *painter) forward(n int) {
	if n == 1 {
		p.out = append(p.out, "\x1b[C"...)
	} else {
		p.csi('C', n)
	}
}

// erase empties n cells at the cursor and leaves it there. They get the pen's background.
func (p *painter) erase(n int) {
	if n == 1 {
		p.out = append(p.out, "\x1b[X"...)
	} else {
		p.csi('X', n)
	}
}

// style makes a style of the table the pen. The same few changes come again and again, so what they take is remembered.
func (p *painter) style(number uint32) {
	if number == p.number {
		return
	}
	change := &p.changes[(p.number*0x9e3779b1^number*0x85ebca6b)>>22]
	if change.from != p.number || change.to != number {
		start := len(p.out)
		from := p.number
		p.restyle(p.t.styles.attrs[number])
		*change = styleChange{from, number, append(change.bytes[:0], p.out[start:]...)}
	} else {
		p.out = append(p.out, change.bytes...)
		p.pen = p.t.styles.attrs[number]
	}
	p.number = number
}

// styleChange is the bytes that make one style of the table another.
type styleChange struct {
	from, to uint32
	bytes    []byte
}

// set makes a the pen.
func (p *painter) set(a attr) {
	p.restyle(a)
	p.number = p.t.styles.intern(a)
}

func (p *painter) restyle(a attr) {
	before := len(p.out)
	p.out = appendRestyle(p.out, p.pen, a)
	is, was := a.flags&protected != 0, p.pen.flags&protected != 0
	if is && (!was || len(p.out) > before) { // SGR 0 ends protection as well
		p.out = append(p.out, "\x1b[1\"q"...)
	} else if was && !is {
		p.out = append(p.out, "\x1b[0\"q"...)
	}
	if a.link != p.pen.link {
		p.out = append(p.out, "\x1b]8;"...)
		if a.link != nil && a.link.id != "" {
			p.out = append(append(p.out, "id="...), a.link.id...)
		}
		p.out = append(p.out, ';')
		if a.link != nil {
			p.out = append(p.out, a.link.uri...)
		}
		p.out = append(p.out, "\x1b\\"...)
	}
	p.pen = a
}

// background makes sure that what is erased, or scrolled in, is c.
func (p *painter) background(c Color) {
	if p.pen.bg != c {
		p.set(attr{bg: c})
	}
}

// line paints a line below the one before.
func (p *painter) line(cells []cell, wrapped bool) {
	below := p.paintable(p.room, cells)
	if p.begun {
		p.next(below, wrapped)
	} else if wrapped {
		p.wrappedTop()
	}
	p.row(below)
	p.above, p.room, p.begun = below, p.above, true
}

// paintable is a copy of cells without those that cannot be painted: what is beyond the edge, where a narrower screen hides it, and halves of
// wide characters, which resizing and inserting leave behind.
func (p *painter) paintable(room, cells []cell) []cell {
	t := p.t
	room = append(room[:0], cells[:min(len(cells), t.cols)]...)
	for x := 0; x < len(room); x++ {
		if room[x].ch < 0x7f {
			continue
		}
		if t.printable(room, x) {
			x += room[x].width() - 1
		} else if !t.lone(room[x]) {
			room[x] = cell{0, t.styles.intern(attr{bg: t.style(room[x]).bg})}
		}
	}
	return room
}

// row paints cells over a row that is empty from column 0, where the cursor is, or behind the last column of the row before.
func (p *painter) row(cells []cell) {
	t := p.t
	if n := len(cells); n == t.cols && t.odd(cells[n-1]) && !p.edge {
		cells = cells[:p.oddTail(cells)]
	}
	dirty := -1 // a column that is not empty any more, and has to be
	for x := 0; x < len(cells); {
		c := cells[x]
		if c == (cell{}) && x != dirty {
			n := x + 1
			for n < len(cells) && cells[n] == (cell{}) {
				n++
			}
			if n == len(cells) {
				return
			}
			p.forward(n - x)
			x = n
			continue
		}
		switch {
		case c.ch >= 0x20 && c.ch < 0x7f:
			p.style(c.style)
			for x < len(cells) && cells[x].ch >= 0x20 && cells[x].ch < 0x7f && cells[x].style == c.style {
				p.out = append(p.out, byte(cells[x].ch))
				x++
			}
		case t.printable(cells, x):
			p.style(c.style)
			p.out = t.text(p.out, c)
			x += c.width()
		case t.lone(c):
			p.style(c.style)
			p.column(x) // so that the character does not join the one before it
			p.out = t.text(p.out, c)
			x++
		case t.odd(c) && x+1 < t.cols:
			p.odd(x, c.style)
			x++
			dirty = x
			continue
		default:
			n := x + 1
			for n < len(cells) && cells[n].ch == 0 && cells[n].style == c.style && n != dirty && c.style != 0 {
				n++
			}
			p.background(t.style(c).bg)
			p.erase(n - x)
			if n < t.cols {
				p.forward(n - x)
			}
			p.edge = false
			x = n
			continue
		}
		p.edge = x >= t.cols
	}
	if dirty == len(cells) {
		p.background(0)
		p.erase(1)
	}
}

// An empty cell usually has a background and nothing else, since that is what erasing leaves. What is left of a wide character when its other
// half is written over has the whole style of what was written: such a cell is odd, and can only be painted in the same way.
func (t *Terminal) odd(c cell) bool {
	if c.ch != 0 || c.style == 0 {
		return false
	}
	a := t.style(c)
	return a != attr{bg: a.bg}
}

// odd paints an odd cell at column x. The next column is in use after that, and the cursor on it.
func (p *painter) odd(x int, style uint32) {
	p.style(style)
	p.column(x)
	p.out = append(p.out, wide...)
	p.column(x + 1)
	p.out = append(p.out, ' ')
	p.column(x + 1)
}

// oddTail paints the odd cells at the end of an empty row and goes back to its beginning. It returns the column where they begin.
func (p *painter) oddTail(cells []cell) int {
	x := len(cells) - 1
	for ; x > 0 && p.t.odd(cells[x]); x-- {
		p.style(cells[x].style)
		p.column(x - 1)
		p.out = append(p.out, wide...)
		p.column(x - 1)
		p.out = append(p.out, ' ')
	}
	p.background(0)
	p.column(x)
	p.erase(1)
	p.out = append(p.out, '\r')
	return x + 1
}

// printable says whether the cell at x comes about by printing its text there.
func (t *Terminal) printable(cells []cell, x int) bool {
	c := cells[x]
	if c.ch&isSpacer != 0 || c.ch&^widthMask == 0 {
		return false
	}
	r := rune(c.ch & chMask)
	if c.ch&isCluster != 0 {
		for _, first := range t.clusters.texts[r] {
			r = first
			break
		}
	}
	w := c.width()
	return width(r) == w && (w == 1 || x+1 < len(cells) && cells[x+1].ch == isSpacer)
}

// lone says whether c holds a combining character that had nothing to combine with.
func (t *Terminal) lone(c cell) bool {
	return c.ch&(isSpacer|isCluster) == isSpacer && c.ch&chMask != 0 && width(rune(c.ch&chMask)) == 0
}

// next goes from the end of the row that was painted last to the beginning of the row below. The screen scrolls if it has to.
func (p *painter) next(below []cell, wrapped bool) {
	t := p.t
	scrolls := p.y == t.rows-1
	p.y = min(p.y+1, t.rows-1)
	if !wrapped {
		if scrolls {
			p.background(0)
		}
		p.out = append(p.out, '\r', '\n')
		p.edge = false
		return
	}

	// The wrap comes about by printing: the next row's own first character if that does it.
	var last, first cell
	own := false
	if len(p.above) == t.cols {
		last = p.above[t.cols-1]
	}
	if n := len(below); n > 0 {
		first = below[0]
		own = t.printable(below, 0) && !(scrolls && t.style(first).bg != 0) && !(n == t.cols && t.odd(below[n-1]))
	}
	switch {
	case own && p.edge:
		return
	case own && last.ch == 0 && first.width() == 2 && first.style == last.style:
		p.column(t.cols - 1)
		p.edge = true
		return
	case p.edge:
		p.background(0)
		p.out = append(p.out, ' ')
	default:
		p.style(last.style)
		p.column(t.cols - 1)
		p.out = append(p.out, wide...)
	}
	p.out = append(p.out, '\r')
	p.edge = false
	n := 2
	if scrolls && p.pen.bg != 0 {
		n = t.cols
	}
	p.background(0)
	p.erase(n)
}

// crowded says whether unpacking lines has filled the tables so much that they should be tidied up.
func (t *Terminal) crowded() bool {
	return t.styles.inUse() > 2*t.styles.limit || t.clusters.inUse() > 2*t.clusters.limit || t.clusters.bytes > maxClusters/2
}
