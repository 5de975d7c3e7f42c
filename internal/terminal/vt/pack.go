package vt

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// A packed line is a list of runs of one style. A run is the number of its cells, its style, and the cells: a character is its UTF-8, and what
// is not an ordinary character begins with one of these bytes, which no cell contains.
const (
	packedEmpty   = 0 // never written
	packedSpacer  = 1 // the right half of a wide character
	packedCluster = 2 // width, length, text
	packedRaw     = 3 // cell.ch in four bytes: a character of a width that is not its own
)

// A packed style begins with a byte that says what follows it.
const (
	hasFg = 1 << iota
	hasBg
	hasUl
	hasFlags
	hasUnderline
	hasLink
)

// pack appends a line to a page.
func (t *Terminal) pack(p *page, cells []cell) {
	data := p.data
	for len(cells) > 0 {
		n := 1
		style := cells[0].style
		for n < len(cells) && cells[n].style == style {
			n++
		}
		data = binary.AppendUvarint(data, uint64(n))
		if style == 0 {
			data = append(data, 0)
		} else {
			data = p.packStyle(data, t.styles.attrs[style])
		}
		data = t.packCells(data, cells[:n])
		cells = cells[n:]
	}
	p.data = data
}

func (t *Terminal) packCells(data []byte, cells []cell) []byte {
	data = slices.Grow(data, len(cells))
	plain := data[len(data) : len(data)+len(cells)]
	n := 0
	for n < len(cells) && cells[n].ch-0x20 < 0x5f {
		plain[n] = byte(cells[n].ch)
		n++
	}
	data = data[:len(data)+n]
	for _, c := range cells[n:] {
		switch ch := c.ch; {
		case ch-0x20 < 0x5f:
			data = append(data, byte(ch))
		case ch == 0:
			data = append(data, packedEmpty)
		case ch == isSpacer:
			data = append(data, packedSpacer)
		case ch&isCluster != 0:
			text := t.clusters.texts[ch&chMask]
			data = append(data, packedCluster, byte(ch>>16&(widthMask>>16)))
			data = binary.AppendUvarint(data, uint64(len(text)))
			data = append(data, text...)
		case ch == natural(rune(ch&chMask)):
			data = utf8.AppendRune(data, rune(ch&chMask))
		default:
			data = append(data, packedRaw)
			data = binary.LittleEndian.AppendUint32(data, ch)
		}
	}
	return data
}

// natural is cell.ch of a character at its own width.
func natural(r rune) uint32 {
	switch width(r) {
	case 0:
		return uint32(r) | isSpacer
	case 2:
		return uint32(r) | isWide
	}
	return uint32(r)
}

func (p *page) packStyle(data []byte, a attr) []byte {
	at := len(data)
	data = append(data, 0)
	has := byte(0)
	if a.fg != 0 {
		has |= hasFg
		data = packColor(data, a.fg)
	}
	if a.bg != 0 {
		has |= hasBg
		data = packColor(data, a.bg)
	}
	if a.ul != 0 {
		has |= hasUl
		data = packColor(data, a.ul)
	}
	if a.flags != 0 {
		has |= hasFlags
		data = append(data, byte(a.flags), byte(a.flags>>8))
	}
	if a.underline != 0 {
		has |= hasUnderline
		data = append(data, a.underline)
	}
	if a.link != nil {
		has |= hasLink
		data = binary.AppendUvarint(data, uint64(p.linkNumber(a.link)))
	}
	data[at] = has
	return data
}

// linkNumber is the number of a link in this page. Neighbours are of the same link more often than not, so the newest are looked at.
func (p *page) linkNumber(l *link) int {
	for i := len(p.links) - 1; i >= max(0, len(p.links)-8); i-- {
		if p.links[i] == l {
			return i
		}
	}
	p.links = append(p.links, l)
	p.bytes += len(l.uri) + len(l.id) + 64
	return len(p.links) - 1
}

func packColor(data []byte, c Color) []byte {
	if n, ok := c.Palette(); ok {
		return append(data, 1, n)
	}
	r, g, b, _ := c.RGB()
	return append(data, 2, r, g, b)
}

// unpack gives the cells of a line, valid until the next call.
func (t *Terminal) unpack(ln *packedLine) []cell {
	t.history.cells = t.appendCells(t.history.cells[:0], ln)
	return t.history.cells
}

// appendCells appends the cells of a line.
func (t *Terminal) appendCells(cells []cell, ln *packedLine) []cell {
	data := ln.page.data[ln.offset:]
	for end := len(cells) + int(ln.cells); len(cells) < end; {
		n, size := binary.Uvarint(data)
		a, rest := ln.page.unpackStyle(data[size:])
		cells, data = t.unpackCells(cells, rest, int(n), t.styles.intern(a))
	}
	return cells
}

func (t *Terminal) unpackCells(cells []cell, data []byte, n int, style uint32) ([]cell, []byte) {
	cells = slices.Grow(cells, n)
	plain := cells[len(cells) : len(cells)+n]
	done := 0
	for done < len(plain) && data[done]-0x20 < 0x5f {
		plain[done] = cell{uint32(data[done]), style}
		done++
	}
	cells, data = cells[:len(cells)+done], data[done:]
	for n -= done; n > 0; n-- {
		ch := uint32(data[0])
		size := 1
		switch {
		case ch >= 0x80:
			r, length := utf8.DecodeRune(data)
			ch, size = natural(r), length
		case ch == packedSpacer:
			ch = isSpacer
		case ch == packedCluster:
			ch = uint32(data[1]) << 16
			length, lengthSize := binary.Uvarint(data[2:])
			text := data[2+lengthSize:][:length]
			if number, ok := t.clusters.intern(text); ok {
				ch |= isCluster | number
			} else { // no room: the character without what combines with it
				r, _ := utf8.DecodeRune(text)
				ch |= uint32(r)
			}
			size = 2 + lengthSize + int(length)
		case ch == packedRaw:
			ch = binary.LittleEndian.Uint32(data[1:])
			size = 5
		}
		cells = append(cells, cell{ch, style})
		data = data[size:]
	}
	return cells, data
}

func (p *page) unpackStyle(data []byte) (a attr, rest []byte) {
	has := data[0]
	data = data[1:]
	if has&hasFg != 0 {
		a.fg, data = unpackColor(data)
	}
	if has&hasBg != 0 {
		a.bg, data = unpackColor(data)
	}
	if has&hasUl != 0 {
		a.ul, data = unpackColor(data)
	}
	if has&hasFlags != 0 {
		a.flags = flags(data[0]) | flags(data[1])<<8
		data = data[2:]
	}
	if has&hasUnderline != 0 {
		a.underline = data[0]
		data = data[1:]
	}
	if has&hasLink != 0 {
		n, size := binary.Uvarint(data)
		if n < uint64(len(p.links)) {
			a.link = p.links[n]
		}
		data = data[size:]
	}
	return a, data
}

func unpackColor(data []byte) (Color, []byte) {
	if data[0] == 1 {
		return Palette(data[1]), data[2:]
	}
	return RGB(data[1], data[2], data[3]), data[4:]
}
