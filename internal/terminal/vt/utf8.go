package vt

import "unicode/utf8"

// decode processes the characters outside ASCII at the beginning of b and returns the rest. It drops bytes that are not
// UTF-8 and byte order marks, and keeps an unfinished sequence at the end for the next call.
func (t *Terminal) decode(b []byte) []byte {
	p := &t.parser
	for len(b) > 0 && b[0] >= 0x80 {
		r, n := utf8.DecodeRune(b)
		if n == 1 {
			n = badUTF8(b)
			if n == 0 {
				p.have = copy(p.partial[:], b)
				return nil
			}
			b = b[n:]
			continue
		}
		b = b[n:]
		switch {
		case r == 0xfeff:
		case p.state == ground && r >= 0xa0:
			t.printRune(r)
		default:
			t.step(r)
			return b
		}
	}
	return b
}

// continueRune completes the sequence whose beginning is in partial.
func (t *Terminal) continueRune(b []byte) []byte {
	p := &t.parser
	for len(b) > 0 {
		p.partial[p.have] = b[0]
		p.have++
		b = b[1:]
		whole := p.partial[:p.have]
		if _, n := utf8.DecodeRune(whole); n == 1 {
			drop := badUTF8(whole)
			if drop == 0 {
				continue // still unfinished
			}
			rest := append([]byte(nil), whole[drop:]...)
			p.have = 0
			t.feed(rest)
			return b
		}
		p.have = 0
		t.decode(whole)
		return b
	}
	return nil
}

// badUTF8 returns how many bytes at the beginning of b to drop because they are not UTF-8; 0 if the rest of a character may still arrive.
func badUTF8(b []byte) int {
	need := 0
	switch c := b[0]; {
	case c >= 0xc2 && c < 0xe0:
		need = 2
	case c >= 0xe0 && c < 0xf0:
		need = 3
	case c >= 0xf0 && c < 0xf8:
		need = 4
	default:
		return 1
	}
	n := 1
	for n < len(b) && n < need && b[n]&0xc0 == 0x80 {
		n++
	}
	if n == len(b) && n < need {
		return 0
	}
	if n < need {
		return n // the next byte begins another sequence
	}
	return need // complete, but not a character: an overlong form, a surrogate, or out of range
}

func appendRune(b []byte, r rune) []byte { return utf8.AppendRune(b, r) }
