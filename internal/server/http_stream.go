package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

const (
	ndjsonType = "application/x-ndjson"
	sseType    = "text/event-stream"
	// lastEventID is the header with which a client of server-sent events resumes.
	lastEventID = "Last-Event-ID"
)

// execStream answers GET /v1/exec/{id}/stream, for clients that can only GET. It is
// exec.stream for a command that was started before.
func (x *exchange) execStream(id string) {
	x.get("exec.stream", map[string]queryKind{"after_seq": queryNumber, "from_offset": queryNumber, "stream": queryText},
		map[string]any{"exec_id": id})
}

// events answers GET /v1/events, which is event.subscribe.
func (x *exchange) events() {
	x.get("event.subscribe", map[string]queryKind{"session_id": queryText, "types": queryWords, "after_seq": queryNumber}, map[string]any{})
}

// queryKind says how a parameter is written in a URL.
type queryKind int

const (
	queryText   queryKind = iota
	queryNumber           // a JSON number
	queryWords            // with commas, or repeated
	queryFlag             // 1 or 0
)

// get calls a streaming method with parameters of the URL.
func (x *exchange) get(method string, known map[string]queryKind, params map[string]any) {
	m := x.http.server.methods[method]
	x.method = method
	query, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		x.fail(api.Errorf(api.CodeInvalidParams, "query: %s", err))
		return
	}
	for name, values := range query {
		kind, ok := known[name]
		switch {
		case !ok:
			x.fail(api.InvalidParam(shortened(name), "unknown"))
			return
		case kind == queryWords:
			params[name] = strings.Split(strings.Join(values, ","), ",")
			continue
		case len(values) > 1:
			x.fail(api.InvalidParam(name, "appears twice"))
			return
		case kind == queryText:
			params[name] = values[0]
			continue
		case kind == queryFlag:
			if params[name], err = strconv.ParseBool(values[0]); err != nil {
				x.fail(api.InvalidParam(name, "must be 1 or 0"))
				return
			}
			continue
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil {
			x.fail(api.InvalidParam(name, "must be a whole number"))
			return
		}
		params[name] = n
	}
	marshalled, err := json.Marshal(params)
	if err != nil {
		x.fail(api.AsError(err))
		return
	}
	text := json.RawMessage(marshalled)
	if x.admit(m, &text) {
		x.stream(m, text)
	}
}

// stream calls a streaming method and sends its pushes as lines of JSON or, if the client accepts
// that, as server-sent events or as the bare bytes of a command.
func (x *exchange) stream(m api.Method, params json.RawMessage) {
	if m.Name == attachMethod && x.r.Header.Get(lastEventID) == viewerEnd {
		x.nothingFollows(m)
		return
	}
	params, resumed, cause := x.resume(m, params)
	if cause != nil {
		x.fail(cause)
		return
	}
	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	result, err := x.http.server.call(ctx, x.log, x.only, m, params, nil)
	if err != nil {
		x.fail(explain(err, x.conn.ctx, x.shuttingDown()))
		return
	}
	s := result.(api.Stream)
	defer func() {
		if err := s.Close(); err != nil {
			x.log.Debug("close stream", "error", err)
		}
	}()
	first, over, cause := x.first(ctx, s, resumed)
	switch {
	case cause != nil:
		x.fail(cause)
		return
	case over:
		x.nothingFollows(m)
		return
	}
	x.http.server.counts.request(transportHTTP, m.Name, nil)
	if m.Name == "exec.stream" && x.accepts(rawType) {
		x.pushRaw(ctx, s, params, first)
		return
	}
	p := newPushes(x, cancel)
	if p.viewer = m.Name == attachMethod; p.viewer {
		x.boundBuffer()
	}
	defer p.end()
	x.push(ctx, p, s, first)
}

// next returns the next push: first, if it is set, and then those of the stream.
func (x *exchange) next(s api.Stream, first **api.StreamEvent) (api.StreamEvent, error) {
	if ev := *first; ev != nil {
		*first = nil
		return *ev, nil
	}
	return recv(x.log, s)
}

// nothingFollows answers a client that has everything. A browser does not reconnect after this status.
func (x *exchange) nothingFollows(m api.Method) {
	x.http.server.counts.request(transportHTTP, m.Name, nil)
	x.w.WriteHeader(http.StatusNoContent)
}

// push sends the start of a stream and its pushes. first is one that was received
// already, or nil.
func (x *exchange) push(ctx context.Context, p *pushes, s api.Stream, first *api.StreamEvent) {
	start := s.Start()
	if p.start(start) != nil {
		return
	}
	for seq := start.Seq; ; {
		ev, err := x.next(s, &first)
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil && ctx.Err() != nil && !x.shuttingDown():
			return // the client has disconnected
		case err != nil:
			ev = api.StreamEvent{StreamID: start.StreamID, Seq: seq, Type: api.EventError, Error: explain(err, x.conn.ctx, x.shuttingDown())}
		}
		if p.event(&ev) != nil || err != nil {
			return
		}
		seq = ev.Seq
	}
}

// pushes writes a stream, and keep-alives while it is silent, so that no proxy closes the
// connection.
//
// Goroutines: that of the timer, which end waits for.
type pushes struct {
	x      *exchange
	sse    bool
	viewer bool               // of a terminal, which resumes with an offset
	cancel context.CancelFunc // ends the stream: the client has disconnected

	mu    sync.Mutex
	timer *time.Timer // guarded by mu, as writing to x.w is
	over  bool        // guarded by mu
	frame []byte      // guarded by mu
}

func newPushes(x *exchange, cancel context.CancelFunc) *pushes {
	p := &pushes{x: x, cancel: cancel, sse: x.accepts(sseType)}
	header := x.w.Header()
	header.Set("Content-Type", ndjsonType)
	if p.sse {
		header.Set("Content-Type", sseType)
	}
	header.Set("X-Accel-Buffering", "no") // a proxy that understands this passes on at once
	return p
}

// accepts reports whether the client asks for answers of that type by name.
func (x *exchange) accepts(kind string) bool {
	for _, accept := range x.r.Header.Values("Accept") {
		if slices.ContainsFunc(strings.Split(accept, ","), func(s string) bool {
			given, _, _ := strings.Cut(s, ";")
			return strings.EqualFold(strings.TrimSpace(given), kind)
		}) {
			return true
		}
	}
	return false
}

// start sends what is answered at once.
func (p *pushes) start(s api.StreamStart) error {
	e := wire.NewEncoder()
	defer e.Release()
	if err := e.Value(s); err != nil {
		return err
	}
	p.mu.Lock()
	p.timer = time.AfterFunc(p.x.http.cfg.KeepAlive, p.keepAlive)
	p.mu.Unlock()
	return p.send("start", "", e.Bytes())
}

// event sends one push.
func (p *pushes) event(ev *api.StreamEvent) error {
	e := wire.NewEncoder()
	defer e.Release()
	if err := e.Event(ev); err != nil {
		p.x.log.Error("encode push", "stream_id", ev.StreamID, "error", err)
		return err
	}
	id := ""
	switch {
	case p.viewer:
		id = viewerID(ev)
	case ev.Seq > 0: // or the stream broke off before its first push
		id = strconv.FormatInt(ev.Seq, 10)
	}
	return p.send(ev.Type, id, e.Bytes())
}

// send sends a line of JSON. A client resumes with the id, if there is one.
func (p *pushes) send(name, id string, line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sse {
		f := p.frame[:0]
		if id != "" {
			f = append(append(append(f, "id: "...), id...), '\n')
		}
		f = append(append(append(f, "event: "...), name...), "\ndata: "...)
		p.frame = append(append(f, line...), '\n')
		line = p.frame
	}
	p.x.http.server.counts.streamed(transportHTTP, len(line))
	return p.writeLocked(line)
}

// writeLocked writes and flushes.
func (p *pushes) writeLocked(b []byte) error {
	_, err := p.x.w.Write(b)
	if err == nil {
		err = p.x.w.FlushError()
	}
	if err != nil {
		p.cancel()
		return err
	}
	p.timer.Reset(p.x.http.cfg.KeepAlive)
	return nil
}

func (p *pushes) keepAlive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
	case p.sse:
		_ = p.writeLocked([]byte(": keep-alive\n\n"))
	default:
		_ = p.writeLocked([]byte("\n"))
	}
}

// end stops the keep-alives.
func (p *pushes) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
