package view

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Filter passes on the part of a program's output that the terminal model understands, and nothing
// else. So the person's own terminal
//
//   - receives no queries. Its answers would be typed into the program, which already has the answers
//     of the model;
//   - shows the same as the model, even if it could do more;
//   - keeps its scrollback: a full reset becomes one that leaves it alone;
//   - keeps its stacks: titles and kitty keyboard flags do not pass; Window sets them.
//
// A sequence passes only when it is complete, because other text may be written to the terminal
// between two writes.
//
// The zero Filter is ready. It is used by one goroutine at a time.
type Filter struct {
	// Effects keeps only what acts without being shown: the bell, the clipboard,
	// notifications.
	Effects bool
	// Spare keeps back what would erase the scrollback.
	Spare bool
	// Tabs and Colors say that tab stops, or colours of the palette, were changed.
	Tabs, Colors bool
	// Progress says that a progress bar is shown.
	Progress bool

	state  state
	seq    []byte // the sequence until now, without what began it
	broken bool   // it cannot pass any more
	char   []byte // the first bytes of a character
}

type state uint8

const (
	ground  state = iota
	escaped       // behind ESC
	control       // behind ESC [
	command       // behind ESC ]
	device        // behind ESC P
	ignored       // behind what begins another string
)

// maxSequence bounds the length of a sequence. The longest are texts for the clipboard.
const maxSequence = 1 << 20

// Append appends to dst what passes of p.
func (f *Filter) Append(dst, p []byte) []byte {
	for len(p) > 0 {
		if f.state == ground && len(f.char) == 0 {
			n := plain(p)
			if !f.Effects {
				dst = append(dst, p[:n]...)
			}
			if p = p[n:]; len(p) == 0 {
				break
			}
		}
		var r rune
		r, p = f.decode(p)
		if r >= 0 {
			dst = f.take(dst, r)
		}
	}
	return dst
}

// Reset forgets what has begun.
func (f *Filter) Reset() { f.state, f.seq, f.char, f.broken = ground, f.seq[:0], f.char[:0], false }

// plain is how many bytes at the beginning of p are ASCII without ESC and its like.
func plain(p []byte) int {
	for i, b := range p {
		if b < 0x20 && b != '\n' && b != '\r' || b >= 0x7f {
			return i
		}
	}
	return len(p)
}

// decode takes a character off p; -1 when it is not complete. What is no UTF-8 is dropped,
// as the model does it; some terminals would take a lone byte for a control.
func (f *Filter) decode(p []byte) (rune, []byte) {
	if len(f.char) == 0 && p[0] < utf8.RuneSelf {
		return rune(p[0]), p[1:]
	}
	had := len(f.char)
	f.char = append(f.char, p[:min(len(p), utf8.UTFMax-had)]...)
	if !utf8.FullRune(f.char) {
		return -1, nil
	}
	r, n := utf8.DecodeRune(f.char)
	if n >= had {
		p = p[n-had:]
	} else { // what was kept was no beginning: only its first byte is taken
		p = append(slices.Clone(f.char[n:had]), p...)
	}
	f.char = f.char[:0]
	if r == utf8.RuneError && n == 1 || r == byteOrderMark {
		r = -1
	}
	return r, p
}

const byteOrderMark = 0xfeff

// take takes the next character.
func (f *Filter) take(dst []byte, r rune) []byte {
	switch {
	case r == 0x18 || r == 0x1a: // CAN and SUB
		f.begin(ground)
		return dst
	case r == 0x1b:
		dst = f.endString(dst)
		f.begin(escaped)
		return dst
	case r >= 0x80 && r < 0xa0:
		return f.oldControl(dst, r)
	}
	switch f.state {
	case ground:
		return f.show(dst, r)
	case escaped:
		return f.escaped(dst, r)
	case control:
		return f.control(dst, r)
	case command:
		if r == 0x07 {
			dst = f.endString(dst)
			f.begin(ground)
		} else if r >= 0x20 {
			f.collect(r)
		}
	default:
		// A character that is not ASCII ends it, except in the data of a device control.
		f.broken = f.broken || f.state == device && r >= 0x40 && r < 0x7f
		if r > 0x7f && !f.broken {
			f.begin(ground)
		}
	}
	return dst
}

func (f *Filter) begin(s state) { f.state, f.seq, f.broken = s, f.seq[:0], false }

func (f *Filter) collect(r rune) {
	if len(f.seq) > maxSequence {
		f.broken = true
		return
	}
	f.seq = utf8.AppendRune(f.seq, r)
}

// oldControl is one of the controls that ESC and a letter are the newer spelling of.
func (f *Filter) oldControl(dst []byte, r rune) []byte {
	if r == 0x9c { // ST ends a string well, the others break it off
		dst = f.endString(dst)
	}
	f.begin(escaped)
	return f.escaped(dst, r-0x40)
}

// show passes a character that is no part of a sequence.
func (f *Filter) show(dst []byte, r rune) []byte {
	switch {
	case r == 0x07:
		return append(dst, 0x07)
	case f.Effects, r == 0x7f, r < 0x20 && (r < 0x08 || r > 0x0f): // ENQ would be answered
		return dst
	}
	return utf8.AppendRune(dst, r)
}

func (f *Filter) escaped(dst []byte, r rune) []byte {
	switch {
	case r < 0x20:
		return f.show(dst, r)
	case r < 0x30: // an intermediate
		f.collect(r)
		return dst
	case r == 0x7f:
		return dst
	case r > 0x7f:
		f.begin(ground)
		return dst
	case len(f.seq) == 0 && r == '[':
		f.begin(control)
		return dst
	case len(f.seq) == 0 && r == ']':
		f.begin(command)
		return dst
	case len(f.seq) == 0 && r == 'P':
		f.begin(device)
		return dst
	case len(f.seq) == 0 && (r == 'X' || r == '^' || r == '_'):
		f.begin(ignored)
		return dst
	}
	f.collect(r)
	if !f.Effects {
		dst = f.passEscape(dst)
	}
	f.begin(ground)
	return dst
}

// passEscape passes a sequence of ESC, intermediates and a final character.
func (f *Filter) passEscape(dst []byte) []byte {
	seq := f.seq
	switch {
	case len(seq) == 1 && seq[0] == 'c':
		return append(dst, reset...)
	case len(seq) == 1 && bytes.IndexByte([]byte("78=>DEHMNOno|}~"), seq[0]) >= 0:
		f.Tabs = f.Tabs || seq[0] == 'H'
	case len(seq) == 2 && (bytes.IndexByte([]byte("()*+-./"), seq[0]) >= 0 || string(seq) == "#8"):
	default:
		return dst
	}
	return append(append(dst, 0x1b), seq...)
}

func (f *Filter) control(dst []byte, r rune) []byte {
	switch {
	case r < 0x20: // is carried out inside a sequence
		return f.show(dst, r)
	case r == 0x7f:
		return dst
	case r > 0x7f:
		f.begin(ground)
		return dst
	case r < 0x40:
		f.collect(r)
		return dst
	}
	if !f.Effects && !f.broken {
		dst = f.passControl(dst, byte(r))
	}
	f.begin(ground)
	return dst
}

// endString passes the string that ends here, if one does and may.
func (f *Filter) endString(dst []byte) []byte {
	if f.state != command || f.broken {
		return dst
	}
	number, rest, _ := bytes.Cut(f.seq, []byte{';'})
	n, err := strconv.Atoi(string(number))
	asks := slices.ContainsFunc(bytes.Split(rest, []byte{';'}), func(field []byte) bool { return string(field) == "?" })
	switch {
	case err != nil || asks:
		return dst
	case n == 9 && (string(rest) == "4" || bytes.HasPrefix(rest, []byte("4;"))):
		f.Progress = !bytes.HasPrefix(rest, []byte("4;0"))
	case n == 9 || n == 52 || n == 777: // notification, clipboard, notification
	case f.Effects:
		return dst
	case n == 4 || n == 10 || n == 11 || n == 12 || n == 104 || n == 110 || n == 111 || n == 112: // colours
		f.Colors = true
	case n == 7 || n == 8 || n == 133 || n == 633: // directory, link, marks of shells
	default:
		return dst
	}
	dst = append(append(dst, "\x1b]"...), f.seq...)
	return append(dst, "\x1b\\"...)
}
