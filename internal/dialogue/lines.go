package dialogue

import "bytes"

// lines cuts the stdout of a program into lines. Output is addressed by byte, so pieces may repeat
// and be cut anywhere; every byte counts once.
type lines struct {
	limit int64 // the most bytes of a line that are kept; the rest of a longer line is dropped
	end   int64 // offset of the end of the output so far

	start   int64  // offset of the incomplete line
	partial []byte // its bytes so far, up to limit
	excess  int64  // how many of its bytes were dropped
	lost    bool   // its beginning is lost in a gap
}

// line is one line, without its newline.
type line struct {
	start int64
	text  []byte // only the beginning of a line that is too long
	size  int64  // bytes of the whole line
	lost  bool   // its beginning is missing
}

// unseen drops the part of data that was already added.
func (l *lines) unseen(offset int64, data []byte) (int64, []byte) {
	if offset >= l.end {
		return offset, data
	}
	if offset+int64(len(data)) <= l.end {
		return l.end, nil
	}
	return l.end, data[l.end-offset:]
}

// skip marks the bytes up to an offset as lost. It returns the incomplete line before them.
func (l *lines) skip(to int64) (cut line, any bool) {
	cut, any = line{l.start, l.partial, l.end - l.start, l.lost}, l.end > l.start
	l.end, l.start, l.partial, l.excess, l.lost = to, to, nil, 0, true
	return cut, any
}

// add appends data, which starts at l.end, and calls each with every line that it completes. The
// text is valid only during the call.
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

// tail returns the incomplete last line.
func (l *lines) tail() []byte { return l.partial }
