package dialogue

import "bytes"

// lines cuts the stdout of a program into lines. What comes is addressed by byte, so it
// can come again, from any offset and cut anywhere, and counts once.
type lines struct {
	most int64 // bytes of a line that are taken; of a longer one only the beginning is
	have int64 // where what has come ends

	at     int64  // where the line begins that is not complete
	begun  []byte // what there is of it
	beyond int64  // how many bytes of it were too many
	lost   bool   // it begins in a gap: what there is of it is only its end
}

// line is one line, without its end.
type line struct {
	at    int64
	text  []byte // its beginning, when it is too long
	bytes int64  // of the whole line
	lost  bool   // its beginning is missing
}

// fresh takes off what has come before.
func (l *lines) fresh(offset int64, data []byte) (int64, []byte) {
	if offset >= l.have {
		return offset, data
	}
	if offset+int64(len(data)) <= l.have {
		return l.have, nil
	}
	return l.have, data[l.have-offset:]
}

// skip says that the bytes up to an offset are lost. It returns the line that was begun.
func (l *lines) skip(to int64) (cut line, any bool) {
	cut, any = line{l.at, l.begun, l.have - l.at, l.lost}, l.have > l.at
	l.have, l.at, l.begun, l.beyond, l.lost = to, to, nil, 0, true
	return cut, any
}

// add takes data that begins where the last ended, and calls each with every line that
// it completes. The text is valid only during the call.
func (l *lines) add(data []byte, each func(line)) {
	for len(data) > 0 {
		n := bytes.IndexByte(data, '\n')
		part := data
		if n >= 0 {
			part = data[:n]
		}
		room := max(l.most-int64(len(l.begun)), 0)
		take := part[:min(int64(len(part)), room)]
		l.beyond += int64(len(part) - len(take))
		if n < 0 {
			l.begun = append(l.begun, take...)
			l.have += int64(len(part))
			return
		}
		text := take
		if len(l.begun) > 0 {
			l.begun = append(l.begun, take...)
			text = l.begun
		}
		l.have += int64(n) + 1
		data = data[n+1:]
		full := line{l.at, text, int64(len(text)) + l.beyond, l.lost}
		l.at, l.beyond, l.lost = l.have, 0, false
		each(full)
		if l.begun = l.begun[:0]; cap(l.begun) > 1<<20 {
			l.begun = nil
		}
	}
}

// tail is what there is of a line that has no end.
func (l *lines) tail() []byte { return l.begun }
