package service

import (
	"bytes"

	"github.com/trl-dev/trl/api"
)

// maxLine is how much of a line is looked at, and shown. The rest of a longer line is
// passed over.
const maxLine = 64 << 10

// lines splits the bytes of one stream into lines, across the pieces in which they arrive.
type lines struct {
	start int64  // where the line that has no end yet begins
	text  []byte // its bytes, at most maxLine
	long  bool   // it has more of them
}

// line is one line, without its end. Its text is valid until the next one.
type line struct {
	offset int64
	text   []byte
	cut    bool  // it is longer than text
	end    int64 // where the next line begins
}

// feed takes the bytes at an offset, which is where those before ended, and calls f with
// each line that comes to its end. When f returns false the rest is not looked at, and
// the lines cannot be fed any more.
func (l *lines) feed(offset int64, data []byte, f func(line) bool) bool {
	if len(l.text) == 0 && !l.long {
		l.start = offset
	}
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			l.add(data)
			return true
		}
		end := offset + int64(i) + 1
		whole := line{offset: l.start, text: data[:i], end: end}
		if len(l.text) > 0 || l.long || i > maxLine {
			l.add(data[:i])
			whole.text, whole.cut = l.text, l.long
		}
		if !whole.cut {
			whole.text = bytes.TrimSuffix(whole.text, []byte("\r"))
		}
		if !f(whole) {
			return false
		}
		l.text, l.long, l.start = l.text[:0], false, end
		data, offset = data[i+1:], end
	}
}

func (l *lines) add(data []byte) {
	room := maxLine - len(l.text)
	l.long = l.long || len(data) > room
	l.text = append(l.text, data[:min(room, len(data))]...)
}

// open returns the line that has no end yet, if there is one; it would end at end.
func (l *lines) open(end int64) (line, bool) {
	return line{offset: l.start, text: l.text, cut: l.long, end: end}, len(l.text) > 0 || l.long
}

// drop forgets the line that has no end yet.
func (l *lines) drop() { l.text, l.long = l.text[:0], false }

// shown is a line for the wire, at most limit bytes of it.
func (l line) shown(limit int64) api.OutputLine {
	text, cut := l.text, l.cut
	if int64(len(text)) > limit {
		text, cut = text[:limit], true
	}
	if cut {
		text = text[:len(text)-tornEnd(text)]
	}
	out := api.OutputLine{Offset: l.offset, Truncated: cut}
	out.Text, out.TextBase64 = api.Text(text)
	return out
}
