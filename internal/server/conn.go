package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

// errClientGone cancels the requests of a client that has disconnected: their answers have no reader.
var errClientGone = errors.New("the client has disconnected")

// lastFlush bounds the sending of the last answers to a client that is slow.
const lastFlush = 60 * time.Second

// conn is one client.
//
// Goroutines: serve runs in its caller's, each request in its own; a watcher runs
// while nothing is read; one reads where a read cannot be interrupted. serve waits for
// all of them, but not for the reader of a file.
type conn struct {
	server    *Server
	rwc       io.ReadWriteCloser
	log       *slog.Logger
	transport transport
	// halfClose says that a client may end its input and still wait for answers.
	halfClose bool
	// scope says which methods the client may call.
	scope     Scope
	caller    atomic.Pointer[api.Caller] // replaced by system.hello, never changed
	only      *share                     // what the client may see; nil for everything
	admission *admission
	// frames says that messages are sent as packed frames, not as lines.
	frames bool
	// net is rwc where a read can be interrupted, else nil.
	net net.Conn
	// output is the file that answers are written to where there is no net, if it is known.
	output *os.File
	// closeEnds says that closing rwc ends the reads and writes that wait for it. A file
	// may not let go of them before the process ends.
	closeEnds bool

	// parent is the lifetime of the daemon, ctx that of the connection; requests is
	// the same as its requests see it.
	parent   context.Context
	ctx      context.Context
	cancel   context.CancelCauseFunc
	requests context.Context
	endInput context.CancelFunc // ends api.Input of the requests; nil except on stdio
	reader   *wire.Reader
	writer   *wire.Writer
	slots    chan struct{} // one entry per request that runs
	streams  atomic.Int64  // how many of them stream
	bodies   atomic.Bool   // bytes may follow a request; an earlier answer said so
	running  sync.WaitGroup
	owed     sync.WaitGroup // running requests without the endless streams
	writes   sync.WaitGroup // running requests that write to a stdin, or are not parsed yet
	reading  sync.WaitGroup // the goroutine of read, where there is one

	mu    sync.Mutex
	ended bool                   // guarded by mu; no new request may start
	open  map[string]*openStream // guarded by mu; by stream id
}

// openStream is a stream that stream.close can end.
type openStream struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when no push follows
}

// addStream makes a stream known to stream.close. The returned function ends that.
func (c *conn) addStream(id string, cancel context.CancelFunc) (remove func()) {
	s := &openStream{cancel, make(chan struct{})}
	c.mu.Lock()
	c.open[id] = s
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		if c.open[id] == s {
			delete(c.open, id)
		}
		c.mu.Unlock()
		close(s.done)
	}
}

// closeStream ends a stream and waits until no push of it follows. It reports whether there was one.
func (c *conn) closeStream(ctx context.Context, id string) bool {
	c.mu.Lock()
	s := c.open[id]
	c.mu.Unlock()
	if s == nil {
		return false
	}
	s.cancel()
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	return true
}

// hello gives the client a label, for its later requests.
func (c *conn) hello(label string) api.Caller {
	for {
		old := c.caller.Load()
		named := *old
		named.Label = label
		if c.caller.CompareAndSwap(old, &named) {
			return named
		}
	}
}

func (s *Server) newConn(ctx context.Context, rwc io.ReadWriteCloser, peer string, t transport, caller api.Caller) *conn {
	caller.Transport = t.String()
	c := &conn{server: s, rwc: rwc, parent: ctx, transport: t, scope: ScopeFull, slots: make(chan struct{}, s.cfg.MaxInFlight), open: map[string]*openStream{}}
	c.net, c.closeEnds = rwc.(net.Conn)
	c.log = s.cfg.Logger.With("connection", s.lastID.Add(1), "caller", peer)
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.caller.Store(&caller)
	c.requests = api.WithHello(api.WithStreams(api.WithConn(c.ctx, c.ctx), c.closeStream), c.hello)
	if t == transportStdio {
		var input context.Context
		input, c.endInput = context.WithCancel(context.Background()) // a daemon that ends keeps its commands as they are
		c.requests = api.WithInput(c.requests, input)
	}
	c.admission = s.newAdmission(c.ctx)
	c.reader = wire.NewReader(rwc, s.cfg.MaxRequestBytes, 0, s.budget)
	c.writer = wire.NewWriter(rwc, s.cfg.WriteTimeout, func(err error) {
		if errors.Is(err, syscall.EPIPE) {
			err = errClientGone
		}
		c.cancel(err)
	})
	return c
}

// serve reads and answers requests until the client disconnects, then closes the connection.
func (c *conn) serve() error {
	c.log.Debug("connection opened")
	if err := c.read(); errors.Is(err, io.EOF) && c.halfClose {
		c.awaitAnswers()
	}
	c.cancel(errClientGone)
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.running.Wait()

	_ = c.flush()
	c.writer.Close()
	c.close()
	if c.closeEnds {
		c.writer.Wait()
		c.reading.Wait()
	}
	if cause := context.Cause(c.ctx); !c.shuttingDown() && !errors.Is(cause, errClientGone) {
		return cause
	}
	return nil
}

// close closes the connection. A WebSocket learns whether the daemon is the reason.
func (c *conn) close() {
	if ws, ok := c.rwc.(*wsStream); ok && c.shuttingDown() {
		_ = ws.goAway()
	} else {
		c.rwc.Close()
	}
}

// flush waits until everything is sent, but not for a client that is too slow.
func (c *conn) flush() error {
	ctx, stop := context.WithTimeout(context.Background(), min(c.server.cfg.WriteTimeout, lastFlush))
	defer stop()
	return c.writer.WaitRoom(ctx, 0)
}

// cut ends the connection at once: neither requests nor answers are completed.
func (c *conn) cut() {
	c.writer.Close()
	if ws, ok := c.rwc.(interface{ CloseNow() error }); ok {
		_ = ws.CloseNow() // Close says goodbye first
		return
	}
	c.rwc.Close()
}

// shuttingDown reports whether it is the daemon that ends, not the client.
func (c *conn) shuttingDown() bool {
	return c.parent.Err() != nil || errors.Is(context.Cause(c.ctx), ErrShutdown)
}

// awaitAnswers waits for the answers to a client that has ended its input, as long as
// it can still read them. On stdio this client was the only one that could cause events or write to
// its commands, so awaitAnswers does not wait for endless streams, and ends the input of the commands.
func (c *conn) awaitAnswers() {
	stop := c.watch()
	defer stop()
	done := make(chan struct{})
	go func() {
		if c.transport == transportStdio {
			c.writes.Wait() // what the client wrote comes before the end
			c.endInput()
			c.owed.Wait()
		} else {
			c.running.Wait()
		}
		close(done)
	}()
	select {
	case <-done:
		_ = c.writer.WaitRoom(c.ctx, 0)
	case <-c.ctx.Done():
		<-done
	}
}

// watch ends the connection when the client closes it while the server does not read from it.
// The returned function stops the watch.
func (c *conn) watch() (stop func()) {
	if c.output != nil {
		return wire.WatchFile(c.output, func() { c.cancel(errClientGone) })
	}
	sc, ok := c.net.(syscall.Conn)
	if !ok || !c.halfClose {
		return func() {}
	}
	stopWatch := watchHangup(c.net, sc, func() { c.cancel(errClientGone) })
	return func() {
		stopWatch()
		if c.ctx.Err() != nil { // the watch may have undone what read relies on
			_ = c.net.SetReadDeadline(time.Unix(1, 0))
		}
	}
}

// read starts the requests of the client until its input ends, which is io.EOF,
// or the connection.
func (c *conn) read() error {
	if c.net != nil {
		stop := context.AfterFunc(c.ctx, func() { _ = c.net.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
		return c.readLines()
	}
	done := make(chan error, 1)
	c.reading.Go(func() { done <- c.readLines() })
	select {
	case err := <-done:
		return err
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

func (c *conn) readLines() error {
	defer c.reader.Close()
	for {
		if err := c.awaitRoom(); err != nil {
			return err
		}
		line, err := c.reader.Next()
		var refused *wire.Refused
		switch {
		case errors.As(err, &refused):
			c.sendError(refused.ID, refused.Cause)
			continue
		case err != nil && c.ctx.Err() != nil:
			return context.Cause(c.ctx)
		case err != nil:
			return err
		}
		own, taken := c.reader.Detach(line)
		body, more, err := c.body(own)
		if taken += more; errors.As(err, &refused) {
			c.sendError(wire.FindID(own), refused.Cause)
			c.server.budget.Return(taken)
			continue
		}
		if err == nil {
			err = c.start(own, body, taken)
		}
		if err != nil {
			c.server.budget.Return(taken)
			return err
		}
	}
}

// body reads the bytes behind a request, if an earlier answer allowed the client to send some.
func (c *conn) body(line []byte) (body []byte, taken int64, err error) {
	if frames, ok := c.rwc.(*frameStream); ok {
		body = frames.takeBody()
		taken, err = c.reader.Admit(len(body))
		return body, taken, err
	}
	if !c.bodies.Load() {
		return nil, 0, nil
	}
	n := wire.RawLength(line)
	if n == 0 {
		return nil, 0, nil
	}
	return c.reader.Attached(n)
}

// awaitRoom waits while the client takes too little of its answers.
func (c *conn) awaitRoom() error {
	most := c.server.cfg.MaxUnsentBytes
	if c.writer.Unsent() <= most {
		return nil
	}
	stop := c.watch()
	defer stop()
	return c.writer.WaitRoom(c.ctx, most/2)
}

// start runs a request, when there are not too many of them. If it takes a name, start returns when
// the name is taken, so that the next request can refer to it.
func (c *conn) start(line, body []byte, taken int64) error {
	if !c.server.mayName(line) {
		return c.startWith(line, body, taken, nil)
	}
	named := make(chan struct{})
	if err := c.startWith(line, body, taken, sync.OnceFunc(func() { close(named) })); err != nil {
		return err
	}
	select {
	case <-named:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// startWith is start for a request that calls named, if it is not nil, at the latest when it ends.
func (c *conn) startWith(line, body []byte, taken int64, named func()) error {
	select {
	case c.slots <- struct{}{}:
	default:
		if err := c.awaitSlot(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return errClientGone
	}
	c.running.Add(1)
	c.owed.Add(1)
	c.writes.Add(1)
	go c.handle(line, body, taken, named)
	return nil
}

func (c *conn) awaitSlot() error {
	stop := c.watch()
	defer stop()
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}
