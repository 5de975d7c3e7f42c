package client

import (
	"context"

	"github.com/trl-dev/trl/api"
)

// viewer has the state with which a stream of session.attach continues after a loss.
type viewer struct {
	params api.SessionAttachParams

	// Used by Recv alone.
	next  *int64 // the first byte that the reader does not have yet; nil when it has none
	owner bool   // the last push said that this viewer owns the size of the terminal

	size *api.TerminalSize // guarded by Stream.mu; the size of the viewer
	sent *api.TerminalSize // guarded by Stream.mu; the size that session.attach sent
}

// SessionAttach implements api.Service. The Stream is a *Stream. After a loss it continues with the
// byte after the last one that it has returned, or with a snapshot if that byte is no longer kept;
// Seq goes on counting. A viewer that owned the size owns it again.
func (c *Client) SessionAttach(ctx context.Context, p api.SessionAttachParams) (api.Stream, error) {
	s := c.newStream(ctx, "session.attach")
	s.viewer = &viewer{params: p, next: p.FromOffset, size: p.Size, sent: p.Size}
	s.again = func() any { return s.attachAgain() }
	return s.open(p, true)
}

// attachAgain returns the parameters of session.attach after a loss.
func (s *Stream) attachAgain() api.SessionAttachParams {
	v := s.viewer
	q := v.params
	if s.start.SessionID != "" {
		q.SessionID = s.start.SessionID // another session may have the name by then
	}
	q.Snapshot, q.FromOffset = v.next == nil && q.Snapshot, v.next
	s.mu.Lock()
	defer s.mu.Unlock()
	v.sent = v.size
	q.Size, q.TakeSize = v.size, v.owner && v.size != nil
	return q
}

// Resize sends the size of the viewer of a session.attach stream to the daemon. It may be called
// at any time. The stream sends the size again whenever it attaches again, so a caller can ignore
// the error of a lost connection.
func (s *Stream) Resize(ctx context.Context, cols, rows int) (api.SessionResizeResult, error) {
	if s.viewer == nil {
		return api.SessionResizeResult{}, api.Errorf(api.CodeInvalidParams, "%s: its stream is not a viewer and has no size", s.method)
	}
	p := api.SessionResizeParams{SessionID: s.start.SessionID, Cols: cols, Rows: rows}
	if p.SessionID == "" {
		p.SessionID = s.viewer.params.SessionID
	}
	if err := p.Check(); err != nil {
		return api.SessionResizeResult{}, err
	}
	s.mu.Lock()
	s.viewer.size = &api.TerminalSize{Cols: cols, Rows: rows}
	p.ViewerID = s.viewerID
	s.mu.Unlock()
	return s.client.SessionResize(ctx, p)
}

// resizeAgain sends a size that the viewer got while the stream attached again with another one.
func (s *Stream) resizeAgain() {
	s.mu.Lock()
	size, sent := s.viewer.size, s.viewer.sent
	s.mu.Unlock()
	if size != nil && (sent == nil || *size != *sent) {
		_, _ = s.Resize(s.ctx, size.Cols, size.Rows) // if this is lost, too, the next attach sends the size
	}
}

// freshToViewer is fresh for session.attach.
func (s *Stream) freshToViewer(ev *api.StreamEvent) bool {
	v := s.viewer
	if ev.ViewerEvent != nil {
		v.owner = ev.OwnerID != "" && ev.OwnerID == s.Start().ViewerID
	}
	switch {
	case ev.Type == api.EventSnapshot && ev.Offset != nil:
		next := *ev.Offset
		v.next = &next
	case ev.Type == api.EventOutput && ev.Offset != nil:
		next := *ev.Offset + dataLen(ev)
		if v.next != nil {
			if !behind(ev, *v.next) {
				return false
			}
			next = max(next, *v.next)
		}
		v.next = &next
	}
	// Each attachment counts from the beginning.
	ev.Seq = s.seq + 1
	return true
}
