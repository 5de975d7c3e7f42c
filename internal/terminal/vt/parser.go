package vt

// state is where the parser is. The names follow the public description of DEC's parser (vt100.net/emu/dec_ansi_parser).
type state uint8

const (
	ground state = iota
	escape
	escapeIntermediate
	csiEntry
	csiParam
	csiIntermediate
	csiIgnore
	dcsEntry
	dcsParam
	dcsIntermediate
	dcsIgnore
	dcsPassthrough
	oscString
	ignoredString // SOS, PM and APC: nothing of theirs is used
)

const (
	maxCollect = 8       // prefix and intermediate bytes that are kept; nothing that is known has more than two
	maxPayload = 1 << 18 // bytes of an OSC or DCS string; a longer one is ignored
)

// parser is how far the terminal is inside a sequence. It works on code points, so a C1 control is one whether its bytes are cut or not.
type parser struct {
	state   state
	partial [4]byte // the beginning of a UTF-8 sequence
	have    int     // bytes in partial
	collect []byte  // prefix and intermediate bytes of the sequence
	params  params
	final   byte   // of the DCS whose payload is being read
	payload []byte // of OSC and DCS
	tooLong bool   // payload was cut: the string is ignored
}

func (p *parser) clear() {
	p.collect = p.collect[:0]
	p.params.reset()
}

func (p *parser) collected(b byte) {
	if len(p.collect) < maxCollect {
		p.collect = append(p.collect, b)
	}
}

// Write takes bytes from the program. It may be cut anywhere; it never fails and never blocks.
func (t *Terminal) Write(b []byte) {
	const piece = 1 << 16 // so that the tables are looked after often enough
	t.begin()
	for len(b) > piece {
		t.feed(b[:piece])
		t.settle()
		b = b[piece:]
	}
	t.feed(b)
	t.end()
}

func (t *Terminal) feed(b []byte) {
	p := &t.parser
	for len(b) > 0 {
		if p.have > 0 {
			b = t.continueRune(b)
			continue
		}
		if p.state != ground {
			b = t.inside(b)
			continue
		}
		switch c := b[0]; {
		case c >= 0x20 && c < 0x7f:
			n := 1
			for n < len(b) && b[n]-0x20 < 0x5f {
				n++
			}
			t.printASCII(b[:n])
			b = b[n:]
		case c >= 0x80:
			b = t.decode(b)
		case c == 0x1b:
			b = t.sequence(b)
		default:
			t.control(rune(c))
			b = b[1:]
		}
	}
}

// sequence reads what begins with ESC. What is complete and ordinary is read at once; everything else goes through the states.
func (t *Terminal) sequence(b []byte) []byte {
	p := &t.parser
	p.clear()
	if len(b) > 2 && b[1] == '[' {
		if n, final := p.readCSI(b[2:]); n > 0 {
			t.csi(final)
			t.endRun()
			return b[2+n:]
		}
		p.clear()
	}
	p.state = escape
	return b[1:]
}

// readCSI reads parameters, prefix and intermediates up to the final byte, and returns how many bytes that took; 0 when the sequence is cut
// off or contains something unusual.
func (p *parser) readCSI(b []byte) (int, byte) {
	i := 0
	if b[0] >= '<' && b[0] <= '?' {
		p.collect = append(p.collect, b[0])
		i++
	}
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c-'0' <= ';'-'0': // digits, colon and semicolon
			p.params.add(c)
		case c >= 0x40 && c <= 0x7e:
			return i + 1, c
		case c >= 0x20 && c <= 0x2f:
			if i+1 < len(b) && b[i+1] >= 0x40 && b[i+1] <= 0x7e {
				p.collect = append(p.collect, c)
				return i + 2, b[i+1]
			}
			return 0, 0
		default:
			return 0, 0
		}
	}
	return 0, 0
}

// inside takes bytes while a sequence is open, until it is not.
func (t *Terminal) inside(b []byte) []byte {
	p := &t.parser
	for i, c := range b {
		if c >= 0x80 {
			return t.decode(b[i:])
		}
		if p.state == oscString || p.state == dcsPassthrough || p.state == ignoredString {
			if c >= 0x20 && c < 0x7f {
				n := i + 1
				for n < len(b) && b[n]-0x20 < 0x5f {
					n++
				}
				if p.state != ignoredString {
					p.put(b[i:n])
				}
				return b[n:]
			}
		}
		t.step(rune(c))
		if p.state == ground {
			return b[i+1:]
		}
	}
	return nil
}

// put appends to the payload.
func (p *parser) put(b []byte) {
	if len(p.payload)+len(b) > maxPayload {
		p.tooLong = true
		p.payload = nil
	}
	if !p.tooLong {
		p.payload = append(p.payload, b...)
	}
}

// step moves the parser by one code point.
func (t *Terminal) step(r rune) {
	p := &t.parser
	switch {
	case r == 0x1b:
		t.leave(true)
		p.clear()
		p.state = escape
		return
	case r == 0x18 || r == 0x1a:
		t.leave(false)
		p.state = ground
		t.control(r)
		return
	case r >= 0x80 && r < 0xa0:
		t.c1(r)
		return
	}
	switch p.state {
	case ground:
		if r >= 0xa0 || r >= 0x20 && r < 0x7f {
			t.printRune(r)
		} else {
			t.control(r)
		}
	case escape, escapeIntermediate:
		t.stepEscape(r)
	case csiEntry, csiParam, csiIntermediate, csiIgnore:
		t.stepCSI(r)
	case dcsEntry, dcsParam, dcsIntermediate, dcsIgnore:
		t.stepDCS(r)
	case oscString:
		if r == 0x07 {
			t.leave(true)
			p.state = ground
		} else if r >= 0x20 {
			p.put(appendRune(nil, r))
		}
	case dcsPassthrough:
		if r != 0x7f {
			p.put(appendRune(nil, r))
		}
	case ignoredString:
		if r > 0x7f {
			p.state = ground
		}
	}
}

// leave ends an open string: by ESC, BEL or ST, which are good, or by anything else, and then it is ignored.
func (t *Terminal) leave(good bool) {
	p := &t.parser
	switch p.state {
	case oscString:
		if good && !p.tooLong {
			t.osc(p.payload)
		}
	case dcsPassthrough:
		if good && !p.tooLong {
			t.dcs(p.final, p.payload)
		}
	default:
		return
	}
	p.endString()
	t.endRun()
}

func (p *parser) endString() {
	if cap(p.payload) > 4096 {
		p.payload = nil
	}
	p.payload = p.payload[:0]
	p.tooLong = false
}

// c1 is a control of two bytes in UTF-8, the 8-bit form of ESC and a letter. It ends an unfinished sequence.
func (t *Terminal) c1(r rune) {
	p := &t.parser
	t.leave(r == 0x9c)
	switch r {
	case 0x9b:
		p.clear()
		p.state = csiEntry
	case 0x9d:
		p.state = oscString
	case 0x90:
		p.clear()
		p.state = dcsEntry
	case 0x98, 0x9e, 0x9f:
		p.state = ignoredString
	case 0x9c:
		p.state = ground
	default:
		p.state = ground
		t.control(r)
	}
}

func (t *Terminal) stepEscape(r rune) {
	p := &t.parser
	switch {
	case r < 0x20:
		t.control(r)
	case r < 0x30:
		p.collected(byte(r))
		p.state = escapeIntermediate
	case r == 0x7f:
	case r > 0x7f:
		p.state = ground
	case p.state == escape && r == '[':
		p.state = csiEntry
	case p.state == escape && r == ']':
		p.state = oscString
	case p.state == escape && r == 'P':
		p.state = dcsEntry
	case p.state == escape && (r == 'X' || r == '^' || r == '_'):
		p.state = ignoredString
	default:
		p.state = ground
		t.esc(byte(r))
		t.endRun()
	}
}

func (t *Terminal) stepCSI(r rune) {
	p := &t.parser
	switch {
	case r < 0x20:
		t.control(r)
	case r == 0x7f:
	case p.state == csiIgnore:
		if r >= 0x40 && r < 0x7f {
			p.state = ground
		}
	case r > 0x7f:
		p.state = ground
	case r >= 0x40:
		p.state = ground
		t.csi(byte(r))
		t.endRun()
	case r < 0x30:
		p.collected(byte(r))
		p.state = csiIntermediate
	case p.state == csiIntermediate:
		p.state = csiIgnore
	case r < 0x3c:
		p.params.add(byte(r))
		p.state = csiParam
	case p.state == csiEntry:
		p.collected(byte(r))
		p.state = csiParam
	default:
		p.state = csiIgnore
	}
}

func (t *Terminal) stepDCS(r rune) {
	p := &t.parser
	switch {
	case r < 0x20 || r == 0x7f:
	case p.state == dcsIgnore:
	case r > 0x7f:
		p.state = ground
	case r >= 0x40:
		p.final = byte(r)
		p.state = dcsPassthrough
	case r < 0x30:
		p.collected(byte(r))
		p.state = dcsIntermediate
	case p.state == dcsIntermediate:
		p.state = dcsIgnore
	case r < 0x3c:
		p.params.add(byte(r))
		p.state = dcsParam
	case p.state == dcsEntry:
		p.collected(byte(r))
		p.state = dcsParam
	default:
		p.state = dcsIgnore
	}
}
