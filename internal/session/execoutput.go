package session

import (
	"cmp"
	"context"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/search"
)

// OutputBytes reads a piece of the output of a command, which may end inside a character. Before a
// gap it may be shorter than requested. With wait it waits for the first byte.
func (s *Session) OutputBytes(ctx context.Context, p api.ExecOutputParams, wait bool) (api.OutputBytes, error) {
	result, data, err := s.newOutputReader(p).piece(ctx, wait)
	return api.OutputBytes{ExecOutputResult: result, Bytes: data}, err
}

// OutputText reads a piece of the output of a command as text. It begins and ends with a whole
// character, unless the caller's offset is inside of one or the output ends there for good.
func (s *Session) OutputText(ctx context.Context, p api.ExecOutputParams) (api.ExecOutputResult, error) {
	result, data, err := s.newOutputReader(p).piece(ctx, false)
	if err != nil {
		return api.ExecOutputResult{}, err
	}
	if p.Tail != nil { // the tail must not begin inside a character
		n := tornStart(data)
		result.Offset, data = result.Offset+int64(n), data[n:]
	}
	if n := search.TornEnd(data); n > 0 && !result.Complete {
		data = data[:len(data)-n]
		result.NextOffset -= int64(n)
	}
	result.Data, result.DataBase64 = api.Text(data)
	return result, nil
}

// OutputLines returns the lines of the output of a command that match p.Grep.
func (s *Session) OutputLines(ctx context.Context, p api.ExecOutputParams) (api.ExecOutputResult, error) {
	return s.newOutputReader(p).grep(ctx, p.Grep)
}

// tornStart returns how many bytes at the beginning of text belong to a character that began
// earlier. It returns 0 for data that is not text.
func tornStart(b []byte) int {
	for n := 0; n < min(utf8.UTFMax, len(b)); n++ {
		if utf8.RuneStart(b[n]) {
			if n > 0 && utf8.Valid(b[n:len(b)-search.TornEnd(b)]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// outputReader reads one stream of a command, for one call.
type outputReader struct {
	session *Session
	exec    string
	stream  string
	offset  int64
	limit   int64
	tail    int64
	fromEnd bool // the first fetch is by tail, not by offset
}

// newOutputReader makes a reader for parameters that are valid, and fills in their defaults.
func (s *Session) newOutputReader(p api.ExecOutputParams) *outputReader {
	r := &outputReader{session: s, exec: p.ExecID, stream: cmp.Or(p.Stream, api.EventStdout), offset: p.Offset, limit: api.DefaultOutputLimit}
	if p.Limit != nil {
		r.limit = *p.Limit
	}
	if p.Tail != nil {
		r.limit, r.tail, r.fromEnd = *p.Tail, *p.Tail, true
	}
	return r
}

// fetch reads bytes at an offset from the runner. The first fetch may be for the tail instead.
func (r *outputReader) fetch(ctx context.Context, offset, limit int64, wait bool) (link.OutputResult, []byte, error) {
	p := link.OutputParams{ExecID: r.exec, Stream: r.stream, Offset: offset, Limit: int(limit), Wait: wait}
	if r.fromEnd {
		r.fromEnd = false
		if p.Tail = r.tail; r.tail == 0 {
			return r.fetchEnd(ctx)
		}
	}
	result, data, err := r.session.readOutput(ctx, p)
	if err == nil && int64(len(data)) > limit {
		err = api.Errorf(api.CodeInternal, "exec %q: the runner sent more output than requested", r.exec)
	}
	return result, data, err
}

// fetchEnd is for a tail of 0 bytes. A runner takes that for no tail, so fetchEnd reads the last
// byte and drops it.
func (r *outputReader) fetchEnd(ctx context.Context) (link.OutputResult, []byte, error) {
	got, data, err := r.session.readOutput(ctx, link.OutputParams{ExecID: r.exec, Stream: r.stream, Tail: 1, Limit: 1})
	got.Offset, got.Gap = got.Offset+int64(len(data)), nil
	return got, nil, err
}

// piece reads up to limit bytes. With wait it waits for the first.
func (r *outputReader) piece(ctx context.Context, wait bool) (api.ExecOutputResult, []byte, error) {
	got, data, err := r.fetch(ctx, r.offset, r.limit, wait)
	if err != nil {
		return api.ExecOutputResult{}, nil, err
	}
	result := r.result(got.Offset, got.Gap)
	for {
		next := result.Offset + int64(len(data))
		result.note(got, next)
		if int64(len(data)) >= r.limit || next >= got.Total {
			return result.ExecOutputResult, data, nil
		}
		var more []byte
		got, more, err = r.fetch(ctx, next, r.limit-int64(len(data)), false)
		if err != nil || got.Gap != nil || len(more) == 0 {
			// The next bytes were dropped, or the session has ended: the next call reports it.
			return result.ExecOutputResult, data, nil
		}
		data = append(data, more...)
	}
}

// grep returns the lines that match.
func (r *outputReader) grep(ctx context.Context, pattern string) (api.ExecOutputResult, error) {
	got, text, err := r.session.grepOutput(ctx, link.GrepParams{
		ExecID: r.exec, Stream: r.stream, Pattern: pattern, Offset: r.offset, FromEnd: r.fromEnd, Tail: r.tail, Limit: r.limit,
	})
	if err != nil {
		return api.ExecOutputResult{}, err
	}
	result := r.result(got.Offset, got.Gap)
	result.note(got.OutputResult, got.Next)
	result.Lines = []api.OutputLine{}
	for _, l := range got.Lines {
		if l.Len < 0 || l.Len > len(text) {
			return api.ExecOutputResult{}, api.Errorf(api.CodeInternal, "exec %q: the runner announced more output than it sent", r.exec)
		}
		result.Lines = append(result.Lines, OutputLine(l, text[:l.Len]))
		text = text[l.Len:]
	}
	return result.ExecOutputResult, nil
}

// OutputLine returns a line that a runner found in the form of the API.
func OutputLine(l link.Line, text []byte) api.OutputLine {
	out := api.OutputLine{Offset: l.Offset, Truncated: l.Truncated}
	out.Text, out.TextBase64 = api.Text(text)
	return out
}

// outputResult is an answer in the making.
type outputResult struct{ api.ExecOutputResult }

func (r *outputReader) result(offset int64, gap *api.Span) outputResult {
	return outputResult{api.ExecOutputResult{ExecID: r.exec, Stream: r.stream, Offset: offset, Gap: gap}}
}

// note takes over the runner's last answer; next is where its bytes end.
func (r *outputResult) note(got link.OutputResult, next int64) {
	r.NextOffset, r.TotalBytes, r.State, r.Complete, r.NextGap = next, got.Total, got.State, got.Complete, got.NextGap
}

// readOutput reads bytes of one stream of a command.
func (s *Session) readOutput(ctx context.Context, p link.OutputParams) (r link.OutputResult, text []byte, err error) {
	if err := s.refuseIfEnded(p.ExecID); err != nil && s.archived() == nil {
		return r, nil, err
	}
	err = s.readFrom(ctx, func(from source) (err error) {
		r, text, err = from.Output(p)
		return err
	})
	return r, text, err
}

// grepOutput returns the lines of one stream of a command that match.
func (s *Session) grepOutput(ctx context.Context, p link.GrepParams) (r link.GrepResult, text []byte, err error) {
	if err := s.refuseIfEnded(p.ExecID); err != nil && s.archived() == nil {
		return r, nil, err
	}
	err = s.readFrom(ctx, func(from source) (err error) {
		r, text, err = from.Grep(p)
		return err
	})
	return r, text, err
}
