package client

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

const (
	// maxAnswer is the maximum length of a line from the daemon.
	maxAnswer = 1 << 30
	// keepBuffer is the size up to which the read buffer is kept between lines.
	keepBuffer = 256 << 10
	// maxUnsent is how many bytes may wait to be sent before further calls wait, too.
	maxUnsent = 1 << 20
	// lastWords is how long the client still reads from a daemon that no longer reads.
	lastWords = time.Second
)

// conn is one connection with the line protocol. Calls share it, and streams too if they cannot have
// connections of their own. It is safe for concurrent use.
//
// Goroutines: one that reads, and that of the writer; both end with the connection.
type conn struct {
	rwc      io.ReadWriteCloser
	writer   *wire.Writer
	ended    func()
	done     chan struct{} // closed when the connection has ended
	read     chan struct{} // closed when the reader has ended
	takesRaw atomic.Bool   // the daemon accepts raw bytes after requests

	mu      sync.Mutex
	nextID  uint64             // guarded by mu
	calls   map[uint64]*call   // guarded by mu; requests that wait for their answer
	streams map[string]*pushes // guarded by mu; by stream id
	refusal *api.Error         // guarded by mu; an error of the daemon for the connection as a whole
	err     *api.Error         // guarded by mu; set when done closes
}

// call is a request that waits. The reader puts the answer into it once.
type call struct {
	answer chan answer
	stream *pushes // registered with the answer, before the first push is read
}

type answer struct {
	data json.RawMessage
	err  *api.Error
}

// newConn makes a connection over rwc, which it owns. When the connection ends, it calls ended,
// which may be nil.
func newConn(rwc io.ReadWriteCloser, ended func()) *conn {
	c := &conn{
		rwc: rwc, ended: ended, done: make(chan struct{}), read: make(chan struct{}),
		calls: map[uint64]*call{}, streams: map[string]*pushes{},
	}
	c.writer = wire.NewWriter(rwc, 0, c.writeFailed)
	go func() {
		defer close(c.read)
		c.fail(connectionLost(c.receive()))
	}()
	return c
}

func (c *conn) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

func (c *conn) close() {
	c.fail(errClosed)
	if _, ok := c.rwc.(net.Conn); ok { // closing a net.Conn is sure to end a read
		<-c.read
		c.writer.Wait()
	}
}

// fail ends the connection for the given reason. Only the first reason counts.
func (c *conn) fail(cause *api.Error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	if c.err = c.refusal; c.err == nil {
		c.err = cause
	}
	close(c.done)
	c.mu.Unlock()
	c.writer.Close()
	_ = c.rwc.Close()
	if c.ended != nil {
		c.ended()
	}
}

// writeFailed ends the connection when it can no longer be written. The client first reads the last
// messages of the daemon, which may say why.
func (c *conn) writeFailed(cause error) {
	nc, ok := c.rwc.(net.Conn)
	switch {
	case !ok: // a read of a pipe has no deadline, but the pipe of a process that ended has an end
		time.AfterFunc(lastWords, func() { c.fail(connectionLost(cause)) })
	case nc.SetReadDeadline(time.Now().Add(lastWords)) != nil:
		c.fail(connectionLost(cause))
	}
}

// failure returns the reason why the connection has ended. sent says whether a request had been sent.
func (c *conn) failure(sent bool) error {
	c.mu.Lock()
	err, refused := c.err, c.refusal != nil
	c.mu.Unlock()
	if err == errClosed || !passes(err) {
		return err
	}
	return &lost{cause: err, sent: sent && !refused}
}

// call makes a call. If stream is not nil, the answer opens it.
func (c *conn) call(ctx context.Context, method string, params any, stream *pushes) (json.RawMessage, error) {
	waiting := &call{answer: make(chan answer, 1), stream: stream}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.failure(false)
	}
	c.nextID++
	id := c.nextID
	c.calls[id] = waiting
	c.mu.Unlock()
	sent, err := c.send(ctx, id, method, params, stream != nil)
	if err != nil {
		c.forget(id)
		return nil, err
	}
	select {
	case a := <-waiting.answer:
		return a.result()
	case <-c.done:
		select { // the answer may have come just before the end
		case a := <-waiting.answer:
			return a.result()
		default:
			return nil, c.failure(sent)
		}
	case <-ctx.Done():
		c.forget(id)
		return nil, ctx.Err()
	}
}

func (a answer) result() (json.RawMessage, error) {
	if a.err != nil {
		return nil, a.err
	}
	return a.data, nil
}

// send sends a request. If the connection can no longer be written, it reports false and no error:
// the reader finds out why, and ends the connection.
func (c *conn) send(ctx context.Context, id uint64, method string, params any, stream bool) (sent bool, err error) {
	if c.writer.WaitRoom(ctx, maxUnsent) != nil && ctx.Err() != nil {
		return false, ctx.Err()
	}
	e := wire.NewEncoder()
	defer e.Release()
	e.Trace(api.Traceparent(ctx))
	body, err := c.encode(e, id, method, params, stream)
	if err != nil {
		return false, badParams(method, err)
	}
	return c.writer.SendWith(e.Bytes(), body) == nil, nil
}

// encode writes a request and returns the bytes that follow it. The first input is sent as JSON,
// because only its answer says whether the daemon accepts raw bytes.
func (c *conn) encode(e *wire.Encoder, id uint64, method string, params any, stream bool) (body []byte, err error) {
	in, ok := params.(api.ExecInputParams)
	switch {
	case stream:
		return nil, e.RawRequest(id, method, params)
	case !ok || len(in.Bytes) == 0:
		return nil, e.Request(id, method, params)
	case !c.takesRaw.Load():
		return nil, e.RawRequest(id, method, in.InJSON())
	}
	body, in.Bytes = in.Bytes, nil
	return body, e.RequestWith(id, method, in, len(body))
}

func (c *conn) forget(id uint64) {
	c.mu.Lock()
	delete(c.calls, id)
	c.mu.Unlock()
}

// receive hands out answers and pushes until the connection ends.
func (c *conn) receive() error {
	lines := wire.NewReader(c.rwc, maxAnswer, keepBuffer, nil)
	for {
		line, err := lines.Next()
		if err != nil {
			return err
		}
		m, err := wire.ParseMessage(line)
		if err != nil {
			return err
		}
		if m.Event != nil {
			var data []byte
			if m.Raw > 0 {
				if data, err = lines.Body(m.Raw, c.buffer(m.Event.StreamID)); err != nil {
					return err
				}
			}
			c.push(push{*m.Event, data})
		} else {
			c.deliver(m)
		}
	}
}

func (c *conn) deliver(m wire.Message) {
	id, known := callID(m.ID)
	if m.TakesRaw {
		c.takesRaw.Store(true)
	}
	c.mu.Lock()
	waiting := c.calls[id]
	delete(c.calls, id)
	if !known && m.Error != nil {
		c.refusal = m.Error
	}
	if waiting == nil {
		c.mu.Unlock()
		return
	}
	if waiting.stream != nil && m.Error == nil {
		var start api.StreamStart
		if err := json.Unmarshal(m.Data, &start); err != nil {
			m.Error = api.Errorf(api.CodeInternal, "answer: %s", err)
		} else {
			waiting.stream.start = start
			c.streams[start.StreamID] = waiting.stream
		}
	}
	c.mu.Unlock()
	waiting.answer <- answer{data: append(json.RawMessage(nil), m.Data...), err: m.Error}
}

// callID reads an id as Encoder.Request writes it.
func callID(raw json.RawMessage) (uint64, bool) {
	if len(raw) < 3 || raw[0] != '"' {
		return 0, false
	}
	id, err := strconv.ParseUint(string(raw[1:len(raw)-1]), 10, 64)
	return id, err == nil
}

// push hands a push to its stream, and waits while the stream is full. It drops pushes of
// unknown streams.
func (c *conn) push(ev push) {
	c.mu.Lock()
	s := c.streams[ev.StreamID]
	last := ev.Type == api.EventExit || ev.Type == api.EventEnd || ev.Type == api.EventError
	if last {
		delete(c.streams, ev.StreamID)
	}
	c.mu.Unlock()
	if s == nil {
		return
	}
	for !s.add(ev) {
		select {
		case <-s.room:
		case <-s.gone:
			return
		case <-s.ctx.Done():
			_ = s.Close()
			return
		case <-c.done:
			return
		}
	}
}

// buffer returns a slice for the output of a stream, or nil.
func (c *conn) buffer(id string) []byte {
	c.mu.Lock()
	s := c.streams[id]
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.buffer()
}

func (c *conn) dropStream(s *pushes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, known := range c.streams {
		if known == s {
			delete(c.streams, id)
		}
	}
}
