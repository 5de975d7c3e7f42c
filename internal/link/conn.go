package link

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
)

// Handler takes the requests and events of the other side.
type Handler interface {
	// Handle answers one request: it calls in.Answer once, or returns an error, which is the
	// answer then. It may go on working after it has answered. ctx ends when the caller gives
	// up or the connection has closed. Each request is handled in its own goroutine.
	Handle(ctx context.Context, in *Incoming) error
	// Event takes one event. It is called in the order of arrival, before any
	// later response is delivered, and must not block.
	Event(name string, header json.RawMessage, body []byte)
}

// Incoming is a request of the other side. It is used by the goroutine of its handler.
type Incoming struct {
	Name   string
	Params json.RawMessage
	Body   []byte

	conn     *Conn
	id       uint32
	answered bool
}

// Answer sends the result and a body of raw bytes.
func (in *Incoming) Answer(result any, body []byte) {
	in.respond(KindResponse, result, body)
}

func (in *Incoming) respond(kind Kind, result any, body []byte) {
	in.answered = true
	header, err := encode(result)
	if err == nil {
		err = in.conn.write(Frame{Kind: kind, ID: in.id, Header: header, Body: body})
	}
	if errors.Is(err, ErrFrame) || header == nil {
		header, _ = json.Marshal(api.Errorf(api.CodeInternal, "%s: answer: %s", in.Name, err))
		_ = in.conn.write(Frame{Kind: KindError, ID: in.id, Header: header})
	}
}

// ErrLost is the cause of a handler's context when the connection has closed, as opposed to a
// caller that no longer waits.
var ErrLost = errors.New("the link is closed")

// ErrGivenUp is the error of CallUnless when its caller stopped waiting.
var ErrGivenUp = errors.New("the caller stopped waiting")

// Conn is one end of a link. It is safe for concurrent use.
//
// Goroutines: Serve reads in the goroutine of its caller and has one for each
// request that is being answered; it waits for all of them before it returns.
type Conn struct {
	rwc   io.ReadWriteCloser
	br    *bufio.Reader
	stall time.Duration // see StallAfter
	begun time.Time     // when the connection was made
	heard atomic.Int64  // when the last frame arrived, in nanoseconds since begun

	wmu  sync.Mutex
	wbuf []byte // guarded by wmu; frames that wait for the next write

	mu      sync.Mutex
	nextID  uint32                             // guarded by mu
	calls   map[uint32]chan Frame              // guarded by mu; our requests that wait for an answer
	serving map[uint32]context.CancelCauseFunc // guarded by mu; their requests that are being handled
	err     error                              // guarded by mu; set when done closes
	done    chan struct{}
}

// NewConn makes a Conn. It reads nothing before Serve.
func NewConn(rwc io.ReadWriteCloser) *Conn {
	return &Conn{
		rwc: rwc, br: bufio.NewReaderSize(rwc, 16<<10), begun: time.Now(),
		calls: map[uint32]chan Frame{}, serving: map[uint32]context.CancelCauseFunc{}, done: make(chan struct{}),
	}
}

// StallAfter makes the connection fail when the other side takes none of the written bytes for
// d. It is called before the connection is used.
func (c *Conn) StallAfter(d time.Duration) { c.stall = d }

// Silence returns for how long no frame has arrived.
func (c *Conn) Silence() time.Duration { return time.Since(c.begun) - time.Duration(c.heard.Load()) }

// Done is closed when the connection has closed.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close ends the connection; Serve returns.
func (c *Conn) Close() error {
	c.fail(errors.New("link closed"))
	return nil
}

func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	close(c.done)
	serving := slices.Collect(maps.Values(c.serving))
	c.mu.Unlock()
	c.rwc.Close() // before the handlers are cancelled, so that they send no answer
	for _, cancel := range serving {
		cancel(ErrLost)
	}
}

func (c *Conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return api.Errorf(api.CodeRuntimeUnavailable, "link to the runner: %s", c.err)
}

// Serve reads until the connection has closed and returns why. io.EOF means the other side
// closed it.
func (c *Conn) Serve(h Handler) error {
	hs := handlers{conn: c, h: h, next: make(chan request)}
	defer hs.wait()
	for {
		f, err := ReadFrame(c.br)
		if err != nil {
			c.fail(err)
			return err
		}
		c.heard.Store(int64(time.Since(c.begun)))
		switch f.Kind {
		case KindResponse, KindError:
			c.mu.Lock()
			ch := c.calls[f.ID]
			delete(c.calls, f.ID)
			c.mu.Unlock()
			if ch != nil {
				ch <- f
			}
		case KindEvent:
			h.Event(f.Name, f.Header, f.Body)
		case KindCancel:
			c.mu.Lock()
			if cancel := c.serving[f.ID]; cancel != nil {
				cancel(context.Canceled)
			}
			c.mu.Unlock()
		case KindRequest:
			ctx, cancel := context.WithCancelCause(context.Background())
			c.mu.Lock()
			if c.err != nil {
				cancel(ErrLost)
			}
			c.serving[f.ID] = cancel
			c.mu.Unlock()
			hs.start(request{ctx, cancel, f})
		}
	}
}

// request is a request that waits for a goroutine.
type request struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	frame  Frame
}

// maxIdle is how many goroutines are kept for further requests.
const maxIdle = 4

// handlers are the goroutines that answer requests. A few of them are kept for further requests,
// because a new goroutine has to grow its stack again.
type handlers struct {
	conn  *Conn
	h     Handler
	group sync.WaitGroup
	next  chan request // received by idle goroutines
	idle  atomic.Int32
}

func (hs *handlers) start(r request) {
	select {
	case hs.next <- r:
	default:
		hs.group.Go(func() { hs.serve(r) })
	}
}

func (hs *handlers) serve(r request) {
	for ok := true; ok; {
		c := hs.conn
		c.answer(r.ctx, hs.h, r.frame)
		r.cancel(nil)
		c.mu.Lock()
		delete(c.serving, r.frame.ID)
		c.mu.Unlock()
		r = request{}
		ok = hs.idle.Add(1) <= maxIdle
		if ok {
			r, ok = <-hs.next
		}
		hs.idle.Add(-1)
	}
}

func (hs *handlers) wait() {
	close(hs.next)
	hs.group.Wait()
}

func (c *Conn) answer(ctx context.Context, h Handler, f Frame) {
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		return // the caller gave up before the request was begun, and expects no answer
	}
	in := &Incoming{Name: f.Name, Params: f.Header, Body: f.Body, conn: c, id: f.ID}
	err := h.Handle(ctx, in)
	switch {
	case in.answered:
	case err == nil:
		in.respond(KindError, api.Errorf(api.CodeInternal, "%s: the handler did not answer", f.Name), nil)
	default:
		in.respond(KindError, api.AsError(err), nil)
	}
}

// Call sends a request, waits for the answer, decodes its header into o.Result and returns its
// body. If ctx ends first, Call cancels the request and returns the error of ctx.
func (c *Conn) Call(ctx context.Context, o Outgoing) ([]byte, error) {
	return c.CallUnless(ctx, nil, nil, o)
}

// CallUnless is Call for a caller that also stops waiting when giveUp or overdue is closed. It
// returns ErrGivenUp then.
func (c *Conn) CallUnless(ctx context.Context, giveUp, overdue <-chan struct{}, o Outgoing) ([]byte, error) {
	header, err := json.Marshal(o.Params)
	if err != nil {
		return nil, fmt.Errorf("%s: params: %w", o.Name, err)
	}
	ch := make(chan Frame, 1)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.failure()
	}
	c.nextID++
	id := c.nextID
	c.calls[id] = ch
	c.mu.Unlock()
	forget := func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}
	if err := c.write(Frame{Kind: KindRequest, ID: id, Name: o.Name, Header: header, Body: o.Body}); err != nil {
		forget()
		if errors.Is(err, ErrFrame) {
			return nil, api.Errorf(api.CodeRequestTooLarge, "%s: %s", o.Name, err)
		}
		return nil, c.failure()
	}
	select {
	case f := <-ch:
		return f.Body, f.decode(o)
	case <-c.done:
		select { // the answer may have come just before the end
		case f := <-ch:
			return f.Body, f.decode(o)
		default:
			return nil, c.failure()
		}
	case <-ctx.Done():
		forget()
		_ = c.write(Frame{Kind: KindCancel, ID: id})
		return nil, ctx.Err()
	case <-giveUp:
	case <-overdue:
	}
	forget()
	_ = c.write(Frame{Kind: KindCancel, ID: id})
	return nil, ErrGivenUp
}

func (f *Frame) decode(o Outgoing) error {
	if f.Kind == KindError {
		var e api.Error
		if err := json.Unmarshal(f.Header, &e); err != nil {
			return fmt.Errorf("%s: error answer: %w", o.Name, err)
		}
		return &e
	}
	if err := json.Unmarshal(f.Header, o.Result); err != nil {
		return fmt.Errorf("%s: answer: %w", o.Name, err)
	}
	return nil
}

// Notify sends an event. It returns when the event is written or the connection has closed.
func (c *Conn) Notify(name string, v any, body []byte) error {
	header, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.write(Frame{Kind: KindEvent, Name: name, Header: header, Body: body})
}

// NotifyLater sends an event together with the next frame. It is for an event that must arrive
// before an answer that follows at once.
func (c *Conn) NotifyLater(name string, v any) error {
	header, err := encode(v)
	if err != nil {
		return err
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.wbuf, err = (&Frame{Kind: KindEvent, Name: name, Header: header}).appendHead(c.wbuf)
	return err
}

// encode is json.Marshal, with a faster way for the event that every command sends three times. Of the
// result of a command it writes the outcome as the event does, because package json takes 15 KB of every
// runner to prepare the same fields for another type.
func encode(v any) ([]byte, error) {
	switch e := v.(type) {
	case ExecEvent:
		if e.Outcome == nil && plain(e.ExecID) && plain(string(e.State)) {
			b := make([]byte, 0, 128)
			b = append(append(append(b, `{"exec_id":"`...), e.ExecID...), `","state":"`...)
			b = append(append(b, e.State...), `","at":"`...)
			return append(e.At.AppendFormat(b, time.RFC3339Nano), `"}`...), nil
		}
	case *RunResult:
		if e != nil && plain(e.ExecID) {
			outcome, err := json.Marshal(&e.ExecOutcome)
			if err != nil {
				return nil, err
			}
			b := make([]byte, 0, len(outcome)+96)
			b = append(append(append(b, `{"exec_id":"`...), e.ExecID...), `","stdout_len":`...)
			b = append(strconv.AppendInt(b, int64(e.StdoutLen), 10), ',')
			return append(b, outcome[1:]...), nil
		}
	}
	return json.Marshal(v)
}

// plain reports whether JSON needs no escapes for s.
func plain(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// Flush sends the events that NotifyLater left for the next frame.
func (c *Conn) Flush() error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if len(c.wbuf) == 0 {
		return nil
	}
	return c.sendLocked(c.wbuf, nil)
}

func (c *Conn) write(f Frame) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	b, err := f.appendHead(c.wbuf)
	if err != nil {
		return err
	}
	big := len(f.Body) > 32<<10 // not worth a copy
	if !big {
		b = append(b, f.Body...)
	}
	if big {
		return c.sendLocked(b, f.Body)
	}
	return c.sendLocked(b, nil)
}

// sendLocked writes b, which begins with wbuf, and then the body. It needs wmu.
func (c *Conn) sendLocked(b, body []byte) error {
	c.wbuf = b[:0]
	if cap(b) > 256<<10 {
		c.wbuf = nil // do not keep the room of one large call
	}
	err := c.writeAll(b)
	if err == nil && len(body) > 0 {
		err = c.writeAll(body)
	}
	if err != nil {
		c.fail(err)
	}
	return err
}

// writeAll writes b. With a stall time, the other side must take a part of b within that time,
// again and again.
func (c *Conn) writeAll(b []byte) error {
	limited, ok := c.rwc.(interface{ SetWriteDeadline(time.Time) error })
	if c.stall <= 0 || !ok {
		_, err := c.rwc.Write(b)
		return err
	}
	for {
		_ = limited.SetWriteDeadline(time.Now().Add(c.stall))
		n, err := c.rwc.Write(b)
		if b = b[n:]; n == 0 || len(b) == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}
