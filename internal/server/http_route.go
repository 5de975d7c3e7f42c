package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/api/spec"
	"github.com/trl-dev/trl/internal/wire"
)

// exchange is one request and its answer. It is used by the goroutine of the handler.
type exchange struct {
	http *HTTP
	conn *webConn
	log  *slog.Logger
	w    *reply
	r    *http.Request
	// ctx is the context of the request. It carries the connection and the caller.
	ctx context.Context
	// scope is the scope of the caller's token.
	scope  Scope
	caller *api.Caller
	only   *share // what the caller may see; nil for everything
	// method is the method of the API for the metrics; "" if the request is for none.
	method string
	// begun says that the header has been sent.
	begun bool
	// stops are called when the request has been answered.
	stops []func() bool
}

// endpoint serves one path.
type endpoint struct {
	allow string // the HTTP methods, with commas
	need  Scope  // "" if no token is needed
	// early says that the endpoint also answers before the daemon is ready.
	early bool
	serve func(x *exchange)
}

// headerTraceparent is the header of W3C Trace Context, and the metadata of gRPC.
const headerTraceparent = "traceparent"

const (
	get  = "GET, HEAD"
	post = "POST"
)

// find returns the endpoint of a path.
func (h *HTTP) find(path string) (endpoint, bool) {
	switch path {
	case "/healthz":
		return endpoint{allow: get, early: true, serve: func(x *exchange) { x.text("ok\n") }}, true
	case "/readyz":
		return endpoint{allow: get, serve: func(x *exchange) { x.text("ready\n") }}, true
	case "/openapi.json":
		return endpoint{allow: get, early: true, serve: func(x *exchange) { x.answer(jsonType, spec.OpenAPI) }}, true
	case "/metrics":
		return endpoint{allow: get, need: ScopeRead, serve: (*exchange).metrics}, true
	case "/v1/ws":
		return endpoint{allow: "GET", need: ScopeRead, serve: (*exchange).webSocket}, true
	case "/v1/events":
		return endpoint{allow: "GET", need: ScopeRead, serve: (*exchange).events}, true
	}
	if rest, ok := strings.CutPrefix(path, "/v1/exec/"); ok {
		id, what, _ := strings.Cut(rest, "/")
		switch what {
		case api.EventStdout, api.EventStderr:
			return endpoint{allow: get, need: ScopeRead, serve: func(x *exchange) { x.raw(id, what) }}, true
		case "stream":
			return endpoint{allow: "GET", need: ScopeRead, serve: func(x *exchange) { x.execStream(id) }}, true
		}
		return endpoint{}, false
	}
	if rest, ok := strings.CutPrefix(path, "/v1/dialogue/"); ok {
		id, what, _ := strings.Cut(rest, "/")
		switch what {
		case "events":
			return endpoint{allow: "GET", need: ScopeRead, serve: func(x *exchange) { x.dialogueEvents(id) }}, true
		case "raw":
			return endpoint{allow: get, need: ScopeRead, serve: func(x *exchange) { x.dialogueRaw(id) }}, true
		}
		return endpoint{}, false
	}
	if id, ok := strings.CutPrefix(path, "/v1/recording/"); ok {
		return endpoint{allow: get, need: ScopeRead, serve: func(x *exchange) { x.recording(id) }}, true
	}
	if rest, ok := strings.CutPrefix(path, "/v1/session/"); ok {
		if id, what, _ := strings.Cut(rest, "/"); what == "attach" {
			return endpoint{allow: "GET", need: ScopeRead, serve: func(x *exchange) { x.attach(id) }}, true
		}
	}
	if name, ok := strings.CutPrefix(path, "/v1/"); ok {
		need := ScopeFull
		m, known := h.server.methods[name]
		if !known || m.MayRead() {
			need = ScopeRead
		}
		return endpoint{allow: post, need: need, serve: func(x *exchange) { x.call(name) }}, true
	}
	if h.cfg.Logins != nil {
		if e, ok := h.pageEndpoint(path); ok {
			return e, true
		}
	}
	for at, handler := range h.cfg.Handlers {
		if path == at || strings.HasPrefix(path, at+"/") {
			return endpoint{need: ScopeFull, serve: func(x *exchange) { handler.ServeHTTP(x.w, x.r.WithContext(x.ctx)) }}, true
		}
	}
	return endpoint{}, false
}

// handle answers one request.
func (h *HTTP) handle(rw http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(webConnKey{}).(*webConn)
	x := &exchange{http: h, conn: c, r: r, w: newReply(rw, h.server.cfg.WriteTimeout)}
	path := r.URL.Path
	if strings.HasPrefix(path, "/web/get/") {
		path = "/web/get/" // without the ticket
	}
	x.log = h.log.With("caller", c.peer(), "path", path)
	begin := time.Now()
	refusal := h.enter(c)
	defer func() {
		for _, stop := range x.stops {
			stop()
		}
		h.leave(c)
		x.recovered(recover())
		if x.log.Enabled(r.Context(), slog.LevelDebug) {
			x.log.Debug("http request", "verb", r.Method, "status", x.w.status, "duration", time.Since(begin))
		}
	}()
	// net/http ends the context when the client disconnects while it waits for the answer. The
	// connection has ended then, but net/http reports that only after the handler returns.
	stop := context.AfterFunc(r.Context(), func() { c.cancel(errClientGone) })
	defer stop()
	x.caller = &api.Caller{Transport: transportHTTP.String(), Address: c.peer()}
	x.ctx = api.WithCaller(api.WithConn(api.WithTraceparent(r.Context(), r.Header.Get(headerTraceparent)), c.ctx), x.caller)
	if r.Body != http.NoBody {
		body := &body{ReadCloser: r.Body, rc: x.w.rc, timeout: h.cfg.BodyTimeout}
		body.extend() // even if the handler does not read the body: net/http does, at the end
		r.Body = body
	}
	x.route(refusal)
}

// route finds the endpoint and serves it. A refusal is the answer of every endpoint of the Service.
func (x *exchange) route(refusal *api.Error) {
	header := x.w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	// A proxy may disagree with this server about the end of such a request. No other request may
	// follow it on the connection, or it could be smuggled in.
	if len(x.r.TransferEncoding) > 0 || x.r.Method == http.MethodConnect {
		header.Set("Connection", "close")
	}
	if x.conn.excess {
		header.Set("Connection", "close")
		x.fail(api.Errorf(api.CodeResourcePressure, "connection: max_http_connections (%d) reached", x.http.cfg.MaxConnections))
		return
	}
	if !x.hostAllowed() || !x.originAllowed() || x.preflight() {
		return
	}
	e, ok := x.http.find(x.r.URL.Path)
	if !ok {
		x.refuse(http.StatusNotFound, api.Errorf(api.CodeMethodNotFound, "path %.200q: not found; methods are at /v1/<method>", x.r.URL.Path))
		return
	}
	if e.allow != "" && !strings.Contains(", "+e.allow+",", ", "+x.r.Method+",") {
		header.Set("Allow", e.allow)
		x.refuse(http.StatusMethodNotAllowed, api.Errorf(api.CodeInvalidParams, "%.20s %.200s: must be %s", x.r.Method, x.r.URL.Path, strings.ReplaceAll(e.allow, ",", " or")))
		return
	}
	if e.need != "" && !x.authorised(e.need) {
		return
	}
	switch {
	case e.early:
	case refusal != nil:
		x.fail(refusal)
		return
	case !x.http.ready.Load():
		x.fail(api.ErrDaemonStarting)
		return
	}
	if x.r.Body != http.NoBody && (x.r.Method == "GET" || x.r.Method == "HEAD") {
		header.Set("Connection", "close")
		x.refuse(http.StatusBadRequest, api.Errorf(api.CodeInvalidParams, "%s %.200s: must have no body", x.r.Method, x.r.URL.Path))
		return
	}
	e.serve(x)
}

// recovered answers a request whose handler panicked with r, if it did.
func (x *exchange) recovered(r any) {
	switch {
	case r == nil:
		return
	case r == http.ErrAbortHandler: // the handler asks net/http to cut the connection
		panic(r)
	}
	x.log.Error("http request panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	if x.w.status != 0 {
		panic(http.ErrAbortHandler) // a partial answer must not look complete
	}
	x.w.Header().Set("Connection", "close")
	x.fail(api.Errorf(api.CodeInternal, "internal fault; the daemon's log has the details"))
}

const jsonType = "application/json"

// answer sends a whole body.
func (x *exchange) answer(contentType string, body []byte) { x.send(http.StatusOK, contentType, body) }

func (x *exchange) text(s string) { x.answer("text/plain; charset=utf-8", []byte(s)) }

func (x *exchange) send(status int, contentType string, body []byte) {
	if x.begun {
		_, _ = x.w.Write(body)
		return
	}
	header := x.w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(body)
	}
}

// fail answers with an error and the status of its code.
func (x *exchange) fail(cause *api.Error) { x.refuse(statusOf(cause.Code), cause) }

// refuse answers with an error and a status of its own, for statuses that no code stands for.
func (x *exchange) refuse(status int, cause *api.Error) {
	x.http.server.counts.request(transportHTTP, x.method, cause)
	if status == http.StatusServiceUnavailable {
		x.w.Header().Set("Retry-After", "1")
	}
	e := wire.NewEncoder()
	defer e.Release()
	if err := e.Value(failure{cause}); err != nil { // details that cannot be encoded as JSON
		_ = e.Value(failure{&api.Error{Code: cause.Code, Message: cause.Message}})
	}
	x.send(status, jsonType, e.Bytes())
}

// failure is the body of an answer that is an error.
type failure struct {
	Error *api.Error `json:"error"`
}

func statusOf(code api.Code) int {
	for _, c := range api.Codes {
		if c.Code == code {
			return c.HTTP
		}
	}
	return http.StatusInternalServerError
}

// shuttingDown reports whether the connection ends because the daemon or its HTTP server ends.
func (x *exchange) shuttingDown() bool {
	cause := context.Cause(x.conn.ctx)
	return errors.Is(cause, ErrShutdown) || errors.Is(cause, errHTTPOff)
}
