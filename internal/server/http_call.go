package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

// freeBody is how large a body may be without asking the budget of large requests.
const freeBody = 64 << 10

// call answers POST /v1/<method>: the body is the parameters, the answer is the data.
func (x *exchange) call(name string) {
	m, ok := x.http.server.methods[name]
	if !ok {
		x.fail(unknownMethod(name))
		return
	}
	x.method = name
	if !x.jsonExpected() {
		return
	}
	params, taken, ok := x.readBody()
	defer func() { x.http.server.budget.Return(taken) }()
	if !ok {
		return
	}
	if !x.admit(m, &params) {
		return
	}
	if m.Streams {
		x.stream(m, params)
		return
	}
	stop := x.stayAlive()
	result, err := x.http.server.call(x.ctx, x.log, x.only, m, params, nil)
	stop()
	if err != nil {
		x.fail(explain(err, x.conn.ctx, x.shuttingDown()))
		return
	}
	e := wire.NewEncoder()
	defer e.Release()
	if err := e.Value(result); err != nil {
		x.log.Error("encode answer", "error", err)
		x.fail(api.Errorf(api.CodeInternal, "%s: answer: %s", name, err))
		return
	}
	x.http.server.counts.request(transportHTTP, name, nil)
	x.answer(jsonType, e.Bytes())
}

// admit reports whether the request may call the method, and replaces its parameters if the caller
// may see only one thing. If not, it answers the request.
func (x *exchange) admit(m api.Method, params *json.RawMessage) bool {
	pinned, cause := x.conn.admission.admit(x.scope, x.only, m, *params)
	if cause != nil {
		if m.Access != api.AccessRead {
			x.http.server.audit(x.caller, m.Name, *params, cause)
		}
		x.fail(cause)
	}
	*params = pinned
	return cause == nil
}

// jsonExpected refuses a body of another type than JSON. A web page can send forms and plain text to
// another site without a preflight request, so this also stops such a page if every other check
// were missing.
func (x *exchange) jsonExpected() bool {
	given := x.r.Header.Get("Content-Type")
	if given == "" && x.r.Body == http.NoBody {
		return true
	}
	kind, _, err := mime.ParseMediaType(given)
	switch {
	case err != nil || kind != jsonType:
		x.refuse(http.StatusUnsupportedMediaType, api.Errorf(api.CodeInvalidParams, "content type %q: must be %s", shortened(given), jsonType))
		return false
	case x.r.Header.Get("Content-Encoding") != "":
		x.refuse(http.StatusUnsupportedMediaType, api.Errorf(api.CodeInvalidParams, "content encoding %q: is not supported", shortened(x.r.Header.Get("Content-Encoding"))))
		return false
	}
	return true
}

// readBody reads the parameters, at most max_request_bytes; nil if there are none. The caller returns
// taken to the budget. If ok is false, readBody has answered the request.
func (x *exchange) readBody() (params json.RawMessage, taken int64, ok bool) {
	s := x.http.server
	most := int64(s.cfg.MaxRequestBytes)
	refuse := func(status int, cause *api.Error) (json.RawMessage, int64, bool) {
		x.w.Header().Set("Connection", "close") // the rest of the body is not read
		x.refuse(status, cause)
		return nil, taken, false
	}
	tooLarge := api.Errorf(api.CodeRequestTooLarge, "request: larger than max_request_bytes (%d)", most)
	tooLarge.Details = map[string]any{"max_request_bytes": most}
	if x.r.ContentLength > most {
		return refuse(http.StatusRequestEntityTooLarge, tooLarge)
	}
	size := int64(4 << 10)
	if x.r.ContentLength >= 0 {
		size = x.r.ContentLength + 1 // and the end
	}
	var buf []byte
	for {
		if len(buf) == cap(buf) {
			if size > freeBody {
				if !s.budget.Take(size) {
					// A client that is cut off while it sends does not see the answer.
					_, _ = io.Copy(io.Discard, io.LimitReader(x.r.Body, most))
					return refuse(statusOf(api.CodeResourcePressure), api.Errorf(api.CodeResourcePressure, "request: too many large requests at once; try again later"))
				}
				taken += size // the old buffer is garbage, but not gone
			}
			buf = append(make([]byte, 0, size), buf...)
			size = min(2*size, most+1)
		}
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > most:
			return refuse(http.StatusRequestEntityTooLarge, tooLarge)
		case errors.Is(err, io.EOF):
			if buf = bytes.TrimSpace(buf); len(buf) == 0 {
				return nil, taken, true
			}
			if bad := wire.CheckText(buf); bad != nil {
				x.fail(bad)
				return nil, taken, false
			}
			return buf, taken, true
		case errors.Is(err, os.ErrDeadlineExceeded):
			return refuse(http.StatusRequestTimeout, api.Errorf(api.CodeInvalidParams, "request: no part of its body arrived for %s", x.http.cfg.BodyTimeout))
		case err != nil:
			return refuse(http.StatusBadRequest, api.Errorf(api.CodeInvalidParams, "request: body: %s", err))
		}
	}
}

// headerKeepAlive is the header with which a client asks for signs of life during a long call. Many
// clients and proxies give up when no header arrives for a while.
const headerKeepAlive = "X-Trl-Keep-Alive"

// stayAlive sends white space, with which JSON may begin, to a client that asked for it, until the
// returned function is called. The status of the answer has been sent by then, so only the body
// shows an error.
func (x *exchange) stayAlive() (stop func()) {
	if x.r.Header.Get(headerKeepAlive) != "1" {
		return func() {}
	}
	var mu sync.Mutex
	var timer *time.Timer // guarded by mu, as x.begun and writing to x.w are
	over := false         // guarded by mu
	blank := func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		if !x.begun {
			x.begun = true
			x.w.Header().Set("Content-Type", jsonType)
		}
		if _, err := x.w.Write([]byte("\n")); err == nil && x.w.FlushError() == nil {
			timer.Reset(x.http.cfg.KeepAlive)
		}
	}
	mu.Lock()
	timer = time.AfterFunc(x.http.cfg.KeepAlive, blank)
	mu.Unlock()
	return func() {
		mu.Lock()
		over = true
		timer.Stop()
		mu.Unlock()
	}
}
