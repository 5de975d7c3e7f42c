package server_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

// holds counts the clients that keep the daemon alive. It stands for the registry of sessions.
type holds struct {
	mu      sync.Mutex
	taken   int   // guarded by mu; how often hold was called
	present int   // guarded by mu; how many holds were not released
	refusal error // guarded by mu; hold returns it
}

func (h *holds) hold() (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refusal != nil {
		return nil, h.refusal
	}
	h.taken++
	h.present++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.present--
	}, nil
}

func (h *holds) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("%d of %d", h.present, h.taken)
}

func (h *holds) expect(t *testing.T, when, want string) {
	t.Helper()
	if got := h.String(); got != want {
		t.Errorf("%s: %s connections keep the daemon alive, want %s", when, got, want)
	}
}

func (h *holds) eventually(t *testing.T, want string) {
	t.Helper()
	testkit.Eventually(t, "want "+want, func() bool { return h.String() == want })
}

const (
	pingLine = `{"id":1,"method":"system.ping"}`
	pongLine = `{"id":1,"ok":true`
)

// TestConnectionKeepsTheDaemon: on the transports with connections, a client keeps the daemon alive
// from its first call until it disconnects.
func TestConnectionKeepsTheDaemon(t *testing.T) {
	t.Run("socket", func(t *testing.T) {
		var h holds
		p := start(t, server.Config{Hold: h.hold}).dial(t)
		p.send(`{"id":0,"method":"no.such"}`)
		p.refused("0", api.CodeMethodNotFound)
		h.expect(t, "before the first call", "0 of 0")
		for range 3 {
			p.send(pingLine)
			p.answer()
		}
		h.expect(t, "after three calls", "1 of 1")
		p.Close()
		h.eventually(t, "0 of 1")
	})
	t.Run("websocket", func(t *testing.T) {
		var h holds
		s := startWeb(t, server.Config{Hold: h.hold}, server.HTTPConfig{}).mustWebSocket(bearer(fullToken))
		h.expect(t, "before the first call", "0 of 0")
		for range 3 {
			s.send(pingLine)
			s.expect(pongLine)
		}
		h.expect(t, "after three calls", "1 of 1")
		s.CloseNow()
		h.eventually(t, "0 of 1")
	})
	t.Run("grpc", func(t *testing.T) {
		var h holds
		d := openDoor(t, server.Config{Hold: h.hold}, server.GRPCConfig{})
		p := d.call(d.dial())
		for range 3 {
			p.say(pingLine)
			p.expect(pongLine)
		}
		h.expect(t, "after three calls", "1 of 1")
		p.hangUp()
		h.eventually(t, "0 of 1")
	})
	t.Run("stdio", func(t *testing.T) {
		var h holds
		rwc, in, out := pipes(t)
		served := make(chan error, 1)
		go func() {
			served <- server.New(server.Config{Service: newService(), Hold: h.hold}).ServeConn(t.Context(), rwc, "stdio")
		}()
		if _, err := io.WriteString(in, pingLine+"\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		h.expect(t, "after a call", "1 of 1")
		in.Close()
		go func() { _, _ = io.Copy(io.Discard, out) }()
		if err := <-served; err != nil {
			t.Error(err)
		}
		h.eventually(t, "0 of 1")
	})
}

// TestHTTPKeepsTheDaemon: every path that calls the Service keeps the daemon alive while its
// connection is open. Paths for monitors do not.
func TestHTTPKeepsTheDaemon(t *testing.T) {
	for _, c := range []struct {
		verb, path string
		holds      bool
	}{
		{"POST", "/v1/system.ping", true},
		{"GET", "/v1/exec/x-1/stdout", true},
		{"GET", "/v1/exec/x-1/stream", true},
		{"GET", "/metrics", false},
		{"GET", "/healthz", false},
		{"GET", "/readyz", false},
		{"GET", "/openapi.json", false},
		{"POST", "/v1/no.such", false},
	} {
		t.Run(strings.Trim(c.path, "/"), func(t *testing.T) {
			var h holds
			w := startWeb(t, server.Config{Hold: h.hold}, server.HTTPConfig{})
			w.service.oldExec("x-1", "output").exit()
			for range 2 {
				w.do(c.verb, c.path, "")
			}
			if !c.holds {
				h.expect(t, "after two requests", "0 of 0")
				return
			}
			h.expect(t, "after two requests", "1 of 1")
			w.client.CloseIdleConnections()
			h.eventually(t, "0 of 1")
		})
	}
}

// TestNoAdmissionAtTheEnd: a daemon that is about to exit refuses every call with its reason, so
// that the client starts the next daemon.
func TestNoAdmissionAtTheEnd(t *testing.T) {
	h := holds{refusal: api.ErrDaemonEnding}
	p := start(t, server.Config{Hold: h.hold}).dial(t)
	p.send(pingLine)
	if got := p.refused("1", api.CodeRuntimeUnavailable); got.Error.Reason() != api.ErrDaemonEnding.Reason() {
		t.Errorf("got %+v", got.Error)
	}
	w := startWeb(t, server.Config{Hold: h.hold}, server.HTTPConfig{})
	w.service.oldExec("x-1", "output").exit()
	w.refused(503, api.CodeRuntimeUnavailable, "POST", "/v1/system.ping", "")
	w.refused(503, api.CodeRuntimeUnavailable, "GET", "/v1/exec/x-1/stdout", "")
	w.refused(503, api.CodeRuntimeUnavailable, "GET", "/v1/exec/x-1/stream", "")
}
