package vt

import (
	"fmt"
	"unicode/utf8"
)

// row is row y as the reading side wants it: 0 is the top of the active screen, -1 the newest line of the primary's scrollback. It may have
// fewer cells than the terminal has columns (the rest is empty and of the default style), and is valid until the next call of any kind.
func (t *Terminal) row(y int) (cells []cell, wrapped bool, version uint64) {
	if y >= 0 {
		ln := t.active.lines[y]
		return ln.cells[:t.cols], ln.wrapped, max(ln.version, t.active.moved)
	}
	t.settle()
	ln := t.history.at(t.history.len() + y)
	return t.unpack(ln), ln.wrapped, ln.version
}

// style is the attributes of a cell.
func (t *Terminal) style(c cell) attr { return t.styles.attrs[c.style] }

// text appends the text of a cell: nothing for a spacer or an empty one.
func (t *Terminal) text(dst []byte, c cell) []byte {
	switch {
	case c.ch&isCluster != 0:
		return append(dst, t.clusters.texts[c.ch&chMask]...)
	case c.ch&chMask == 0:
		return dst
	}
	return utf8.AppendRune(dst, rune(c.ch&chMask))
}

// unfinished appends the bytes that bring another terminal to the same point inside a sequence; none when no sequence is open. They are
// made from the parser's state: controls that were executed inside the sequence are not in them.
func (t *Terminal) unfinished(dst []byte) []byte {
	p := &t.parser
	switch p.state {
	case ground:
	case escape, escapeIntermediate:
		dst = append(dst, 0x1b)
		dst = append(dst, p.collect...)
	case csiEntry, csiParam, csiIntermediate:
		dst = append(dst, "\x1b["...)
		dst = p.appendParams(dst)
	case csiIgnore:
		dst = append(dst, "\x1b[ 0"...)
	case dcsEntry, dcsParam, dcsIntermediate:
		dst = append(dst, "\x1bP"...)
		dst = p.appendParams(dst)
	case dcsIgnore:
		dst = append(dst, "\x1bP 0"...)
	case dcsPassthrough:
		dst = append(dst, "\x1bP"...)
		if p.tooLong {
			dst = append(dst, '~') // what is left of it means nothing
			break
		}
		dst = p.appendParams(dst)
		dst = append(dst, p.final)
		dst = append(dst, p.payload...)
	case oscString:
		dst = append(dst, "\x1b]"...)
		if p.tooLong {
			dst = append(dst, '!')
			break
		}
		dst = append(dst, p.payload...)
	case ignoredString:
		dst = append(dst, "\x1bX"...)
	}
	return append(dst, p.partial[:p.have]...)
}

// appendParams writes what was collected: prefix, parameters, intermediates.
func (p *parser) appendParams(dst []byte) []byte {
	rest := p.collect
	if len(rest) > 0 && rest[0] >= '<' {
		dst = append(dst, rest[0])
		rest = rest[1:]
	}
	if p.state != csiEntry && p.state != dcsEntry {
		for i := range p.params.n {
			if i > 0 {
				dst = append(dst, ';')
			}
			dst = fmt.Append(dst, p.params.value[i])
			for _, v := range p.params.subsOf(i) {
				dst = append(dst, ':')
				if v >= 0 {
					dst = fmt.Append(dst, v)
				}
			}
		}
		if p.params.full {
			dst = append(dst, ';') // further numbers belong to none that is kept
		}
		if p.params.fullSubs {
			dst = append(dst, ':')
		}
	}
	return append(dst, rest...)
}
