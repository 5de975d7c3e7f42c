package search

import (
	"context"
	"regexp"

	"github.com/trl-dev/trl/internal/link"
)

const (
	// piece is how many bytes are read at once for a search.
	piece = 256 << 10
	// maxLines bounds the lines of one answer: empty ones take no bytes of the limit.
	maxLines = 10_000
)

// Grep answers exec.grep: it returns the lines of one stream that match, up to the end that the
// stream has at the beginning of the search. The limit bounds their bytes. Of a line longer than
// MaxLine only these bytes are searched and shown. The last line counts if it has its end, or if no
// output can follow. A gap splits a line; at a second gap the answer ends.
//
// The output is read with the function read, in pieces; ctx ends the search between two of them.
func Grep(ctx context.Context, p link.GrepParams, read func(link.OutputParams) (link.OutputResult, []byte, error)) (link.GrepResult, []byte, error) {
	pattern, err := Compile("grep", p.Pattern)
	if err != nil {
		return link.GrepResult{}, nil, err
	}
	first := link.OutputParams{ExecID: p.ExecID, Stream: p.Stream, Offset: p.Offset, Limit: piece}
	if p.FromEnd {
		first.Tail = max(p.Tail, 1)
	}
	got, data, err := read(first)
	if err != nil {
		return link.GrepResult{}, nil, err
	}
	if p.FromEnd && p.Tail == 0 { // a tail of 0 means none, so the last byte is read and dropped
		got.Offset, got.Gap, data = got.Offset+int64(len(data)), nil, nil
	}
	s := grep{pattern: pattern, left: p.Limit, done: got.Offset}
	begun, gap, stop := got.Offset, got.Gap, got.Total
	at := got.Offset // the offset of the next read
	var lines Lines
	for {
		s.full = !lines.Feed(at, data, s.look)
		at += int64(len(data))
		if s.full || at >= stop || len(data) == 0 {
			break
		}
		if err := ctx.Err(); err != nil {
			return link.GrepResult{}, nil, err
		}
		next, more, err := read(link.OutputParams{ExecID: p.ExecID, Stream: p.Stream, Offset: at, Limit: piece})
		if err != nil {
			return link.GrepResult{}, nil, err
		}
		if next.Gap != nil {
			if gap != nil {
				break
			}
			if last, ok := lines.Open(at); ok && !s.look(last) {
				s.full = true
				break
			}
			lines.Drop()
			gap, at, s.done = next.Gap, next.Offset, next.Offset
		}
		got, data = next, more
	}
	if last, ok := lines.Open(at); ok && !s.full && got.Complete {
		s.full = !s.look(last)
	}
	got.Offset, got.Gap = begun, gap
	got.Complete = got.Complete && s.done == at && !s.full
	return link.GrepResult{OutputResult: got, Next: s.done, Lines: s.lines}, s.body, nil
}

// grep is the state of one Grep.
type grep struct {
	pattern *regexp.Regexp
	left    int64 // bytes that the answer may still take
	lines   []link.Line
	body    []byte
	done    int64 // lines have been searched up to here
	full    bool  // the answer has no room for the next match
}

// look takes a line. It returns false if the line matches and the answer has no room for it.
func (s *grep) look(l Line) bool {
	if s.pattern.Match(l.Text) {
		if len(s.lines) >= maxLines || int64(len(l.Text)) > s.left && len(s.lines) > 0 || s.left <= 0 {
			return false
		}
		text, cut := l.Shown(s.left)
		s.lines = append(s.lines, link.Line{Offset: l.Offset, Len: len(text), Truncated: cut})
		s.body = append(s.body, text...)
		s.left -= int64(len(l.Text)) + 1
	}
	s.done = l.End
	return true
}
