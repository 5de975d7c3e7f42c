package client

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/trl-dev/trl/api"
)

// run follows the session until it ends or is closed.
func (r *RemoteSession) run() {
	defer close(r.done)
	end := io.ErrClosedPipe
	r.to(StateConnecting, "", nil)
	for r.ctx.Err() == nil {
		err := r.follow()
		if err == nil {
			end = io.EOF
			break
		}
		if r.ctx.Err() == nil && !r.tryAgain(err) {
			r.awaitRetry()
		}
	}
	r.mu.Lock()
	r.ended = end
	r.changedLocked()
	r.mu.Unlock()
}

// tryAgain reports whether another attempt may succeed after err, and pauses before it. If not, it
// moves to StateFailed.
func (r *RemoteSession) tryAgain(err error) bool {
	reason, again := failureOf(err)
	err = unwrapLost(err)
	if again {
		if r.change.State.up() {
			r.to(StateReconnecting, "", err)
		}
		if r.pace.wait(r.ctx) {
			return true
		}
		reason = ReasonUnreachable
	}
	if r.ctx.Err() == nil {
		r.to(StateFailed, reason, err)
	}
	return false
}

// awaitRetry waits for Retry or Close.
func (r *RemoteSession) awaitRetry() {
	select {
	case <-r.again:
		r.pace.over()
		if r.was {
			r.to(StateReconnecting, "", nil)
		} else {
			r.to(StateConnecting, "", nil)
		}
	case <-r.ctx.Done():
	}
}

// follow connects and queues pieces until the connection is lost. It returns nil after the exit.
func (r *RemoteSession) follow() error {
	src, err := r.open()
	if err != nil {
		return err
	}
	defer src.Close()
	if id := src.Start().SessionID; id != "" {
		r.mu.Lock()
		r.session = id
		r.mu.Unlock()
	}
	began := time.Now()
	if r.was {
		r.to(StateReconnected, "", nil)
	} else {
		r.was = true
		r.to(StateConnected, "", nil)
	}
	for {
		p, err := receive(src)
		if err != nil {
			if time.Since(began) > r.o.Backoff.Most {
				r.pace.over()
			}
			return err
		}
		r.pace.over()
		last := p.Type == api.EventExit
		if r.fresh(&p) && !r.put(p) {
			return io.ErrClosedPipe
		}
		r.seq = max(r.seq, p.Event.Seq)
		if last {
			return nil
		}
	}
}

// open opens the stream after the last piece that was queued.
func (r *RemoteSession) open() (api.Stream, error) {
	if r.o.Attach != nil {
		p := *r.o.Attach
		p.SessionID = r.session
		if at, ok := r.have[api.EventOutput]; ok {
			p.Snapshot, p.FromOffset = false, &at
		}
		return r.client.way.open(r.ctx, "session.attach", p)
	}
	if r.exec == "" {
		data, err := r.client.way.call(r.ctx, "session.info", api.SessionInfoParams{SessionID: r.session})
		if err != nil {
			return nil, err
		}
		var info api.SessionDetails
		if err := json.Unmarshal(data, &info); err != nil {
			return nil, api.Errorf(api.CodeInternal, "session.info: answer: %s", err)
		}
		if info.ExecID == "" {
			return nil, api.Errorf(api.CodeInvalidParams, "session %q: is a shell; follow one of its commands instead", r.session)
		}
		r.mu.Lock()
		r.exec = info.ExecID
		r.mu.Unlock()
	}
	p := api.ExecStreamParams{ExecID: r.exec, Stream: r.o.Stream, AfterSeq: r.seq}
	if r.seq == 0 {
		p.AfterSeq, p.FromOffset = r.o.AfterSeq, r.o.FromOffset
	}
	return r.client.way.open(r.ctx, "exec.stream", p)
}

// receive returns the next push, with its output as bytes.
func receive(src api.Stream) (Piece, error) {
	var p Piece
	var err error
	p.Event, p.Data, err = receivePush(src)
	if _, own := src.(*frames); !own { // other streams reuse the bytes, and these must wait in a queue
		p.Data = bytes.Clone(p.Data)
	}
	if p.Data == nil && (p.Event.Data != "" || p.Event.DataBase64 != "") {
		p.Data = api.Data(p.Event.Data, p.Event.DataBase64)
		p.Event.Data, p.Event.DataBase64 = "", ""
	}
	p.Type = p.Event.Type
	if p.Event.Offset != nil {
		p.Offset = *p.Event.Offset
	}
	return p, err
}

// fresh removes the bytes that came before, and reports whether anything is left.
func (r *RemoteSession) fresh(p *Piece) bool {
	switch p.Type {
	case api.EventSnapshot:
		r.have[api.EventOutput] = p.Offset
	case api.EventGap:
		if p.Event.From == nil || p.Event.To == nil {
			return false
		}
		from := max(*p.Event.From, r.have[p.Event.Stream])
		p.Event.From, p.Offset = &from, from
		r.have[p.Event.Stream] = max(r.have[p.Event.Stream], *p.Event.To)
		return from < *p.Event.To
	case api.EventStdout, api.EventStderr, api.EventOutput:
		have, end := r.have[p.Type], p.Offset+int64(len(p.Data))
		if end <= have {
			return false
		}
		if p.Offset < have {
			p.Data, p.Offset = p.Data[have-p.Offset:], have
			p.Event.Offset = &have
		}
		r.have[p.Type] = end
	}
	return true
}

// pieceBytes returns roughly how much memory a piece takes.
func pieceBytes(p Piece) int { return 256 + len(p.Data) }

// put queues a piece when there is room. It reports false when the session was closed.
func (r *RemoteSession) put(p Piece) bool {
	for {
		r.mu.Lock()
		if len(r.queue) == 0 || r.bytes < remoteQueue {
			r.queue = append(r.queue, p)
			r.bytes += pieceBytes(p)
			r.changedLocked()
			r.mu.Unlock()
			return true
		}
		news := r.news
		r.mu.Unlock()
		select {
		case <-news:
		case <-r.ctx.Done():
			return false
		}
	}
}
