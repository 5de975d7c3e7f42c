package service

import (
	"bytes"

	"github.com/trl-dev/trl/api"
)

// maxLine is how many bytes of a line are searched and shown. The rest of a longer line is
// skipped.
const maxLine = 64 << 10

// lines splits the bytes of one stream into lines, across the pieces in which they arrive.
type lines struct {
	start int64  // the offset of the line that has no end yet
	text  []byte // its bytes, at most maxLine
	long  bool   // the line has more bytes than text
}

// line is one line, without its end. Its text is valid until the next line.
type line struct {
	offset int64
	text   []byte
	cut    bool  // the line is longer than text
	end    int64 // the offset of the next line
}

// feed takes the bytes at an offset, which follow the bytes of the last call, and calls f with
// each line that is now complete. If f returns false, feed skips the rest, and lines cannot be
// used any more.
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

// open returns the line that has no end yet, if there is one. end is the end of the bytes.
func (l *lines) open(end int64) (line, bool) {
	return line{offset: l.start, text: l.text, cut: l.long, end: end}, len(l.text) > 0 || l.long
}

// drop forgets the line that has no end yet.
func (l *lines) drop() { l.text, l.long = l.text[:0], false }

// shown returns at most limit bytes of a line, for the wire.
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
