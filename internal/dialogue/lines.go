package dialogue

import "bytes"

// lines cuts the stdout of a program into lines. What comes is addressed by byte, so it
// can come again, from any offset and cut anywhere, and counts once.
type lines struct {
	limit int64 // bytes of a line that are taken; of a longer one only the beginning is
	end   int64 // where what has come ends

	start   int64  // where the line begins that is not complete
	partial []byte // what there is of it
	excess  int64  // how many bytes of it were too many
	lost    bool   // it begins in a gap: what there is of it is only its end
}

// line is one line, without its end.
type line struct {
	start int64
	text  []byte // its beginning, when it is too long
	size  int64  // of the whole line
	lost  bool   // its beginning is missing
}

// unseen takes off what has come before.
func (l *lines) unseen(offset int64, data []byte) (int64, []byte) {
	if offset >= l.end {
		return offset, data
	}
	if offset+int64(len(data)) <= l.end {
		return l.end, nil
	}
	return l.end, data[l.end-offset:]
}

// skip says that the bytes up to an offset are lost. It returns the line that was begun.
func (l *lines) skip(to int64) (cut line, any bool) {
	cut, any = line{l.start, l.partial, l.end - l.start, l.lost}, l.end > l.start
	l.end, l.start, l.partial, l.excess, l.lost = to, to, nil, 0, true
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
		room := max(l.limit-int64(len(l.partial)), 0)
		take := part[:min(int64(len(part)), room)]
		l.excess += int64(len(part) - len(take))
		if n < 0 {
			l.partial = append(l.partial, take...)
			l.end += int64(len(part))
			return
		}
		text := take
		if len(l.partial) > 0 {
			l.partial = append(l.partial, take...)
			text = l.partial
		}
		l.end += int64(n) + 1
		data = data[n+1:]
		full := line{l.start, text, int64(len(text)) + l.excess, l.lost}
		l.start, l.excess, l.lost = l.end, 0, false
		each(full)
		if l.partial = l.partial[:0]; cap(l.partial) > 1<<20 {
			l.partial = nil
		}
	}
}

// tail is what there is of a line that has no end.
func (l *lines) tail() []byte { return l.partial }
