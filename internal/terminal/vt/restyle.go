package vt

// appendRestyle appends the shortest SGR sequence that makes a pen of style from one of style to. Links and protection are not SGR's.
func appendRestyle(dst []byte, from, to attr) []byte {
	from.link, to.link = nil, nil
	from.flags &^= protected
	to.flags &^= protected
	if from == to {
		return dst
	}
	if to == (attr{}) {
		return append(dst, "\x1b[m"...)
	}
	start := len(dst)
	dst = appendChange(append(dst, 0x1b, '['), from, to)
	if loses(from, to) {
		var room [128]byte
		if fresh := appendChange(append(room[:0], "\x1b[0;"...), attr{}, to); len(fresh) < len(dst)-start {
			dst = append(dst[:start], fresh...)
		}
	}
	dst[len(dst)-1] = 'm'
	return dst
}

// loses says whether something has to be switched off: only then it can be shorter to begin with nothing.
func loses(from, to attr) bool {
	return from.flags&^to.flags != 0 || from.underline != 0 && to.underline == 0 ||
		from.fg != 0 && to.fg == 0 || from.bg != 0 && to.bg == 0 || from.ul != 0 && to.ul == 0
}

// switches are the flags with the parameters that set and reset them. Bold and dim are reset together, and are not among them.
var switches = [...]struct {
	flag    flags
	on, off string
}{
	{italic, "3;", "23;"}, {blink, "5;", "25;"}, {inverse, "7;", "27;"}, {hidden, "8;", "28;"}, {strike, "9;", "29;"}, {overline, "53;", "55;"},
}

// appendChange appends parameters for everything that is different, each with a semicolon behind it.
func appendChange(dst []byte, from, to attr) []byte {
	if from.flags != to.flags {
		if from.flags&^to.flags&(bold|dim) != 0 {
			dst = append(dst, "22;"...)
			from.flags &^= bold | dim
		}
		if to.flags&^from.flags&bold != 0 {
			dst = append(dst, "1;"...)
		}
		if to.flags&^from.flags&dim != 0 {
			dst = append(dst, "2;"...)
		}
		for _, s := range switches {
			if (from.flags^to.flags)&s.flag == 0 {
				continue
			}
			if to.flags&s.flag != 0 {
				dst = append(dst, s.on...)
			} else {
				dst = append(dst, s.off...)
			}
		}
	}
	if from.underline != to.underline {
		switch to.underline {
		case 0:
			dst = append(dst, "24;"...)
		case 1:
			dst = append(dst, "4;"...)
		default:
			dst = append(dst, '4', ':', '0'+to.underline, ';')
		}
	}
	if from.fg != to.fg {
		dst = appendColor(dst, to.fg, 30)
	}
	if from.bg != to.bg {
		dst = appendColor(dst, to.bg, 40)
	}
	if from.ul != to.ul {
		dst = appendUnderlineColor(dst, to.ul)
	}
	return dst
}

// appendColor appends a colour; base is 30 for the foreground and 40 for the background.
func appendColor(dst []byte, c Color, base uint8) []byte {
	if n, ok := c.Palette(); ok {
		switch {
		case n < 8:
			return append(appendNumber(dst, base+n), ';')
		case n < 16:
			return append(appendNumber(dst, base+60+n-8), ';')
		}
		dst = append(appendNumber(dst, base+8), ";5;"...)
		return append(appendNumber(dst, n), ';')
	}
	if r, g, b, ok := c.RGB(); ok {
		dst = append(appendNumber(dst, base+8), ";2;"...)
		dst = append(appendNumber(dst, r), ';')
		dst = append(appendNumber(dst, g), ';')
		return append(appendNumber(dst, b), ';')
	}
	return append(appendNumber(dst, base+9), ';')
}

// appendNumber is strconv.AppendUint for the small numbers that a large part of a snapshot consists of.
func appendNumber(dst []byte, n uint8) []byte {
	switch {
	case n >= 100:
		return append(dst, '0'+n/100, '0'+n/10%10, '0'+n%10)
	case n >= 10:
		return append(dst, '0'+n/10, '0'+n%10)
	}
	return append(dst, '0'+n)
}

// appendUnderlineColor uses colons only: a terminal that does not know the colour of underlines would take the parts for parameters.
func appendUnderlineColor(dst []byte, c Color) []byte {
	if n, ok := c.Palette(); ok {
		dst = append(dst, "58:5:"...)
		return append(appendNumber(dst, n), ';')
	}
	if r, g, b, ok := c.RGB(); ok {
		dst = append(dst, "58:2::"...)
		dst = append(appendNumber(dst, r), ':')
		dst = append(appendNumber(dst, g), ':')
		return append(appendNumber(dst, b), ';')
	}
	return append(dst, "59;"...)
}
