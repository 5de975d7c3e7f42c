package vt

// cursor puts the cursor where it is and the pen into its hand. It comes last, because nearly everything else moves the cursor, and
// forgets that a character was just written, which a combining character would join and REP would repeat.
func (p *painter) cursor() {
	t := p.t
	s := t.active
	pending, outside := s.x >= t.cols, false
	if t.modes.origin {
		p.out = append(p.out, "\x1b[?6h"...)
		p.top = s.top
		outside = s.y < s.top || s.y > s.bottom
	}
	x := s.x - t.joining
	switch {
	case t.joining > 0 && !outside && x >= 0 && t.writes(s.lines[s.y].cells, x):
		p.move(x, s.y)
		p.setPen()
		if p.insertMode(); t.modes.insert { // it pushes the rest of the row away
			p.csi('P', t.joining)
		}
		p.out = t.text(p.out, s.lines[s.y].cells[x])
		return
	case (pending || outside) && s == &t.primary:
		// The screens hand their cursor to each other, so on the alternate one it can be moved without leaving a trace.
		p.top = 0
		p.out = append(p.out, "\x1b[?1047h"...)
		p.move(min(s.x, t.cols-1), s.y)
		if pending {
			p.out = append(p.out, ' ')
		}
		p.out = append(p.out, "\x1b[?1047l"...)
	case pending:
		p.out = append(p.out, "\x0f\x1b(B"...)
		if cells := s.lines[s.y].cells[:t.cols]; !p.behindLast() && uniform(cells) {
			p.out = append(p.out, "\x1b[1K"...) // how the row became empty, as a rule
		}
		p.forget()
		p.charsets()
		if t.charset != t.charsets[t.gl] {
			p.designate(t.gl, t.charset)
		}
	default:
		p.move(s.x, s.y)
	}
	p.setPen()
	p.insertMode()
	if s.x > t.cols { // a combining character was lost there, after a sequence
		p.forget()
		p.out = append(p.out, "\u0301"...)
	}
}

// behindLast puts the cursor behind the last column of its row, by printing what is there. If that cannot be printed, it prints a space, and
// returns false.
func (p *painter) behindLast() bool {
	t := p.t
	x, y := t.cols-1, t.active.y
	cells := t.active.lines[y].cells[:t.cols]
	if cells[x].ch == isSpacer {
		x--
	}
	printed := t.printable(cells, x) || t.lone(cells[x])
	if printed {
		p.style(cells[x].style)
	} else {
		x = t.cols - 1
		p.set(attr{bg: t.style(cells[x]).bg})
	}
	p.move(x, y)
	if !printed {
		p.out = append(p.out, ' ')
		return false
	}
	p.out = t.text(p.out, cells[x])
	return true
}

// forget makes the terminal forget that it has just written a character, with a sequence that changes nothing.
func (p *painter) forget() {
	if p.t.modes.wraparound {
		p.out = append(p.out, "\x1b[?7h"...)
	} else {
		p.out = append(p.out, "\x1b[?7l"...)
	}
}

// setPen gives the terminal our pen, and the colour that underlines will have although there is none now.
func (p *painter) setPen() {
	p.set(p.t.pen)
	if c := p.t.extended.color; c != p.pen.ul {
		p.out = append(p.out, 0x1b, '[')
		p.out = appendUnderlineColor(p.out, c)
		p.out[len(p.out)-1] = 'm'
	}
}

func (p *painter) insertMode() {
	if p.t.modes.insert {
		p.out = append(p.out, "\x1b[4h"...)
	}
}

// writes says whether printing the text of the cell at x with the present pen and character set would give that cell.
func (t *Terminal) writes(cells []cell, x int) bool {
	if !t.printable(cells, x) || cells[x].width() != t.joining || t.style(cells[x]) != t.pen {
		return false
	}
	r := rune(cells[x].ch)
	return t.charset == ascii || r >= 0x7f || t.charset.translate(r) == r
}
