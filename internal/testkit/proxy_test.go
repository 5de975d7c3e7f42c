package testkit_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that sends each connection a name, then everything back that it receives.
func echo(t *testing.T, name string) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_, _ = io.WriteString(c, name)
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

// dial connects through the proxy and reads the name of the server.
func dial(t *testing.T, p *testkit.Proxy, name string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	says(t, c, name)
	return c
}

func says(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

// ended reads to the end of a connection.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection does not end")
	}
}

func TestProxyForwardsCutsAndRefuses(t *testing.T) {
	p := testkit.NewProxy(t, echo(t, "one"))
	a, b := dial(t, p, "one"), dial(t, p, "one")
	_, _ = io.WriteString(a, "hello")
	says(t, a, "hello")
	p.Cut()
	ended(t, a)
	ended(t, b)
	c := dial(t, p, "one")
	p.Refuse()
	if again, err := net.Dial("tcp", p.Address()); err == nil {
		again.Close()
		t.Error("connected to a proxy that refuses")
	}
	_, _ = io.WriteString(c, "still here")
	says(t, c, "still here")
	p.Cut()
	ended(t, c)
	before := p.Address()
	p.Aim(echo(t, "two"))
	p.Listen()
	dial(t, p, "two")
	if p.Address() != before {
		t.Errorf("%s became %s", before, p.Address())
	}
	if n := p.Connections(); n != 4 {
		t.Errorf("%d connections", n)
	}
}

func TestProxyStalls(t *testing.T) {
	p := testkit.NewProxy(t, echo(t, "one"))
	c := dial(t, p, "one")
	p.Stall()
	_, _ = io.WriteString(c, "lost")
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v", n, err)
	}
	dial(t, p, "one")
}

func TestProxyChaos(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 100_000)
	for _, fault := range []testkit.Fault{testkit.FaultCut, testkit.FaultReset, testkit.FaultStall, testkit.FaultHalf, testkit.FaultOtherHalf} {
		t.Run(string(fault), func(t *testing.T) {
			p := testkit.NewProxy(t, echo(t, ""))
			open := dial(t, p, "")
			testkit.Eventually(t, "the proxy is connected", func() bool { return p.Connections() == 1 })
			p.Chaos(testkit.Chaos{Faults: []testkit.Fault{fault}, Within: 20_000, Delays: true})
			for i, c := range []net.Conn{open, dial(t, p, "")} {
				go func() { _, _ = c.Write(large) }()
				if fault == testkit.FaultStall {
					testkit.Eventually(t, "the connection is stalled", func() bool { return p.Faults()[fault] == i+1 })
				} else {
					ended(t, c)
				}
				if n := p.Faults()[fault]; n != i+1 {
					t.Errorf("%d connections suffered, want %d", n, i+1)
				}
				c.Close()
			}
			p.Calm()
			calm := dial(t, p, "")
			go func() { _, _ = calm.Write(large) }()
			says(t, calm, string(large))
		})
	}
}

// TestProxyChaosGrows: with a limit that grows, a message that is larger than it arrives in the end.
func TestProxyChaosGrows(t *testing.T) {
	p := testkit.NewProxy(t, echo(t, ""))
	p.Chaos(testkit.Chaos{Faults: []testkit.Fault{testkit.FaultCut, testkit.FaultReset}, Within: 1000, Grows: true})
	large := bytes.Repeat([]byte("x"), 5000)
	for {
		c := dial(t, p, "")
		go func() { _, _ = c.Write(large) }()
		n, _ := io.CopyN(io.Discard, c, int64(len(large)))
		c.Close()
		if n == int64(len(large)) {
			break
		}
	}
	if len(p.Faults()) == 0 {
		t.Error("there was no chaos")
	}
}
