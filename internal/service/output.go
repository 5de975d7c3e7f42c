package service

import (
	"context"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/search"
	"github.com/trl-dev/trl/internal/session"
)

var _ api.OutputReader = (*Service)(nil)

// ReadOutput reads a piece of the output of a command as bytes. Before a gap it may be shorter
// than requested.
func (s *Service) ReadOutput(ctx context.Context, p api.ExecOutputParams, wait bool) (api.OutputBytes, error) {
	r, err := s.outputOf(&p)
	if err != nil {
		return api.OutputBytes{}, err
	}
	if p.Grep != "" {
		return api.OutputBytes{}, api.InvalidParam("grep", "does not go with bytes")
	}
	result, data, err := r.piece(ctx, wait)
	return api.OutputBytes{ExecOutputResult: result, Bytes: data}, err
}

// ExecOutput reads the output of a command: a piece of it as text, or the lines that
// match.
func (s *Service) ExecOutput(ctx context.Context, p api.ExecOutputParams) (api.ExecOutputResult, error) {
	r, err := s.outputOf(&p)
	if err != nil {
		return api.ExecOutputResult{}, err
	}
	if p.Grep != "" {
		return r.grep(ctx, p.Grep)
	}
	result, data, err := r.piece(ctx, false)
	if err != nil {
		return api.ExecOutputResult{}, err
	}
	if p.Tail != nil { // the tail must not begin inside a character
		n := continued(data)
		result.Offset, data = result.Offset+int64(n), data[n:]
	}
	if n := search.TornEnd(data); n > 0 && !result.Complete {
		data = data[:len(data)-n]
		result.NextOffset -= int64(n)
	}
	result.Data, result.DataBase64 = api.Text(data)
	return result, nil
}

// continued returns how many bytes at the beginning of text belong to a character that began
// earlier. It returns 0 for data that is not text.
func continued(b []byte) int {
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

// reader reads one stream of a command.
type reader struct {
	session *session.Session
	exec    string
	stream  string
	offset  int64
	limit   int64
	tail    int64
	fromEnd bool // the first fetch is by tail, not by offset
}

// outputOf checks the parameters, fills in the defaults, and finds the command.
func (s *Service) outputOf(p *api.ExecOutputParams) (*reader, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.Stream == "" {
		p.Stream = api.EventStdout
	}
	r := &reader{exec: p.ExecID, stream: p.Stream, offset: p.Offset, limit: api.DefaultOutputLimit}
	if p.Limit != nil {
		r.limit = *p.Limit
	}
	if p.Tail != nil {
		r.limit, r.tail, r.fromEnd = *p.Tail, *p.Tail, true
	}
	var err error
	r.session, err = s.registry.GetByExec(p.ExecID)
	return r, err
}

// fetch reads bytes at an offset from the runner. The first fetch may be for the tail instead.
func (r *reader) fetch(ctx context.Context, offset, limit int64, wait bool) (link.OutputResult, []byte, error) {
	p := link.OutputParams{ExecID: r.exec, Stream: r.stream, Offset: offset, Limit: int(limit), Wait: wait}
	if r.fromEnd {
		r.fromEnd = false
		if p.Tail = r.tail; r.tail == 0 {
			return r.fetchEnd(ctx)
		}
	}
	result, data, err := r.session.Output(ctx, p)
	if err == nil && int64(len(data)) > limit {
		err = api.Errorf(api.CodeInternal, "exec %q: the runner sent more output than requested", r.exec)
	}
	return result, data, err
}

// fetchEnd is for a tail of 0 bytes. A runner takes that for no tail, so fetchEnd reads the last
// byte and drops it.
func (r *reader) fetchEnd(ctx context.Context) (link.OutputResult, []byte, error) {
	got, data, err := r.session.Output(ctx, link.OutputParams{ExecID: r.exec, Stream: r.stream, Tail: 1, Limit: 1})
	got.Offset, got.Gap = got.Offset+int64(len(data)), nil
	return got, nil, err
}

// piece reads up to limit bytes. With wait it waits for the first.
func (r *reader) piece(ctx context.Context, wait bool) (api.ExecOutputResult, []byte, error) {
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
func (r *reader) grep(ctx context.Context, pattern string) (api.ExecOutputResult, error) {
	got, text, err := r.session.Grep(ctx, link.GrepParams{
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
		result.Lines = append(result.Lines, outputLine(l, text[:l.Len]))
		text = text[l.Len:]
	}
	return result.ExecOutputResult, nil
}

// outputLine returns a line for the wire.
func outputLine(l link.Line, text []byte) api.OutputLine {
	out := api.OutputLine{Offset: l.Offset, Truncated: l.Truncated}
	out.Text, out.TextBase64 = api.Text(text)
	return out
}

// outputResult is an answer in the making.
type outputResult struct{ api.ExecOutputResult }

func (r *reader) result(offset int64, gap *api.Span) outputResult {
	return outputResult{api.ExecOutputResult{ExecID: r.exec, Stream: r.stream, Offset: offset, Gap: gap}}
}

// note takes over the runner's last answer; next is where its bytes end.
func (r *outputResult) note(got link.OutputResult, next int64) {
	r.NextOffset, r.TotalBytes, r.State, r.Complete, r.NextGap = next, got.Total, got.State, got.Complete, got.NextGap
}

// ExecInput writes to the stdin of a running command.
func (s *Service) ExecInput(ctx context.Context, p api.ExecInputParams) (api.ExecInputResult, error) {
	if err := p.Check(); err != nil {
		return api.ExecInputResult{}, err
	}
	found, err := s.registry.GetByExec(p.ExecID)
	if err != nil {
		return api.ExecInputResult{}, err
	}
	if err := notOwned(ctx, found, p.Force, "dialogue.send"); err != nil {
		return api.ExecInputResult{}, err
	}
	return found.Input(ctx, link.InputParams{ExecID: p.ExecID, WriteID: p.WriteID, Close: p.Close, Pty: p.Pty}, p.Content())
}
