package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestDisconnectEndsRequests: the requests of a client end when it disconnects.
func TestDisconnectEndsRequests(t *testing.T) {
	d := start(t, server.Config{})
	other := d.dial(t)
	for _, how := range []string{"close", "close after half-close", "reset"} {
		p := d.dial(t)
		p.send(run(1, "wait"), run(2, "wait"))
		receive(t, d.service.started)
		receive(t, d.service.started)
		switch how {
		case "close after half-close":
			if err := p.CloseWrite(); err != nil {
				t.Fatal(err)
			}
		case "reset": // closing with unread answers resets the connection
			p.send(`{"id":3,"method":"system.ping"}`)
			waitReadable(t, p)
		}
		p.Close()
		testkit.Eventually(t, "no request is running and one connection is open", func() bool { return d.service.running.Load() == 0 && d.Connections() == 1 })
		other.ping()
	}
}

// waitReadable waits until something was sent to p, and does not take it.
func waitReadable(t *testing.T, p *peer) {
	t.Helper()
	raw, err := p.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, _ := unix.Poll(fds, 0)
			return n > 0
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHalfClose: the end of input alone cancels nothing. Every request is answered, also a last line
// without a newline, and then the connection is closed.
func TestHalfClose(t *testing.T) {
	d := start(t, server.Config{})
	p := d.dial(t)
	p.send(run(1, "hold a"), `{"id":2,"method":"exec.stream","params":{"session_id":"h","command":"tick"}}`)
	receive(t, d.service.started)
	if a := p.answer(); string(a.ID) != "2" {
		t.Fatalf("%+v", a)
	}
	if _, err := io.WriteString(p, run(3, "hold b")); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	receive(t, d.service.started)
	// The other requests run on: prove it by what each of them does next.
	d.service.ticks <- "one"
	if a := p.answer(); a.StreamID != "x-h" || a.Seq != 1 {
		t.Fatalf("%+v", a)
	}
	d.service.release("a")
	if a := p.answer(); stdout(t, a) != "a" {
		t.Fatalf("%+v", a)
	}
	d.service.release("b")
	if a := p.answer(); stdout(t, a) != "b" {
		t.Fatalf("%+v", a)
	}
	d.service.ticks <- "two"
	if a := p.answer(); a.Seq != 2 {
		t.Fatalf("%+v", a)
	}
	// Only now is the client gone.
	p.Close()
	receive(t, d.service.closed)
	testkit.Eventually(t, "no connection is open", func() bool { return d.Connections() == 0 })
}

func TestHalfCloseThenEnd(t *testing.T) {
	p := start(t, server.Config{}).dial(t)
	p.send(`{"id":1,"method":"system.ping"}`)
	if err := p.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	p.expect(`{"id":1,` + pong)
	p.eof()
}

func TestConnTellsTheLifetime(t *testing.T) {
	d := start(t, server.Config{})
	p := d.dial(t)
	p.send(run(1, "wait")) // waits for api.Conn too
	receive(t, d.service.started)
	p.Close()
	testkit.Eventually(t, "no request is running", func() bool { return d.service.running.Load() == 0 })
}

func TestShutdownAnswersWhatRuns(t *testing.T) {
	d := start(t, server.Config{})
	p, idle, half := d.dial(t), d.dial(t), d.dial(t)
	idle.ping()
	p.send(run(1, "wait"), `{"id":2,"method":"exec.stream","params":{"session_id":"s","command":"tick"}}`)
	receive(t, d.service.started)
	if a := p.answer(); string(a.ID) != "2" {
		t.Fatalf("%+v", a)
	}
	half.send(run(3, "wait"))
	receive(t, d.service.started)
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if a := p.answer(); a.Error == nil || a.Error.Code != api.CodeRuntimeUnavailable || (a.Type != api.EventError && string(a.ID) != "1") {
			t.Errorf("%+v", a)
		}
	}
	half.refused(`3`, api.CodeRuntimeUnavailable)
	p.eof()
	idle.eof()
	half.eof()
	if _, err := net.Dial("unix", d.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("dial after the end: %v", err)
	}
}

func TestShutdownCutsOffTheStubborn(t *testing.T) {
	d := start(t, server.Config{MaxUnsentBytes: 1})
	p := d.dial(t)
	p.send(run(1, "size 8000000"))
	waitReadable(t, p) // and then reads nothing
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := d.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 connections cut off") {
		t.Errorf("%v", err)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	svc := newService()
	s := server.New(server.Config{Service: svc})
	socket := testkit.Dir(t) + "/trl/s"
	ln, err := server.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	d := &daemon{Server: s, service: svc, socket: socket}
	p := d.dial(t)
	p.send(run(1, "wait"))
	receive(t, svc.started)
	cancel()
	if err := receive(t, served); err != nil {
		t.Errorf("%v", err)
	}
	p.refused(`1`, api.CodeRuntimeUnavailable)
	p.eof()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if ln, err = server.Listen(socket); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(context.Background(), ln); !errors.Is(err, server.ErrShutdown) {
		t.Errorf("serve after shutdown: %v", err)
	}
}

// stdio is a client on two pipes, as a parent process has it.
type stdio struct {
	io.Reader
	io.Writer
	closers []io.Closer
}

func (s *stdio) Close() error {
	for _, c := range s.closers {
		c.Close()
	}
	return nil
}

func pipes(t *testing.T) (server *stdio, toServer *os.File, fromServer *os.File) {
	t.Helper()
	in, toServer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromServer, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []*os.File{in, out, toServer, fromServer} {
			f.Close()
		}
	})
	return &stdio{Reader: in, Writer: out, closers: []io.Closer{in, out}}, toServer, fromServer
}

// TestServeConn: at the end of input, every request that was read is answered first.
func TestServeConn(t *testing.T) {
	svc := newService()
	s := server.New(server.Config{Service: svc})
	rwc, in, out := pipes(t)
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(context.Background(), rwc, "stdio") }()
	if _, err := io.WriteString(in, run(1, "hold x")+"\n"); err != nil {
		t.Fatal(err)
	}
	receive(t, svc.started)
	if n := s.Connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
	if _, err := io.WriteString(in, `{"id":2,"method":"system.ping"}`); err != nil {
		t.Fatal(err)
	}
	in.Close()
	svc.release("x")
	if err := receive(t, served); err != nil {
		t.Errorf("%v", err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"id":1,"ok":true,`, `{"id":2,` + pong} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q has no %q", text, want)
		}
	}
	if n := s.Connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// TestServeConnEndsWithItsContext although the reader cannot be interrupted.
func TestServeConnEndsWithItsContext(t *testing.T) {
	svc := newService()
	s := server.New(server.Config{Service: svc})
	in, toServer := io.Pipe() // its Close ends the read only after ServeConn has returned
	ctx, cancel := context.WithCancelCause(context.Background())
	served := make(chan error, 1)
	var out testkit.Buffer
	go func() { served <- s.ServeConn(ctx, &stdio{Reader: in, Writer: &out}, "stdio") }()
	if _, err := io.WriteString(toServer, run(1, "wait")+"\n"); err != nil {
		t.Fatal(err)
	}
	receive(t, svc.started)
	cancel(errors.New("got SIGTERM"))
	if err := receive(t, served); err != nil {
		t.Errorf("%v", err)
	}
	if got := out.String(); !strings.Contains(got, `{"id":1,"ok":false,"error":{"code":"RUNTIME_UNAVAILABLE"`) {
		t.Errorf("%q", got)
	}
	// What comes after the end is not started.
	if _, err := io.WriteString(toServer, run(2, "wait")+"\n"); err != nil {
		t.Fatal(err)
	}
	toServer.Close()
	if len(svc.started) > 0 {
		t.Error("a request was started after the end")
	}
}
