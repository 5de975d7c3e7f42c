package client

import (
	"context"
	"encoding/base64"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

// Stream is a stream of pushes from a daemon. Only one goroutine at a time may call Recv; Close may
// be called at any time, and ends a Recv.
//
// When the connection is lost, or the daemon is restarted, Recv opens the stream again and continues
// after the last push that it has returned: no push is missing, and none comes twice. The daemon
// cancels the command of a stream with detach false when the connection is lost. If the daemon itself
// ended, the next daemon continues the command.
type Stream struct {
	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	method string
	start  api.StreamStart
	again  func() any  // returns the parameters with which the stream continues
	owns   bool        // the end of the stream cancels the command
	watch  func(error) // see Watch
	viewer *viewer     // for session.attach; nil for other streams
	begun  *wire.Begun // sent before there was a Client, and not yet answered; usually nil

	// Used by Recv alone.
	seq      int64            // number of the last push
	have     map[string]int64 // by stream of output: offset after the last byte that Recv returned
	attached time.Time
	outage   outage
	ended    error // what Recv returns from now on

	mu       sync.Mutex
	src      api.Stream // guarded by mu; where pushes come from now
	viewerID string     // guarded by mu; of src
}

var _ api.ByteStream = (*Stream)(nil)

// ExecStream implements api.Service. The Stream is a *Stream.
func (c *Client) ExecStream(ctx context.Context, p api.ExecStreamParams) (api.Stream, error) {
	s := c.newStream(ctx, "exec.stream")
	s.have = map[string]int64{api.EventStdout: p.FromOffset, api.EventStderr: p.FromOffset}
	first := p
	if s.begun = wire.TakeBegun(ctx); s.begun != nil {
		p.RunID, s.have = s.begun.RunID, s.begun.Printed
	}
	given := p.ExecID == "" && (s.begun != nil || c.once(&p.RunID))
	s.owns = p.Detach != nil && !*p.Detach
	s.again = func() any {
		q := api.ExecStreamParams{ExecID: s.start.ExecID, Stream: p.Stream, AfterSeq: s.seq}
		if s.owns {
			q.Detach = p.Detach
		}
		if s.seq == 0 {
			q.AfterSeq, q.FromOffset = p.AfterSeq, p.FromOffset
		}
		return q
	}
	stream, err := s.open(p, p.ExecID != "" || p.RunID != "")
	if given && c.isOlder(err) {
		return c.ExecStream(ctx, first)
	}
	return stream, err
}

// EventSubscribe implements api.Service. The Stream is a *Stream.
func (c *Client) EventSubscribe(ctx context.Context, p api.EventSubscribeParams) (api.Stream, error) {
	s := c.newStream(ctx, "event.subscribe")
	s.again = func() any {
		q := p
		if after := max(s.seq, s.start.Seq); after > 0 {
			q.AfterSeq = &after
		}
		return q
	}
	return s.open(p, true)
}

// UsageSubscribe implements api.Service. The Stream is a *Stream.
func (c *Client) UsageSubscribe(ctx context.Context, p api.UsageSubscribeParams) (api.Stream, error) {
	s := c.newStream(ctx, "usage.subscribe")
	s.again = func() any { return p }
	return s.open(p, true)
}

// AuditSubscribe implements api.Service. The Stream is a *Stream.
func (c *Client) AuditSubscribe(ctx context.Context, p api.AuditSubscribeParams) (api.Stream, error) {
	s := c.newStream(ctx, "audit.subscribe")
	s.again = func() any {
		q := p
		if after := max(s.seq, s.start.Seq); after > 0 {
			q.AfterSeq = &after
		}
		return q
	}
	return s.open(p, true)
}

// SystemLog implements api.Service. The Stream is a *Stream.
func (c *Client) SystemLog(ctx context.Context, p api.SystemLogParams) (api.Stream, error) {
	s := c.newStream(ctx, "system.log")
	s.again = func() any {
		q := p
		q.AfterSeq = max(q.AfterSeq, s.seq)
		return q
	}
	return s.open(p, true)
}

func (c *Client) newStream(ctx context.Context, method string) *Stream {
	s := &Stream{client: c, method: method, outage: c.outage()}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// open opens the stream for the first time; harmless says that the request may be repeated.
func (s *Stream) open(params any, harmless bool) (api.Stream, error) {
	for {
		src, err := s.first(params)
		if err == nil {
			s.start = src.Start()
			err = s.attach(src)
		}
		if err == nil {
			return s, nil
		}
		if !retry(err, harmless) {
			err = uncertain(err, s.method)
		} else if err = s.outage.wait(s.ctx, s.client.done, err); err == nil {
			continue
		}
		s.end(err)
		return nil, err
	}
}

// first sends the request, unless it was sent before there was a Client.
func (s *Stream) first(params any) (api.Stream, error) {
	if b := s.begun; b != nil {
		s.begun = nil
		return adopt(s.ctx, b)
	}
	return s.client.way.open(s.ctx, s.method, params)
}

// attach makes src the source of the stream, unless the Client was closed meanwhile.
func (s *Stream) attach(src api.Stream) error {
	c := s.client
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.streams[s] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		_ = src.Close()
		return errClosed
	}
	s.mu.Lock()
	s.src, s.viewerID = src, src.Start().ViewerID
	s.mu.Unlock()
	s.attached = time.Now()
	return nil
}

// Start returns the immediate answer. In a stream of session.attach, the viewer gets a new id each
// time the stream is opened again; Start has the latest.
func (s *Stream) Start() api.StreamStart {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := s.start
	start.ViewerID = s.viewerID
	return start
}

// Watch makes Recv call f with the reason when the connection is lost, and with nil when the
// stream continues. Call Watch before the first Recv.
func (s *Stream) Watch(f func(lost error)) { s.watch = f }

// Close closes the stream. The command's Detach parameter decides whether the command runs on.
func (s *Stream) Close() error {
	s.end(io.ErrClosedPipe)
	return nil
}

// end releases everything. A waiting Recv returns the cause.
func (s *Stream) end(cause error) {
	s.cancel(cause)
	s.mu.Lock()
	src := s.src
	s.mu.Unlock()
	if src != nil {
		_ = src.Close()
	}
	s.client.mu.Lock()
	delete(s.client.streams, s)
	s.client.mu.Unlock()
}

// Recv returns the next push, and io.EOF after the last one. It returns an error when the context of
// the call that opened the stream ends, or the daemon cannot be reached again.
func (s *Stream) Recv() (api.StreamEvent, error) {
	return withText(s.recv())
}

// RecvBytes implements api.ByteStream.
func (s *Stream) RecvBytes() (api.StreamEvent, []byte, error) {
	ev, data, err := s.recv()
	if data == nil && (ev.Data != "" || ev.DataBase64 != "") {
		data = api.Data(ev.Data, ev.DataBase64)
		ev.Data, ev.DataBase64 = "", ""
	}
	return ev, data, err
}

// recv returns the next push. If the transport carries output as raw bytes, data has the output.
func (s *Stream) recv() (api.StreamEvent, []byte, error) {
	for s.ended == nil {
		ev, data, err := receivePush(s.source())
		if err != nil {
			if err = s.reattach(err); err != nil {
				s.ended = err
				s.end(err)
			}
			continue
		}
		s.outage.over()
		fresh := s.fresh(&ev, &data)
		s.seq = max(s.seq, ev.Seq)
		if ev.Type == api.EventExit || ev.Type == api.EventEnd {
			s.ended = io.EOF
			s.end(io.EOF)
		}
		if fresh {
			ev.StreamID = s.start.StreamID
			return ev, data, nil
		}
	}
	return api.StreamEvent{}, nil, s.ended
}

// receivePush returns the next push of a source.
func receivePush(src api.Stream) (api.StreamEvent, []byte, error) {
	if b, ok := src.(api.ByteStream); ok {
		return b.RecvBytes()
	}
	ev, err := src.Recv()
	return ev, nil, err
}

func (s *Stream) source() api.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.src
}

// reattach opens the stream again after its source has ended, if that is possible. Otherwise it
// returns the error with which the stream ends.
func (s *Stream) reattach(cause error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if time.Since(s.attached) > lastPause { // the daemon was reachable, and had nothing to push
		s.outage.over()
	}
	_ = s.source().Close()
	if s.owns && retry(cause, true) && (api.SessionsEnded(cause) || s.outage.limit <= 0) {
		return api.Errorf(api.CodeRuntimeUnavailable, "%s; exec %q is cancelled, because it was not detached", unwrapLost(cause), s.start.ExecID)
	}
	if s.watch != nil && retry(cause, true) {
		s.watch(unwrapLost(cause))
	}
	for retry(cause, true) {
		if err := s.outage.wait(s.ctx, s.client.done, cause); err != nil {
			cause = err
			break
		}
		src, err := s.client.way.open(s.ctx, s.method, s.again())
		if err == nil {
			if err = s.attach(src); err == nil {
				s.goesOn()
			}
			return err
		}
		cause = err
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return cause
}

// goesOn announces that the stream is open again.
func (s *Stream) goesOn() {
	if s.viewer != nil {
		s.resizeAgain()
	}
	if s.watch != nil {
		s.watch(nil)
	}
}

// fresh removes from a push what Recv has already returned, and reports whether anything is left.
// The output is in data, or in the push.
func (s *Stream) fresh(ev *api.StreamEvent, data *[]byte) bool {
	switch {
	case s.viewer != nil:
		return s.freshToViewer(ev)
	case s.method == "event.subscribe" && ev.Type == api.EventMissed && ev.From != nil && ev.To != nil:
		from := max(*ev.From, s.seq+1)
		ev.From, ev.Seq = &from, max(ev.Seq, *ev.To-1)
		return from < *ev.To
	case s.method == "dialogue.events" && ev.Type == api.EventEnd:
		return true
	case s.method == "event.subscribe" || s.method == "dialogue.events":
		return ev.Seq > s.seq
	case ev.Type == api.EventGap && ev.From != nil && ev.To != nil:
		from := max(*ev.From, s.have[ev.Stream])
		ev.From = &from
		s.have[ev.Stream] = max(s.have[ev.Stream], *ev.To)
		return from < *ev.To
	case (ev.Type == api.EventStdout || ev.Type == api.EventStderr) && ev.Offset != nil && *ev.Offset >= 0:
		have := s.have[ev.Type]
		if *data == nil {
			s.have[ev.Type] = max(have, *ev.Offset+dataLen(ev))
			return behind(ev, have)
		}
		end := *ev.Offset + int64(len(*data))
		s.have[ev.Type] = max(have, end)
		if *ev.Offset < have && end > have {
			*data = (*data)[have-*ev.Offset:]
			ev.Offset = &have
		}
		return end > have
	}
	return true
}

// behind removes the bytes before offset have, and reports whether any are left.
func behind(ev *api.StreamEvent, have int64) bool {
	end := *ev.Offset + dataLen(ev)
	if *ev.Offset < have && end > have {
		data := api.Data(ev.Data, ev.DataBase64)
		ev.Data, ev.DataBase64 = api.Text(data[min(have-*ev.Offset, int64(len(data))):])
		ev.Offset = &have
	}
	return end > have
}

// dataLen returns how many bytes of output a push carries.
func dataLen(ev *api.StreamEvent) int64 {
	if ev.DataBase64 == "" {
		return int64(len(ev.Data))
	}
	padding := len(ev.DataBase64) - len(strings.TrimRight(ev.DataBase64, "="))
	return int64(base64.StdEncoding.DecodedLen(len(ev.DataBase64)) - padding)
}
