// Package client speaks to a TRL daemon. Client implements api.Service, so what
// works with a daemon in the same process works with one behind a socket.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

const (
	// maxAnswer bounds one line of a daemon.
	maxAnswer = 1 << 30
	// keepBuffer is how large the read buffer stays between lines.
	keepBuffer = 256 << 10
	// maxUnsent is how much may wait to be sent before a call waits with it.
	maxUnsent = 1 << 20
	// lastWords is how long a daemon that does not listen any more may still speak.
	lastWords = time.Second
)

// Client is a connection to a daemon. It is safe for concurrent use: calls share
// the connection and do not wait for each other. A Stream whose consumer does not
// keep up holds up everything else on the same Client once its buffer is full, so
// give a heavy stream a Client of its own.
//
// A context bounds only the waiting for an answer. The wire has no way to take a
// request back: a command whose ExecRun was given up goes on until it ends, is
// cancelled with ExecCancel, or the Client is closed.
//
// Goroutines: one that reads, and the writer's; both end with the connection.
type Client struct {
	rwc    io.ReadWriteCloser
	writer *wire.Writer
	done   chan struct{} // closed when the connection is gone
	read   chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	nextID  uint64             // guarded by mu
	calls   map[uint64]*call   // guarded by mu; requests that wait for their answer
	streams map[string]*Stream // guarded by mu; by stream id
	refusal *api.Error         // guarded by mu; what the daemon said to the connection as a whole
	err     *api.Error         // guarded by mu; set when done closes
}

var _ api.Service = (*Client)(nil)

// call is a request that waits. The reader puts the answer into it once.
type call struct {
	answer chan answer
	stream *Stream // registered with the answer, before any push behind it is read
}

type answer struct {
	data json.RawMessage
	err  *api.Error
}

// DefaultSocket is where the daemon of this user listens: $TRL_SOCKET_PATH, else
// trl/trl.sock in $XDG_RUNTIME_DIR, else /tmp/trl-<uid>/trl.sock.
func DefaultSocket() string {
	if path := os.Getenv("TRL_SOCKET_PATH"); path != "" {
		return path
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "trl", "trl.sock")
	}
	return filepath.Join("/tmp", "trl-"+strconv.Itoa(os.Getuid()), "trl.sock")
}

// Dial connects to the daemon that listens at the path. The error has the code
// RUNTIME_UNAVAILABLE, and the system's cause for errors.Is.
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, fmt.Errorf("%w: %w", api.Errorf(api.CodeRuntimeUnavailable, "daemon at %s", path), err)
	}
	return New(conn), nil
}

// New makes a Client that speaks over rwc and owns it.
func New(rwc io.ReadWriteCloser) *Client {
	c := &Client{
		rwc: rwc, done: make(chan struct{}), read: make(chan struct{}),
		calls: map[uint64]*call{}, streams: map[string]*Stream{},
	}
	c.writer = wire.NewWriter(rwc, 0, c.writeFailed)
	go func() {
		defer close(c.read)
		c.fail(c.receive())
	}()
	return c
}

// Done is closed when the connection is gone.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection. Every call that waits returns RUNTIME_UNAVAILABLE.
func (c *Client) Close() error {
	c.fail(errors.New("closed by this side"))
	if _, ok := c.rwc.(net.Conn); ok { // where closing is sure to end a read
		<-c.read
		c.writer.Wait()
	}
	return nil
}

// PeerPID is the process id of the daemon, where the connection is a unix socket.
func (c *Client) PeerPID() (int, bool) {
	conn, ok := c.rwc.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	peer, err := wire.PeerOf(conn)
	return peer.PID, err == nil && peer.PID > 0
}

// fail ends the connection for the given reason. Only the first one counts.
func (c *Client) fail(cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = c.refusal
	if c.err == nil {
		if errors.Is(cause, io.EOF) {
			cause = errors.New("the daemon closed it")
		}
		c.err = api.Errorf(api.CodeRuntimeUnavailable, "daemon: connection lost: %s", cause)
	}
	close(c.done)
	c.mu.Unlock()
	c.writer.Close()
	c.rwc.Close()
}

// writeFailed ends the connection when it cannot be written any more. What the
// daemon said before it went away, perhaps why, is read first.
func (c *Client) writeFailed(cause error) {
	conn, ok := c.rwc.(net.Conn)
	if !ok || conn.SetReadDeadline(time.Now().Add(lastWords)) != nil {
		c.fail(cause)
	}
}

func (c *Client) failure() *api.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Call calls a method by its name and returns the answer's data as it came. Nil
// params are none. What a streaming method pushes is not delivered.
func (c *Client) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if params == nil {
		params = json.RawMessage("null")
	}
	return c.call(ctx, method, params, nil)
}

func (c *Client) call(ctx context.Context, method string, params any, stream *Stream) (json.RawMessage, error) {
	waiting := &call{answer: make(chan answer, 1), stream: stream}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.failure()
	}
	c.nextID++
	id := c.nextID
	c.calls[id] = waiting
	c.mu.Unlock()
	if err := c.send(ctx, id, method, params); err != nil {
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
			return nil, c.failure()
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

// send sends a request. That the connection cannot be written any more is no
// error here: the reader finds out why, and ends the connection.
func (c *Client) send(ctx context.Context, id uint64, method string, params any) error {
	if c.writer.WaitRoom(ctx, maxUnsent) != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	e := wire.NewEncoder()
	defer e.Release()
	if err := e.Request(id, method, params); err != nil {
		return api.Errorf(api.CodeInvalidParams, "%s: params: %s", method, err)
	}
	_ = c.writer.Send(e.Bytes())
	return nil
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	delete(c.calls, id)
	c.mu.Unlock()
}

// receive hands out what the daemon says until the connection is gone.
func (c *Client) receive() error {
	lines := wire.NewReader(c.rwc, maxAnswer, keepBuffer, nil)
	for {
		line, err := lines.Next()
		var refused *wire.Refused
		if errors.As(err, &refused) {
			return fmt.Errorf("an answer of more than %d bytes", maxAnswer)
		}
		if err != nil {
			return err
		}
		m, err := wire.ParseMessage(line)
		if err != nil {
			return err
		}
		if m.Event != nil {
			c.push(m.Event)
		} else {
			c.deliver(m)
		}
	}
}

func (c *Client) deliver(m wire.Message) {
	id, known := callID(m.ID)
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

// typed calls a method and decodes its answer.
func typed[R any](ctx context.Context, c *Client, method string, params any) (R, error) {
	var result R
	data, err := c.call(ctx, method, params, nil)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return result, api.Errorf(api.CodeInternal, "%s: answer: %s", method, err)
	}
	return result, nil
}
