package vt

// sgr is Select Graphic Rendition: how the next characters look.
func (t *Terminal) sgr(p *params) {
	a, e := &t.pen, &t.extended
	for i := 0; i < p.n; i++ {
		switch n := p.value[i]; {
		case n == 0:
			*a = attr{}
			*e = extended{link: e.link}
			e.update()
		case n == 4 || n == 21 || n == 24:
			e.setUnderline(int(n), p.subsOf(i))
		case n < 30:
			a.toggle(int(n))
		case n >= 30 && n < 38:
			a.fg = Palette(uint8(n - 30))
		case n == 38:
			i += readColor(&a.fg, p, i)
		case n == 39:
			a.fg = 0
		case n >= 40 && n < 48:
			a.bg = Palette(uint8(n - 40))
		case n == 48:
			i += readColor(&a.bg, p, i)
		case n == 49:
			a.bg = 0
		case n == 53:
			a.flags |= overline
		case n == 55:
			a.flags &^= overline
		case n == 58:
			i += readColor(&e.color, p, i)
		case n == 59:
			e.color = 0
			e.update()
		case n >= 90 && n < 98:
			a.fg = Palette(uint8(n - 90 + 8))
		case n >= 100 && n < 108:
			a.bg = Palette(uint8(n - 100 + 8))
		}
	}
	t.setPen(*a)
}

// extended is what the page keeps apart from the rest of the pen, and what saving the cursor does not save: only whether it is in use is.
type extended struct {
	underline uint8
	color     Color // of the underline
	link      *link

	underlined bool // saved with the cursor
	used       bool // saved with the cursor; without it, nothing of the above shows
}

func (e *extended) update() { e.used = e.underline != 0 || e.link != nil }

func (e *extended) setUnderline(n int, subs []int32) {
	switch {
	case n == 24:
		e.underline = 0
	case n == 21:
		e.underline = 2
	case len(subs) > 0 && subs[0] >= 0 && subs[0] <= 5:
		e.underline = uint8(subs[0])
	default:
		e.underline = 1
	}
	e.underlined = e.underline != 0
	e.update()
}

// setPen sets the attributes of the pen to a, and to those in extended.
func (t *Terminal) setPen(a attr) {
	a.underline, a.ul, a.link = 0, 0, nil
	if e := t.extended; e.used {
		a.underline, a.ul, a.link = e.underline, e.color, e.link
	}
	if a.underline == 0 && t.extended.underlined {
		a.underline = 1
	}
	t.pen, t.penDirty = a, true
}

// toggle is the attributes that are on or off.
func (a *attr) toggle(n int) {
	switch n {
	case 1:
		a.flags |= bold
	case 2:
		a.flags |= dim
	case 3:
		a.flags |= italic
	case 5:
		a.flags |= blink
	case 7:
		a.flags |= inverse
	case 8:
		a.flags |= hidden
	case 9:
		a.flags |= strike
	case 22:
		a.flags &^= bold | dim
	case 23:
		a.flags &^= italic
	case 25:
		a.flags &^= blink
	case 27:
		a.flags &^= inverse
	case 28:
		a.flags &^= hidden
	case 29:
		a.flags &^= strike
	}
}

// readColor reads the colour that begins at number i, with colons (38:5:n, 38:2:space:r:g:b) or semicolons (38;5;n, 38;2;r;g;b) or first
// these and then those, and returns how many numbers it took beside the first.
func readColor(c *Color, p *params, i int) int {
	const space = 1    // the slot of the colour space, which semicolons have no number for
	var slots [5]int32 // mode, space, and three values
	at, taken := 0, 0
	for n := i; ; n++ {
		if n > i {
			if at == space && slots[0] != 0 {
				at++
			}
			slots[at] = p.value[n]
			at++
			taken++
		}
		if subs := p.subsOf(n); len(subs) > 0 {
			for _, v := range subs {
				if at == space && slots[0] == 5 {
					at++
				}
				if at == len(slots) {
					break
				}
				slots[at] = v
				at++
			}
			break
		}
		if slots[0] == 5 && taken == 2 || slots[0] == 2 && taken == 4 {
			break
		}
		if at == len(slots) {
			taken++
			break
		}
		if n+1 >= p.n {
			break
		}
	}
	value := func(i int) uint8 { return uint8(max(slots[i], 0)) }
	switch slots[0] {
	case 2:
		*c = RGB(value(2), value(3), value(4))
	case 5:
		*c = Palette(value(2))
	}
	return taken
}
