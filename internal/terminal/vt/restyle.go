package vt

import "strconv"

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
	var a, b [128]byte
	change := appendChange(a[:0], from, to)
	fresh := appendChange(append(b[:0], "0;"...), attr{}, to)
	if len(fresh) < len(change) {
		change = fresh
	}
	dst = append(dst, 0x1b, '[')
	dst = append(dst, change[:len(change)-1]...)
	return append(dst, 'm')
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
func appendColor(dst []byte, c Color, base int) []byte {
	if n, ok := c.Palette(); ok {
		switch {
		case n < 8:
			return append(strconv.AppendInt(dst, int64(base+int(n)), 10), ';')
		case n < 16:
			return append(strconv.AppendInt(dst, int64(base+60+int(n)-8), 10), ';')
		}
		dst = append(strconv.AppendInt(dst, int64(base+8), 10), ";5;"...)
		return append(strconv.AppendInt(dst, int64(n), 10), ';')
	}
	if r, g, b, ok := c.RGB(); ok {
		dst = append(strconv.AppendInt(dst, int64(base+8), 10), ";2;"...)
		dst = append(strconv.AppendInt(dst, int64(r), 10), ';')
		dst = append(strconv.AppendInt(dst, int64(g), 10), ';')
		return append(strconv.AppendInt(dst, int64(b), 10), ';')
	}
	return append(strconv.AppendInt(dst, int64(base+9), 10), ';')
}

// appendUnderlineColor uses colons only: a terminal that does not know the colour of underlines would take the parts for parameters.
func appendUnderlineColor(dst []byte, c Color) []byte {
	if n, ok := c.Palette(); ok {
		dst = append(dst, "58:5:"...)
		return append(strconv.AppendInt(dst, int64(n), 10), ';')
	}
	if r, g, b, ok := c.RGB(); ok {
		dst = append(dst, "58:2::"...)
		dst = append(strconv.AppendInt(dst, int64(r), 10), ':')
		dst = append(strconv.AppendInt(dst, int64(g), 10), ':')
		return append(strconv.AppendInt(dst, int64(b), 10), ';')
	}
	return append(dst, "59;"...)
}
