package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// socketPair returns two connected unix sockets.
func socketPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	dir := testkit.Dir(t)
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	one, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	two, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close(); two.Close() })
	return one.(*net.UnixConn), two.(*net.UnixConn)
}

// TestWriterKeepsOrder sends small and large lines from many goroutines, over a socket and over a
// plain writer. The lines of each sender arrive complete and in order.
func TestWriterKeepsOrder(t *testing.T) {
	const senders, each = 8, 200
	for _, kind := range []string{"socket", "pipe"} {
		t.Run(kind, func(t *testing.T) {
			var dst io.WriteCloser
			var src io.Reader
			if kind == "socket" {
				a, b := socketPair(t)
				dst, src = a, b
			} else {
				src, dst = io.Pipe()
			}
			w := wire.NewWriter(dst, time.Minute, func(err error) { t.Errorf("fail: %s", err) })
			received := make(chan []byte)
			go func() {
				b, _ := io.ReadAll(src)
				received <- b
			}()
			var wg sync.WaitGroup
			for s := range senders {
				wg.Go(func() {
					for i := range each {
						size := 10
						if i%8 == s {
							size = 150_000
						}
						line := fmt.Sprintf("%d %d %s\n", s, i, strings.Repeat("x", size))
						if err := w.Send([]byte(line)); err != nil {
							t.Errorf("send: %s", err)
						}
					}
				})
			}
			wg.Wait()
			if err := w.WaitRoom(context.Background(), 0); err != nil {
				t.Fatal(err)
			}
			if n := w.Unsent(); n != 0 {
				t.Errorf("%d bytes unsent", n)
			}
			w.Close()
			dst.Close()
			w.Wait()
			next := make([]int, senders)
			for line := range strings.Lines(string(<-received)) {
				var s, i int
				head, fill, _ := strings.Cut(line, " x")
				if _, err := fmt.Sscanf(head, "%d %d", &s, &i); err != nil || next[s] != i || strings.Trim(fill, "x") != "\n" {
					t.Fatalf("sender %d line %d, want %d (%v): %.50q", s, i, next[s], err, line)
				}
				next[s]++
			}
			for s, n := range next {
				if n != each {
					t.Errorf("sender %d: %d of %d lines", s, n, each)
				}
			}
		})
	}
}

// hookConn calls hook before each write of its descriptor.
type hookConn struct {
	*net.UnixConn
	hook func()
}

type hookRaw struct {
	syscall.RawConn
	hook func()
}

func (c *hookConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.UnixConn.SyscallConn()
	return &hookRaw{raw, func() { c.hook() }}, err
}

func (r *hookRaw) Write(f func(uintptr) bool) error {
	r.hook()
	return r.RawConn.Write(f)
}

// TestWriterDoesNotTearLines sends a second line while the first one is only partly written.
func TestWriterDoesNotTearLines(t *testing.T) {
	a, b := socketPair(t)
	conn := &hookConn{UnixConn: a}
	w := wire.NewWriter(conn, time.Minute, func(err error) { t.Errorf("fail: %s", err) })
	conn.hook = func() {
		if err := w.Send([]byte("second\n")); err != nil {
			t.Error(err)
		}
	}
	first := strings.Repeat("x", 1<<20) + "\n"
	if err := w.Send([]byte(first)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(first)+len("second\n"))
	if _, err := io.ReadFull(b, got); err != nil || string(got) != first+"second\n" {
		t.Errorf("%v: a line was torn", err)
	}
	w.Close()
	a.Close()
	w.Wait()
}

// TestWriterDoesNotWait: Send returns although the peer reads nothing, and WaitRoom waits until
// the peer reads.
func TestWriterDoesNotWait(t *testing.T) {
	a, b := socketPair(t)
	w := wire.NewWriter(a, time.Minute, func(error) {})
	defer func() { w.Close(); a.Close(); w.Wait() }()
	const size = 4 << 20
	if err := w.Send(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if n := w.Unsent(); n < size/2 {
		t.Fatalf("%d bytes unsent", n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := w.WaitRoom(ctx, 1<<20); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("WaitRoom: %v", err)
	}
	go io.Copy(io.Discard, b)
	if err := w.WaitRoom(context.Background(), 1<<20); err != nil || w.Unsent() > 1<<20 {
		t.Fatalf("WaitRoom: %v, %d unsent", err, w.Unsent())
	}
}

func TestWriterGivesUp(t *testing.T) {
	a, b := socketPair(t)
	failed := make(chan error, 2)
	w := wire.NewWriter(a, 50*time.Millisecond, func(err error) { failed <- err })
	if err := w.Send(make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	err := <-failed
	if !strings.Contains(err.Error(), "read nothing for 50ms") {
		t.Errorf("failed with %v", err)
	}
	if err := w.Send([]byte("x")); err == nil {
		t.Error("Send after the end")
	}
	if err := w.WaitRoom(context.Background(), 0); err == nil {
		t.Error("WaitRoom after the end")
	}
	a.Close()
	b.Close()
	w.Wait()
	if len(failed) > 0 {
		t.Errorf("failed twice: %v", <-failed)
	}
}

// TestWriterIsPatientWithTheSlow reads a little within each timeout, for longer than one timeout.
func TestWriterIsPatientWithTheSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		var failed error
		const timeout = time.Minute
		w := wire.NewWriter(a, timeout, func(err error) { failed = err; a.Close() })
		sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		if err := w.Send(sent); err != nil {
			t.Fatal(err)
		}
		var got []byte
		buf := make([]byte, len(sent)/200)
		for len(got) < len(sent) {
			time.Sleep(timeout / 4)
			n, err := b.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, buf[:n]...)
		}
		if err := w.WaitRoom(t.Context(), 0); err != nil || failed != nil || !bytes.Equal(got, sent) {
			t.Errorf("%v, %v, %d of %d bytes", err, failed, len(got), len(sent))
		}
		w.Close()
		a.Close()
		w.Wait()
	})
}

// deadlines is a connection that tells which deadlines are set for its writes.
type deadlines struct {
	*net.UnixConn
	set chan time.Time
}

// SetWriteDeadline implements net.Conn.
func (d deadlines) SetWriteDeadline(t time.Time) error {
	err := d.UnixConn.SetWriteDeadline(t)
	d.set <- t
	return err
}

// TestWriterForgetsTheTimeout: the deadline that was set for a slow peer does not fail a later
// write.
func TestWriterForgetsTheTimeout(t *testing.T) {
	a, b := socketPair(t)
	set := make(chan time.Time, 100)
	w := wire.NewWriter(deadlines{a, set}, time.Hour, func(err error) { t.Errorf("fail: %s", err) })
	if err := w.Send(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if (<-set).IsZero() {
		t.Error("a slow peer has no deadline")
	}
	received := make(chan int64)
	go func() {
		n, _ := io.Copy(io.Discard, b)
		received <- n
	}()
	for removed := false; !removed; { // that of the last write
		select {
		case deadline := <-set:
			removed = deadline.IsZero()
		case <-time.After(time.Minute):
			t.Fatal("the deadline stays")
		}
	}
	if err := w.Send([]byte("x")); err != nil {
		t.Error(err)
	}
	w.Close()
	a.Close()
	w.Wait()
	if n := <-received; n != 1<<20+1 {
		t.Errorf("%d bytes came", n)
	}
}

func TestWriterNoticesTheEnd(t *testing.T) {
	a, b := socketPair(t)
	failed := make(chan error, 1)
	w := wire.NewWriter(a, time.Minute, func(err error) { failed <- err })
	b.Close()
	for w.Send([]byte("hello\n")) == nil {
	}
	if err := <-failed; err == nil {
		t.Error("no cause")
	}
	a.Close()
	w.Wait()
}

func TestPeerOf(t *testing.T) {
	a, _ := socketPair(t)
	peer, err := wire.PeerOf(a)
	if err != nil || peer.UID != os.Getuid() || peer.PID != os.Getpid() {
		t.Errorf("%+v, %v", peer, err)
	}
}
