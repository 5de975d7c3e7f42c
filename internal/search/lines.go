package search

import (
	"bytes"
	"unicode/utf8"
)

// MaxLine is how many bytes of a line are searched and shown. The rest of a longer line is
// skipped.
const MaxLine = 64 << 10

// Lines splits the bytes of one stream into lines, across the pieces in which they arrive.
type Lines struct {
	// Tail searches the last MaxLine bytes of a longer line, instead of the first: a program that
	// shows its progress in one long line asks its question at the end of it.
	Tail bool

	start int64  // the offset of the line that has no end yet
	text  []byte // its first MaxLine bytes; with Tail at least the last ones, and less than twice as many
	long  bool   // the line has more bytes than text
}

// Line is one line, without its end. Its text is valid until the next line.
type Line struct {
	Offset int64 // of the line, also if the text begins later
	Text   []byte
	Cut    bool  // the line is longer than the text
	End    int64 // the offset of the next line
}

// Feed takes the bytes at an offset, which follow the bytes of the last call, and calls f with
// each line that is now complete. If f returns false, Feed skips the rest and returns false, and
// the Lines cannot be used any more.
func (l *Lines) Feed(offset int64, data []byte, f func(Line) bool) bool {
	if !l.isOpen() {
		l.start = offset
	}
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			l.add(data)
			return true
		}
		end := offset + int64(i) + 1
		whole := Line{Offset: l.start, Text: data[:i], End: end}
		if l.isOpen() || i > MaxLine {
			l.add(data[:i])
			whole.Text, whole.Cut = l.kept(), l.long
		}
		if !f(l.trim(whole)) {
			return false
		}
		l.Drop()
		l.start = end
		data, offset = data[i+1:], end
	}
}

func (l *Lines) isOpen() bool { return len(l.text) > 0 || l.long }

func (l *Lines) add(data []byte) {
	if !l.Tail {
		room := MaxLine - len(l.text)
		l.long = l.long || len(data) > room
		l.text = append(l.text, data[:min(room, len(data))]...)
		return
	}
	if extra := len(data) - MaxLine; extra > 0 {
		l.text, l.long, data = l.text[:0], true, data[extra:]
	}
	if len(l.text)+len(data) >= 2*MaxLine {
		l.text, l.long = append(l.text[:0], l.kept()...), true
	}
	l.text = append(l.text, data...)
	l.long = l.long || len(l.text) > MaxLine
}

// kept returns the part of the open line that is searched.
func (l *Lines) kept() []byte { return l.text[max(0, len(l.text)-MaxLine):] }

// trim removes the carriage return before the end of a line.
func (l *Lines) trim(line Line) Line {
	if l.Tail || !line.Cut {
		line.Text = bytes.TrimSuffix(line.Text, []byte("\r"))
	}
	return line
}

// Open returns the line that has no end yet, if there is one. end is the end of the bytes.
func (l *Lines) Open(end int64) (line Line, ok bool) {
	line = Line{Offset: l.start, Text: l.kept(), Cut: l.long, End: end}
	if l.Tail {
		line = l.trim(line)
	}
	return line, l.isOpen()
}

// Drop forgets the line that has no end yet.
func (l *Lines) Drop() { l.text, l.long = l.text[:0], false }

// Shown returns at most limit bytes of the line, and whether it is longer. It does not end inside
// a character.
func (l Line) Shown(limit int64) (text []byte, cut bool) {
	text, cut = l.Text, l.Cut
	if int64(len(text)) > limit {
		text, cut = text[:limit], true
	}
	if cut {
		text = text[:len(text)-TornEnd(text)]
	}
	return text, cut
}

// TornEnd returns how many bytes at the end of text begin a character whose rest is missing. It
// returns 0 for data that is not text, and if no other byte would be left.
func TornEnd(b []byte) int {
	for n := 1; n < min(utf8.UTFMax, len(b)); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if utf8.FullRune(b[len(b)-n:]) || !utf8.Valid(b[:len(b)-n]) {
				return 0
			}
			return n
		}
	}
	return 0
}
