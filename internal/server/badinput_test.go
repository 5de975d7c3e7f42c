package server_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

// These tests send bad input to a server with a fake service, where limits can be small and the heap
// can be measured exactly. tests/wire/badinput_test.go does it to the whole daemon, to find what the
// parts behind the server keep: memory, descriptors, goroutines.

// flat runs f and checks that the heap is where it was.
func flat(t *testing.T, margin int64, f func()) {
	t.Helper()
	before := testkit.Heap()
	f()
	if grown := testkit.Heap() - before; grown > margin {
		t.Errorf("the heap grew by %d bytes, at most %d are allowed", grown, margin)
	}
}

// flood writes n bytes in pieces.
func flood(w io.Writer, n int) error {
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for n > 0 {
		m, err := w.Write(piece[:min(n, len(piece))])
		if err != nil {
			return err
		}
		n -= m
	}
	return nil
}

// TestLongLine: 64 MiB in one line are refused by their id, not kept, and the
// connection stays usable.
func TestLongLine(t *testing.T) {
	d := start(t, server.Config{})
	p, other := d.dial(t), d.dial(t)
	flat(t, 4<<20, func() {
		for _, tt := range []struct{ begin, id string }{
			{`{"id":"big","method":"exec.run","params":{"session_id":"s","command":"`, `"big"`},
			{`{"method":"exec.run","id":9,"params":{"command":"`, `9`},
			{`{"method":"exec.run","params":{"command":"`, `null`},
			{`garbage`, `null`},
		} {
			if _, err := io.WriteString(p, tt.begin); err != nil {
				t.Fatal(err)
			}
			if err := flood(p, 64<<20); err != nil {
				t.Fatal(err)
			}
			other.ping()
			p.send(`"}}`)
			a := p.refused(tt.id, api.CodeRequestTooLarge)
			if !strings.Contains(a.Error.Message, "max_request_bytes (33554432)") {
				t.Errorf("%s", a.Error.Message)
			}
			p.ping()
		}
	})
}

// TestLargeRequest: up to the limit a request is taken whole.
func TestLargeRequest(t *testing.T) {
	d := start(t, server.Config{})
	p := d.dial(t)
	text := strings.Repeat("0123456789", 1<<18)
	flat(t, 2<<20, func() {
		p.send(run(1, "echo "+text))
		if got := stdout(t, p.answer()); got != text {
			t.Errorf("%d bytes came back of %d", len(got), len(text))
		}
	})
}

// TestLargeRequestsShareABudget: a request that does not fit gets an error, small requests still
// work, and the room is free again afterwards.
func TestLargeRequestsShareABudget(t *testing.T) {
	d := start(t, server.Config{BufferBytes: 3 << 20})
	holder, second := d.dial(t), d.dial(t)
	large := strings.Repeat("x", 1<<20+1<<19)
	holder.send(run(1, "hold a")[:len(run(1, "hold a"))-2] + `,"env":{"A":"` + large + `"}}}`)
	receive(t, d.service.started)
	second.send(run(2, "echo "+large))
	second.refused(`2`, api.CodeResourcePressure)
	second.ping()
	d.service.release("a")
	if got := stdout(t, holder.answer()); got != "a" {
		t.Errorf("%q", got)
	}
	testkit.Eventually(t, "the memory of the released request is free again", func() bool {
		second.send(run(3, "echo "+large))
		return second.answer().Error == nil
	})
}

// TestUnfinishedLargeRequestsGiveTheirRoomBack when their clients go away.
func TestUnfinishedLargeRequestsGiveTheirRoomBack(t *testing.T) {
	d := start(t, server.Config{BufferBytes: 3 << 20})
	for i := range 6 {
		p := d.dial(t)
		if i%2 == 0 { // closing with unread answers resets the connection
			p.send(`{"id":1,"method":"system.ping"}`)
			waitReadable(t, p)
		}
		if err := flood(p, 1<<20+1<<19); err != nil {
			t.Fatal(err)
		}
		p.Close()
		testkit.Eventually(t, "no connection is open", func() bool { return d.Connections() == 0 })
	}
	p := d.dial(t)
	p.send(run(1, "echo "+strings.Repeat("x", 1<<20+1<<19)))
	stdout(t, p.answer())
}

// TestManyConnections: 1,000 clients, idle, waiting or in the middle of a line, cost little and delay no other client.
func TestManyConnections(t *testing.T) {
	const clients = 1000
	d := start(t, server.Config{})
	other := d.dial(t)
	other.ping()
	peers := make([]*peer, clients)
	goroutines := runtime.NumGoroutine()
	flat(t, clients*24<<10, func() { // both ends are in this process, 12 KiB are ours
		for i := range peers {
			peers[i] = d.dialSmall(t)
			if i%3 == 0 {
				peers[i].send(run(i, fmt.Sprintf("echo %d", i)))
			}
			if i%3 == 1 {
				fmt.Fprintf(peers[i], `{"id":%d,"method":"sys`, i)
			}
		}
		testkit.Eventually(t, "all clients are connected", func() bool { return d.Connections() == clients+1 })
		other.ping()
	})
	if n := runtime.NumGoroutine() - goroutines; n > clients+100 {
		t.Errorf("%d goroutines for %d clients", n, clients)
	}
	for i, p := range peers {
		switch i % 3 {
		case 0:
			if got := stdout(t, p.answer()); got != fmt.Sprint(i) {
				t.Errorf("client %d: %q", i, got)
			}
		case 1:
			fmt.Fprintf(p, "tem.ping\"}\n")
			p.expect(fmt.Sprintf(`{"id":%d,%s`, i, pong))
		}
		p.ping()
	}
	flat(t, 1<<20, func() {
		for _, p := range peers {
			p.Close()
		}
		testkit.Eventually(t, "one connection is open", func() bool { return d.Connections() == 1 })
	})
	other.ping()
}

// TestSlowLoris sends requests byte by byte on many connections at once.
func TestSlowLoris(t *testing.T) {
	d := start(t, server.Config{})
	other := d.dial(t)
	line := `{"id":"slow","method":"system.ping"}` + "\n"
	var peers []*peer
	for range 50 {
		peers = append(peers, d.dial(t))
	}
	for i := range line {
		for _, p := range peers {
			if _, err := io.WriteString(p, line[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if i%8 == 0 {
			other.ping()
		}
	}
	for _, p := range peers {
		p.expect(`{"id":"slow",` + pong)
	}
}

// TestGarbage sends what is no request at all, next to clients that work.
func TestGarbage(t *testing.T) {
	d := start(t, server.Config{MaxRequestBytes: 1 << 16})
	random := make([]byte, 1<<18)
	seed := uint32(1)
	for i := range random {
		seed = seed*1664525 + 1013904223
		random[i] = byte(seed >> 24)
	}
	inputs := map[string][]byte{
		"random": random, "NUL": make([]byte, 1<<20), "empty lines": bytes.Repeat([]byte("\n"), 1<<20),
		"braces": bytes.Repeat([]byte("{"), 1<<20), "quotes": bytes.Repeat([]byte("{\"\\\n"), 1<<11),
		"http":  []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"lines": bytes.Repeat([]byte("x\n"), 1<<11), "deep": append(bytes.Repeat([]byte("["), 1<<15), '\n'),
	}
	other := d.dial(t)
	flat(t, 4<<20, func() {
		var wg sync.WaitGroup
		for name, input := range inputs {
			p := d.dial(t)
			_ = p.SetDeadline(time.Now().Add(patience))
			wg.Go(func() { // what is answered must be read
				for {
					line, err := p.lines.ReadString('\n')
					if err != nil {
						if err != io.EOF {
							t.Errorf("%s: %s", name, err)
						}
						return
					}
					if !strings.HasPrefix(line, `{"id":null,"ok":false,"error":{"code":"`) {
						t.Errorf("%s: %.100q", name, line)
					}
				}
			})
			wg.Go(func() {
				if _, err := p.Write(input); err != nil {
					t.Errorf("%s: %s", name, err)
				}
				p.CloseWrite()
			})
		}
		other.ping()
		wg.Wait()
		other.ping()
	})
}
