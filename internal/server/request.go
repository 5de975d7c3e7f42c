package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

// streamRoom is how many bytes may be unsent when the next push is made. It keeps
// a fast reader busy and costs little with a slow one.
const streamRoom = 256 << 10

// handle answers one line.
func (c *conn) handle(line []byte, taken int64) {
	defer c.running.Done()
	defer func() {
		<-c.slots
		c.server.budget.Return(taken)
	}()
	growStack(len(line))
	req, bad := wire.ParseRequest(line)
	if bad != nil {
		c.sendError(req.ID, bad)
		return
	}
	m, ok := c.server.methods[req.Method]
	if !ok {
		c.sendError(req.ID, unknownMethod(req.Method))
		return
	}
	ctx, cancel := context.WithCancel(c.requests)
	defer cancel()
	begin := time.Now()
	result, err := c.call(ctx, m, req.Params)
	if c.log.Enabled(ctx, slog.LevelDebug) {
		c.log.Debug("request", "method", m.Name, "id", string(req.ID), "duration", time.Since(begin), "error", err)
	}
	if err != nil {
		c.sendError(req.ID, c.explain(err))
		return
	}
	if stream, ok := result.(api.Stream); ok {
		c.stream(ctx, req.ID, stream)
		return
	}
	c.sendAnswer(req.ID, m.Name, result)
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

// call calls the Service. A panic there is an error of this request only.
func (c *conn) call(ctx context.Context, m api.Method, params json.RawMessage) (result any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = c.panicked(m.Name, r)
		}
	}()
	return m.Call(ctx, c.server.cfg.Service, params)
}

// panicked logs a panic. Its text goes to the log only: it may hold anything.
func (c *conn) panicked(method string, r any) *api.Error {
	c.log.Error("method panicked", "method", method, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	return api.Errorf(api.CodeInternal, "%s: internal fault; the daemon's log has the details", method)
}

// explain turns an error into what the client sees. A call that was given up
// because the daemon ends says so.
func (c *conn) explain(err error) *api.Error {
	e := api.AsError(err)
	givenUp := e.Code == api.CodeResourcePressure || c.ctx.Err() != nil && e.Message == context.Cause(c.ctx).Error()
	if givenUp && c.shuttingDown() {
		return api.AsError(ErrShutdown)
	}
	return e
}

// stream answers with the start of a stream, then pushes what comes from it. The
// next push is made only when there is room for it.
func (c *conn) stream(ctx context.Context, id json.RawMessage, s api.Stream) {
	defer func() {
		if err := s.Close(); err != nil {
			c.log.Debug("close stream", "error", err)
		}
	}()
	start := s.Start()
	if !c.sendAnswer(id, "stream", start) {
		return
	}
	for seq := int64(0); ; {
		if c.writer.WaitRoom(ctx, streamRoom) != nil && !c.shuttingDown() {
			return
		}
		ev, err := c.recv(s)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			if ctx.Err() != nil && !c.shuttingDown() {
				return
			}
			ev = api.StreamEvent{StreamID: start.StreamID, Seq: seq + 1, Type: api.EventError, Error: c.explain(err)}
		}
		if !c.push(&ev) || err != nil {
			return
		}
		seq = ev.Seq
	}
}

func (c *conn) recv(s api.Stream) (ev api.StreamEvent, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = c.panicked("stream", r)
		}
	}()
	return s.Recv()
}

func (c *conn) push(ev *api.StreamEvent) bool {
	e := wire.NewEncoder()
	defer e.Release()
	if err := e.Event(ev); err != nil {
		c.log.Error("encode push", "stream_id", ev.StreamID, "error", err)
		return false
	}
	return c.writer.Send(e.Bytes()) == nil
}

// sendAnswer waits for room before the answer takes memory a second time, as JSON.
func (c *conn) sendAnswer(id json.RawMessage, method string, result any) bool {
	_ = c.writer.WaitRoom(c.ctx, c.server.cfg.MaxUnsentBytes)
	e := wire.NewEncoder()
	defer e.Release()
	if err := e.Answer(id, result); err != nil {
		c.log.Error("encode answer", "method", method, "error", err)
		e.Error(id, api.Errorf(api.CodeInternal, "%s: answer: %s", method, err))
	}
	return c.writer.Send(e.Bytes()) == nil
}

func (c *conn) sendError(id json.RawMessage, cause *api.Error) {
	_ = c.writer.WaitRoom(c.ctx, c.server.cfg.MaxUnsentBytes)
	e := wire.NewEncoder()
	defer e.Release()
	e.Error(id, cause)
	_ = c.writer.Send(e.Bytes())
}
