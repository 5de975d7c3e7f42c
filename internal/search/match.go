package search

import (
	"context"
	"regexp"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Match answers exec.match: it searches both streams for a line that matches, including lines that
// have no end yet. With p.Wait it goes on until a line matches or the command has ended.
//
// The output is read with the function read, in pieces; ctx ends the search between two of them.
func Match(ctx context.Context, p link.MatchParams, read func(link.ReadParams) (link.ReadResult, []byte, error)) (link.MatchResult, []byte, error) {
	pattern, err := Compile("output_match", p.Pattern)
	if err != nil {
		return link.MatchResult{}, nil, err
	}
	s := match{pattern: pattern, after: p.AfterSeq}
	s.streams[0] = stream{name: api.EventStdout, from: p.Stdout}
	s.streams[1] = stream{name: api.EventStderr, from: p.Stderr}
	for {
		before := s.after
		r, text, err := read(link.ReadParams{ExecID: p.ExecID, AfterSeq: s.after, Limit: piece, Wait: p.Wait})
		if err == nil {
			err = s.take(p.ExecID, r, text)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return link.MatchResult{}, nil, err
		}
		// A wait that brings nothing is over: the log is closed, and the command has no outcome.
		over := s.after == before || !p.Wait && s.after >= p.Until
		if s.found != nil || r.Outcome != nil || over {
			return link.MatchResult{
				Line: s.found, Stream: s.in, Seq: s.seq, Outcome: r.Outcome, ExitSeq: r.Seq, LastSeq: s.after, Position: s.position(),
			}, s.body, nil
		}
	}
}

// match is the state of one Match.
type match struct {
	pattern *regexp.Regexp
	after   int64 // the last record that was searched
	streams [2]stream

	found *link.Line // the first line that matched, with its bytes, stream and record
	body  []byte
	in    string
	seq   int64
}

// stream is one stream in a search.
type stream struct {
	name  string
	from  int64 // bytes before this offset have been searched before
	lines Lines
	begun int64 // the record in which the open line begins
	last  link.Chunk
}

// take searches the answer to a read. Lines that have no end yet are searched last.
func (s *match) take(execID string, r link.ReadResult, text []byte) error {
	for i := range s.streams {
		s.streams[i].last = link.Chunk{}
	}
	err := r.EachChunk(execID, text, func(c link.Chunk, data []byte) {
		if s.found != nil {
			return
		}
		s.after = c.Seq
		for i := range s.streams {
			if s.streams[i].name == c.Stream {
				s.feed(&s.streams[i], c, data)
			}
		}
	})
	for i := range s.streams {
		st := &s.streams[i]
		if open, ok := st.lines.Open(st.last.Offset + st.last.Len); ok && st.last.Seq > 0 {
			s.try(st.last, open)
		}
	}
	return err
}

// feed searches the lines that a record completes.
func (s *match) feed(st *stream, c link.Chunk, data []byte) {
	if c.Offset+c.Len <= st.from {
		return
	}
	if c.Gap {
		st.lines.Drop()
		st.last, st.from = c, c.Offset+c.Len
		return
	}
	if skip := st.from - c.Offset; skip > 0 {
		c.Offset, c.Len, data = c.Offset+skip, c.Len-skip, data[skip:]
	}
	if !st.lines.isOpen() {
		st.begun = c.Seq
	}
	st.last = c
	st.lines.Feed(c.Offset, data, func(whole Line) bool {
		st.begun = c.Seq
		s.try(c, whole)
		return s.found == nil
	})
	st.from = c.Offset + c.Len
}

// try searches one line.
func (s *match) try(c link.Chunk, l Line) {
	if s.found == nil && s.pattern.Match(l.Text) {
		text, cut := l.Shown(MaxLine)
		s.found = &link.Line{Offset: l.Offset, Len: len(text), Truncated: cut}
		s.body, s.in, s.seq = append(s.body, text...), c.Stream, c.Seq
	}
}

// position returns where another search goes on, with the open lines from their beginnings.
func (s *match) position() link.Position {
	p := link.Position{AfterSeq: s.after, Stdout: s.streams[0].next(), Stderr: s.streams[1].next()}
	for i := range s.streams {
		if st := &s.streams[i]; st.lines.isOpen() {
			p.AfterSeq = min(p.AfterSeq, st.begun-1)
		}
	}
	return p
}

// next is the first byte that another search reads.
func (st *stream) next() int64 {
	if open, ok := st.lines.Open(0); ok {
		return open.Offset
	}
	return st.from
}
