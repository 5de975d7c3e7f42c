package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/rpc"
	"github.com/trl-dev/trl/internal/wire"
)

// streamRoom is how many bytes may be unsent when the next push is made. It keeps
// a fast reader busy and costs little with a slow one.
const streamRoom = 256 << 10

// maxNaming is how much of a line is searched for a method that takes a name.
const maxNaming = 64 << 10

// mayName reports whether the line of a request may call a method that takes a name. The answer is
// sure only if it is no, and if the method stands at the beginning of the line.
func (s *Server) mayName(line []byte) bool {
	line = line[:min(len(line), maxNaming)]
	for _, name := range s.naming {
		if bytes.Contains(line, name) {
			return true
		}
	}
	return false
}

// handle answers one line, with the bytes behind it. It calls named, if that is not nil, when a
// name is taken, or is known not to be.
func (c *conn) handle(line, body []byte, taken int64, named func()) {
	defer c.running.Done()
	if named != nil {
		defer named()
	}
	written := sync.OnceFunc(c.writes.Done)
	defer written()
	owed := true
	defer func() {
		if owed {
			c.owed.Done()
		}
		<-c.slots
		c.server.budget.Return(taken)
	}()
	growStack(len(line))
	req, bad := wire.ParseRequest(line)
	if bad != nil {
		c.refused(req, bad)
		return
	}
	if req.Method != "exec.input" && req.Method != "session.input" {
		written()
	}
	m, ok := c.server.methods[req.Method]
	if !ok {
		c.refused(req, unknownMethod(req.Method))
		return
	}
	params, cause := c.admission.admit(c.scope, c.only, m, req.Params)
	if cause != nil {
		if m.Access != api.AccessRead {
			c.server.audit(c.caller.Load(), m.Name, req.Params, cause)
		}
		c.refused(req, cause)
		return
	}
	if m.Streams {
		defer c.streams.Add(-1)
		if most := c.server.cfg.maxStreams(); c.streams.Add(1) > most {
			c.refused(req, api.Errorf(api.CodeResourcePressure, "connection: has %d streams, which is the limit; open another connection", most))
			return
		}
	}
	ctx, cancel := context.WithCancel(api.WithTraceparent(api.WithCaller(c.requests, c.caller.Load()), req.Traceparent))
	defer cancel()
	switch {
	case named == nil:
	case m.Names:
		ctx = api.WithNamed(ctx, named)
	default:
		named()
	}
	begin := time.Now()
	result, err := c.server.call(ctx, c.log, c.only, m, params, body)
	c.server.counts.request(c.transport, m.Name, err)
	if c.log.Enabled(ctx, slog.LevelDebug) {
		c.log.Debug("request", "method", m.Name, "id", string(req.ID), "duration", time.Since(begin), "error", err)
	}
	if err != nil {
		c.sendError(req.ID, explain(err, c.ctx, c.shuttingDown()))
		return
	}
	if stream, ok := result.(api.Stream); ok {
		if m.Endless {
			owed = false
			c.owed.Done()
		}
		c.stream(ctx, cancel, req, stream)
		return
	}
	c.sendAnswer(req.ID, m.Name, result, req.Raw && c.bytesBehind())
}

// growStack makes the stack of a new goroutine large enough for a request at
// once, while there is nothing on it. Otherwise it is doubled and copied several
// times on the way down, which takes longer than everything else here.
//
//go:noinline
func growStack(n int) byte {
	var room [8 << 10]byte
	return room[n%len(room)]
}

// refused answers a request that does not reach the Service.
func (c *conn) refused(req wire.Request, cause *api.Error) {
	c.server.counts.request(c.transport, "", cause)
	c.sendError(req.ID, cause)
}

// call calls the Service. A panic there is an error of this request only.
func (s *Server) call(ctx context.Context, log *slog.Logger, only *share, m api.Method, params json.RawMessage, body []byte) (result any, err error) {
	begin := time.Now()
	defer func() {
		s.counts.answered(m.Name, time.Since(begin))
		if s.cfg.Answered != nil {
			s.cfg.Answered()
		}
		if r := recover(); r != nil {
			err = panicked(log, m.Name, r)
		}
	}()
	result, err = m.CallWith(ctx, s.cfg.Service, params, body)
	if err == nil && only != nil {
		result = only.trim(result)
	}
	return result, err
}

// recv takes the next push of a stream. A panic there is an error of this stream only.
func recv(log *slog.Logger, s api.Stream) (ev api.StreamEvent, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(log, "stream", r)
		}
	}()
	return s.Recv()
}

// panicked logs a panic. Its text goes to the log only, because it may contain secrets.
func panicked(log *slog.Logger, method string, r any) *api.Error {
	log.Error("method panicked", "method", method, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	return api.Errorf(api.CodeInternal, "%s: internal fault; the daemon's log has the details", method)
}

// explain turns an error into the error for the client. The error of a call that was cancelled
// because the daemon or its HTTP ends, and with it the connection, has that as its reason.
func explain(err error, conn context.Context, shuttingDown bool) *api.Error {
	e := api.AsError(err)
	// The cause of the connection's end has no code.
	givenUp := e.Code == api.CodeCancelled || conn.Err() != nil && e.Code == api.CodeInternal
	if givenUp && shuttingDown {
		if cause := api.AsError(context.Cause(conn)); errors.Is(cause, api.ErrRuntimeUnavailable) {
			return cause
		}
		return api.AsError(ErrShutdown)
	}
	return e
}

// stream answers with the start of a stream and then sends its pushes. It asks for the next push only
// when there is room for it.
func (c *conn) stream(ctx context.Context, cancel context.CancelFunc, req wire.Request, s api.Stream) {
	defer c.addStream(s.Start().StreamID, cancel)() // last: then no push follows
	defer func() {
		if err := s.Close(); err != nil {
			c.log.Debug("close stream", "error", err)
		}
	}()
	start := s.Start()
	next := c.receiver(req, s)
	if !c.sendAnswer(req.ID, "stream", start, false) {
		return
	}
	room := streamRoom
	for seq := start.Seq; ; {
		if c.writer.WaitRoom(ctx, room) != nil {
			if !c.shuttingDown() || room == 0 && c.flush() != nil {
				return
			}
		}
		ev, data, err := next()
		if errors.Is(err, io.EOF) || ctx.Err() != nil && c.ctx.Err() == nil { // stream.close ended it
			return
		}
		if err != nil {
			if ctx.Err() != nil && !c.shuttingDown() {
				return
			}
			ev = api.StreamEvent{StreamID: start.StreamID, Seq: seq, Type: api.EventError, Error: explain(err, c.ctx, c.shuttingDown())}
		}
		if !c.push(&ev, data) || err != nil {
			return
		}
		// Bytes that are sent as they are belong to the stream, which uses them again.
		if room = streamRoom; len(data) > 0 && !c.frames {
			room = 0
		}
		seq = ev.Seq
	}
}

// receiver returns how the pushes of a stream are received: with their output as bytes
// beside them where it can be sent like that, else with nil.
func (c *conn) receiver(req wire.Request, s api.Stream) func() (api.StreamEvent, []byte, error) {
	b, ok := s.(api.ByteStream)
	if ok && (c.frames || req.Raw && c.bytesBehind()) {
		return func() (ev api.StreamEvent, data []byte, err error) {
			defer func() {
				if r := recover(); r != nil {
					err = panicked(c.log, "stream", r)
				}
			}()
			return b.RecvBytes()
		}
	}
	return func() (api.StreamEvent, []byte, error) {
		ev, err := recv(c.log, s)
		var data []byte
		if c.frames {
			data = wire.TakeEvent(&ev)
		}
		return ev, data, err
	}
}

// bytesBehind reports whether bytes can follow a line: not where each message has its own frame.
func (c *conn) bytesBehind() bool { return !c.frames && c.transport != transportWebSocket }

// push sends a push. data is its output, unless ev contains it.
func (c *conn) push(ev *api.StreamEvent, data []byte) bool {
	e := wire.NewEncoder()
	defer e.Release()
	var err error
	if raw := len(data) > 0 && !c.frames; raw {
		err = e.RawEvent(ev, len(data))
	} else {
		err = e.Event(ev)
	}
	if err != nil {
		c.log.Error("encode push", "stream_id", ev.StreamID, "error", err)
		return false
	}
	c.server.counts.streamed(c.transport, len(e.Bytes())+len(data))
	if c.frames {
		return c.writer.Give(rpc.PackPush(e.Bytes()[:len(e.Bytes())-1], data)) == nil
	}
	return c.writer.SendWith(e.Bytes(), data) == nil
}

// sendAnswer waits for room before the answer takes memory a second time, as JSON. With bodies,
// the answer says that bytes may follow later requests.
func (c *conn) sendAnswer(id json.RawMessage, method string, result any, bodies bool) bool {
	_ = c.writer.WaitRoom(c.ctx, c.server.cfg.MaxUnsentBytes)
	var raw wire.Raw
	if c.frames {
		result, raw = wire.TakeResult(result)
	}
	e := wire.NewEncoder()
	defer e.Release()
	answer := e.Answer
	if bodies {
		c.bodies.Store(true) // before the client knows
		answer = e.RawAnswer
	}
	if err := answer(id, result); err != nil {
		c.log.Error("encode answer", "method", method, "error", err)
		e.Error(id, api.Errorf(api.CodeInternal, "%s: answer: %s", method, err))
	}
	return c.send(e.Bytes(), raw) == nil
}

func (c *conn) sendError(id json.RawMessage, cause *api.Error) {
	_ = c.writer.WaitRoom(c.ctx, c.server.cfg.MaxUnsentBytes)
	e := wire.NewEncoder()
	defer e.Release()
	e.Error(id, cause)
	_ = c.send(e.Bytes(), nil)
}

// send sends a line; over gRPC in a frame, together with raw, the bytes that are not in the line.
func (c *conn) send(line []byte, raw wire.Raw) error {
	if !c.frames {
		return c.writer.Send(line)
	}
	frame, err := rpc.Pack(line[:len(line)-1], raw)
	if err != nil {
		return err
	}
	return c.writer.Give(frame)
}
