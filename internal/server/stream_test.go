package server_test

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

func streamRequest(id, session, command string) string {
	return `{"id":` + id + `,"method":"exec.stream","params":{"session_id":"` + session + `","command":"` + command + `"}}`
}

func TestStreamInOrder(t *testing.T) {
	d := start(t, server.Config{})
	p := d.dial(t)
	const pieces = 60
	p.send(streamRequest("1", "a", "count 60"), streamRequest("2", "b", "count 60"))
	started, seq := map[string]bool{}, map[string]int64{}
	for exits := 0; exits < 2; {
		a := p.answer()
		switch {
		case a.OK != nil:
			started[map[string]string{"1": "x-a", "2": "x-b"}[string(a.ID)]] = *a.OK
		case !started[a.StreamID]:
			t.Fatalf("a push of %s before its answer", a.StreamID)
		default:
			if seq[a.StreamID]++; seq[a.StreamID] != a.Seq {
				t.Fatalf("%s: seq %d, want %d", a.StreamID, a.Seq, seq[a.StreamID])
			}
			if a.Type == api.EventExit {
				exits++
				if a.Seq != pieces+1 {
					t.Errorf("%s: exit has seq %d", a.StreamID, a.Seq)
				}
			}
		}
	}
	receive(t, d.service.closed)
	receive(t, d.service.closed)
	p.ping()
}

// TestTooManyStreams: streams without an end do not take the connection away from the
// requests behind them.
func TestTooManyStreams(t *testing.T) {
	d := start(t, server.Config{MaxInFlight: 64})
	p := d.dial(t)
	for i := range 63 {
		id := strconv.Itoa(i)
		p.send(streamRequest(id, id, "tick"))
		p.expect(`{"id":` + id + `,"ok":true,"data":{"stream_id":"x-` + id + `","exec_id":"x-` + id + `","session_id":"s"}}`)
	}
	p.send(streamRequest("63", "late", "tick"))
	p.expect(`{"id":63,"ok":false,"error":{"code":"RESOURCE_PRESSURE","message":"connection: has 63 streams, which is the limit; open another connection"}}`)
	p.ping()
	d.dial(t).ping()
}

func TestStreamIsPushedAtOnce(t *testing.T) {
	d := start(t, server.Config{})
	p := d.dial(t)
	p.send(streamRequest("1", "a", "tick"))
	p.expect(`{"id":1,"ok":true,"data":{"stream_id":"x-a","exec_id":"x-a","session_id":"s"}}`)
	d.service.ticks <- "hé\n"
	p.expect(`{"stream_id":"x-a","seq":1,"type":"stdout","offset":0,"data":"hé\n"}`)
	p.ping()
	d.service.ticks <- "x"
	p.expect(`{"stream_id":"x-a","seq":2,"type":"stdout","offset":4,"data":"x"}`)
	p.Close()
	if id := receive(t, d.service.closed); id != "x-a" {
		t.Errorf("%s", id)
	}
}

// TestStreamThatBreaks: the client gets the error, for each reason.
func TestStreamThatBreaks(t *testing.T) {
	d := start(t, server.Config{})
	p := d.dial(t)
	for verb, code := range map[string]api.Code{"broken": api.CodeRuntimeUnavailable, "panic": api.CodeInternal} {
		p.send(streamRequest("1", verb, verb))
		p.answer()
		p.answer()
		if a := p.answer(); a.Type != api.EventError || a.Seq != 1 || a.StreamID != "x-"+verb || a.Error == nil || a.Error.Code != code {
			t.Errorf("%s: %+v", verb, a)
		}
		receive(t, d.service.closed)
		p.ping()
	}
}

// TestSlowReaderCostsLittle: pushes are made only as they are taken. A client
// that reads nothing stops its own streams, and no others.
func TestSlowReaderCostsLittle(t *testing.T) {
	d := start(t, server.Config{})
	slow, other := d.dial(t), d.dial(t)
	slow.send(streamRequest("1", "a", "count 100000"))
	waitReadable(t, slow)
	settled := settles(t, d.service.received.Load)
	if bytes := settled * 32 << 10; bytes > 2<<20 {
		t.Errorf("%d bytes were pushed to a client that reads nothing", bytes)
	}
	other.ping()
	// It goes on where it stopped.
	slow.answer()
	for want := int64(1); want < settled+50; want++ {
		if a := slow.answer(); a.Seq != want {
			t.Fatalf("seq %d, want %d", a.Seq, want)
		}
	}
	slow.Close()
	receive(t, d.service.closed)
}

// settles waits until a number does not change any more.
func settles(t *testing.T, number func() int64) int64 {
	t.Helper()
	last, same := int64(-1), 0
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); same < 40; <-tick.C {
		if n := number(); n == last && n > 0 {
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

// TestAnswersThatNobodyReads: no more requests are taken, and everything arrives
// once the client reads.
func TestAnswersThatNobodyReads(t *testing.T) {
	d := start(t, server.Config{MaxUnsentBytes: 1 << 20})
	p := d.dial(t)
	const requests, size = 300, 20000
	go func() {
		for i := range requests {
			if _, err := io.WriteString(p, run(i, "size 20000")+"\n"); err != nil {
				return
			}
			// One after another, so that what is unsent is known before the next is read.
			for d.service.calls.Load() <= int64(i) || d.service.running.Load() > 0 {
				time.Sleep(100 * time.Microsecond)
			}
		}
	}()
	if n := settles(t, d.service.calls.Load); n > requests/2 {
		t.Errorf("%d of %d requests were taken from a client that reads nothing", n, requests)
	}
	seen := map[string]bool{}
	for range requests {
		a := p.answer()
		if len(stdout(t, a)) != size || seen[string(a.ID)] {
			t.Fatalf("id %s", a.ID)
		}
		seen[string(a.ID)] = true
	}
}

func TestClientThatDoesNotReadIsGivenUp(t *testing.T) {
	d := start(t, server.Config{WriteTimeout: 50 * time.Millisecond})
	p, other := d.dial(t), d.dial(t)
	other.ping()
	p.send(run(1, "wait"), run(2, "size 8000000"))
	receive(t, d.service.started)
	testkit.Eventually(t, "no request is running and one connection is open", func() bool { return d.service.running.Load() == 0 && d.Connections() == 1 })
	other.ping()
	rest, _ := io.ReadAll(p)
	if !strings.HasPrefix(string(rest), `{"id":2`) || len(rest) > 4<<20 {
		t.Errorf("%d bytes: %.20q", len(rest), rest)
	}
}
