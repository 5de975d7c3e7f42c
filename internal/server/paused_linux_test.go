package server_test

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

// deadlines is a listener whose connections tell of their read deadlines, and
// when the watch over a paused reader begins.
type deadlines struct {
	net.Listener
	set     func(time.Time)
	watched chan struct{}
}

type deadlineConn struct {
	*net.UnixConn
	of *deadlines
}

type watchedConn struct {
	syscall.RawConn
	of *deadlines
}

func (l *deadlines) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return deadlineConn{conn.(*net.UnixConn), l}, nil
}

func (c deadlineConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.UnixConn.SyscallConn()
	return watchedConn{raw, c.of}, err
}

func (c watchedConn) Read(f func(uintptr) bool) error {
	c.of.watched <- struct{}{}
	return c.RawConn.Read(f)
}

func (c deadlineConn) SetReadDeadline(t time.Time) error {
	c.of.set(t)
	return c.UnixConn.SetReadDeadline(t)
}

// TestShutdownOfAPausedReader: the connection ends at the worst moment, when the
// reader has got the slot it waited for and is about to read on.
func TestShutdownOfAPausedReader(t *testing.T) {
	svc := newService()
	s := server.New(server.Config{Service: svc, MaxInFlight: 1})
	ln, err := server.Listen(testkit.Dir(t) + "/s")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stopped, interrupted := make(chan error, 1), make(chan struct{}, 10)
	var once sync.Once
	set := func(to time.Time) {
		if !to.IsZero() {
			interrupted <- struct{}{}
			return
		}
		once.Do(func() { // the watch has been interrupted and is about to clean up
			<-interrupted
			go func() { stopped <- s.Shutdown(ctx) }()
			<-interrupted // by the end of the connection
		})
	}
	served, watched := make(chan error, 1), make(chan struct{}, 10)
	go func() { served <- s.Serve(context.Background(), &deadlines{ln, set, watched}) }()
	p := (&daemon{socket: ln.Addr().String()}).dial(t)
	p.send(run(1, "hold a"), run(2, "echo x"))
	receive(t, svc.started)
	receive(t, watched)
	svc.release("a")
	if err := receive(t, stopped); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, served); err != nil {
		t.Fatal(err)
	}
}
