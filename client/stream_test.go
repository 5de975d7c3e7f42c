package client_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// open starts a stream with that id.
func open(t *testing.T, ctx context.Context, c *client.Client, d *daemon, id string) api.Stream {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The first push follows the answer at once, as a real daemon does it.
		d.say("{\"id\":%q,\"ok\":true,\"data\":{\"stream_id\":%q,\"exec_id\":%q,\"session_id\":\"s\"}}\n"+
			`{"stream_id":%q,"seq":1,"type":"stdout","offset":0,"data":"first"}`, d.request().ID, id, id, id)
	}()
	s, err := c.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: "s", Command: "c"}})
	<-done
	if err != nil {
		t.Fatal(err)
	}
	if s.Start().StreamID != id || s.Start().ExecID != id {
		t.Errorf("%+v", s.Start())
	}
	return s
}

func recv(t *testing.T, s api.Stream, seq int64, data string) {
	t.Helper()
	ev, err := s.Recv()
	if err != nil || ev.Seq != seq || ev.Data != data {
		t.Fatalf("seq %d, %.100q, %v; want %d %.100q", ev.Seq, ev.Data, err, seq, data)
	}
}

func TestStream(t *testing.T) {
	c, d := connect(t)
	a, b := open(t, timeout(t), c, d, "x-a"), open(t, timeout(t), c, d, "x-b")
	d.say(`{"stream_id":"x-b","seq":2,"type":"stderr","offset":0,"data":"b\n"}`)
	d.say(`{"stream_id":"x-a","seq":2,"type":"gap","stream":"stdout","from":5,"to":9}`)
	d.say(`{"stream_id":"x-a","seq":3,"type":"exit","exit_code":3,"duration_ms":5,"timed_out":true}`)
	d.say(`{"stream_id":"x-a","seq":4,"type":"stdout","data":"after the end"}`)
	recv(t, a, 1, "first")
	if ev, err := a.Recv(); err != nil || ev.Type != api.EventGap || *ev.From != 5 || *ev.To != 9 {
		t.Errorf("%+v, %v", ev, err)
	}
	if ev, err := a.Recv(); err != nil || ev.Type != api.EventExit || ev.ExecOutcome == nil || ev.ExitCode != 3 || !ev.TimedOut {
		t.Errorf("%+v, %v", ev, err)
	}
	for range 2 {
		if _, err := a.Recv(); err != io.EOF {
			t.Errorf("%v", err)
		}
	}
	recv(t, b, 1, "first")
	recv(t, b, 2, "b\n")
	d.say(`{"stream_id":"x-b","seq":3,"type":"error","error":{"code":"RUNTIME_UNAVAILABLE","message":"runner: gone"}}`)
	for range 2 {
		if _, err := b.Recv(); !errors.Is(err, api.ErrRuntimeUnavailable) || err.Error() != "runner: gone" {
			t.Errorf("%v", err)
		}
	}
	if err := errors.Join(a.Close(), b.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}

func TestStreamEnds(t *testing.T) {
	c, d := connect(t)
	ctx, cancel := context.WithCancel(timeout(t))
	cancelled := open(t, ctx, c, d, "x-1")
	recv(t, cancelled, 1, "first")
	closed := open(t, timeout(t), c, d, "x-2")
	recv(t, closed, 1, "first")
	lost := open(t, timeout(t), c, d, "x-3")

	ended := make(chan error, 2)
	go func() { _, err := cancelled.Recv(); ended <- err }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	go func() { _, err := closed.Recv(); ended <- err }()
	closed.Close()
	if err := <-ended; err == nil || err == io.EOF {
		t.Errorf("closed: %v", err)
	}
	d.say(`{"stream_id":"x-3","seq":2,"type":"stdout","offset":5,"data":"last"}`)
	d.Close()
	<-c.Done()
	recv(t, lost, 1, "first") // what had come is not lost
	recv(t, lost, 2, "last")
	if _, err := lost.Recv(); !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("lost: %v", err)
	}
}

// settles waits until a number does not change any more.
func settles(t *testing.T, number *atomic.Int64) int64 {
	t.Helper()
	last, same := int64(-1), 0
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); same < 40; <-tick.C {
		if n := number.Load(); n == last && n > 0 {
			same++
		} else {
			last, same = n, 0
		}
		if time.Now().After(end) {
			t.Fatal("it does not settle")
		}
	}
	return last
}

// TestSlowConsumer: a stream keeps a bounded amount. The connection waits for
// its consumer then, and goes on when it reads, or gives up.
func TestSlowConsumer(t *testing.T) {
	for _, how := range []string{"reads", "closes", "cancels"} {
		t.Run(how, func(t *testing.T) {
			c, d := connect(t)
			ctx, cancel := context.WithCancel(timeout(t))
			defer cancel()
			s := open(t, ctx, c, d, "x-1")
			const pieces = 64
			data := strings.Repeat("y", 1<<20)
			sent := make(chan struct{})
			var count atomic.Int64
			go func() {
				defer close(sent)
				for i := range pieces {
					count.Store(int64(i))
					d.say(`{"stream_id":"x-1","seq":%d,"type":"stdout","offset":%d,"data":"%s"}`, i+2, i<<20+len("first"), data)
				}
				d.say(`{"stream_id":"x-1","seq":%d,"type":"exit"}`, pieces+2)
			}()
			pinged := make(chan error)
			go func() {
				_, err := c.SystemPing(timeout(t), api.SystemPingParams{})
				pinged <- err
			}()
			r := d.request() // requests still go out
			if n := settles(t, &count); n > pieces/2 {
				t.Errorf("%d MiB were taken for a consumer that reads nothing", n)
			}
			switch how {
			case "reads":
				recv(t, s, 1, "first")
				for i := range pieces {
					recv(t, s, int64(i)+2, data)
				}
			case "closes":
				s.Close()
			case "cancels":
				cancel()
			}
			<-sent
			d.say(`{"id":%q,"ok":true,"data":{}}`, r.ID)
			if err := <-pinged; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStreamRequestIsGivenUp: a daemon that never reads does not hold a caller whose context ends,
// however long its request is.
func TestStreamRequestIsGivenUp(t *testing.T) {
	c, _, ln := dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		stdin := strings.Repeat("x", 8<<20)
		_, err := c.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: "s", Command: "cat", Stdin: &stdin}})
		ended <- err
	}()
	accept(t, ln)
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that of the context", err)
		}
	case <-time.After(patience):
		t.Error("the request still waits for the daemon")
	}
}
