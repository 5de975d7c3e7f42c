package link_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type params struct{ N int }

// call makes a call that is not in the table.
func call(name string, params any, body []byte, result any) link.Outgoing {
	return link.Outgoing{Row: &link.Row{Name: name}, Params: params, Body: body, Result: result}
}

// peer answers "double", "wait" and "run", and keeps the events it saw.
type peer struct {
	mu     sync.Mutex
	events []string
	begun  chan struct{} // a "wait" is under way
	causes chan error    // of contexts that ended in "wait"
	after  atomic.Int64
}

func newPeer() *peer {
	return &peer{begun: make(chan struct{}, 8), causes: make(chan error, 8)}
}

func (p *peer) Handle(ctx context.Context, q *link.Incoming) error {
	if q.Name == "run" {
		var id string
		if err := json.Unmarshal(q.Params, &id); err != nil {
			return err
		}
		q.Answer(runResult(id), nil)
		return nil
	}
	var in params
	if err := json.Unmarshal(q.Params, &in); err != nil {
		return err
	}
	switch q.Name {
	case "double":
		q.Answer(params{2 * in.N}, append(q.Body, q.Body...))
		p.after.Add(1)
		return nil
	case "wait":
		p.begun <- struct{}{}
		<-ctx.Done()
		p.causes <- context.Cause(ctx)
		return ctx.Err()
	}
	return api.Errorf(api.CodeSessionBusy, "no %s", q.Name)
}

func (p *peer) Event(name string, _ json.RawMessage, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, name+string(body))
}

func connect(t *testing.T) (a, b *link.Conn, pa, pb *peer) {
	a, b, pa, pb, stop := open(t)
	t.Cleanup(stop)
	return a, b, pa, pb
}

// open connects two ends; stop closes them and waits until nothing of them runs.
func open(t *testing.T) (a, b *link.Conn, pa, pb *peer, stop func()) {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c1, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c2, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	a, b = link.NewConn(c1), link.NewConn(c2)
	pa, pb = newPeer(), newPeer()
	var wg sync.WaitGroup
	wg.Go(func() { a.Serve(pa) })
	wg.Go(func() { b.Serve(pb) })
	return a, b, pa, pb, func() {
		a.Close()
		b.Close()
		wg.Wait()
	}
}

// TestCalls: many calls in both directions at once find their own answers, with
// bodies of every size.
func TestCalls(t *testing.T) {
	a, b, _, pb, stop := open(t)
	var wg sync.WaitGroup
	for i := range 200 {
		for _, c := range []*link.Conn{a, b} {
			wg.Go(func() {
				body := bytes.Repeat([]byte{byte(i), 0, 0xff}, i*i)
				var out params
				got, err := c.Call(context.Background(), call("double", params{i}, body, &out))
				if err != nil || out.N != 2*i || !bytes.Equal(got, append(body, body...)) {
					t.Errorf("call %d: %v, %d, %d bytes", i, err, out.N, len(got))
				}
			})
		}
	}
	wg.Wait()
	stop()
	if n := pb.after.Load(); n != 200 {
		t.Errorf("%d of 200 answers were followed by what was to be done then", n)
	}
}

func TestErrorsKeepTheirCode(t *testing.T) {
	a, _, _, _ := connect(t)
	_, err := a.Call(context.Background(), call("nope", params{}, nil, &params{}))
	if !errors.Is(err, api.ErrSessionBusy) || err.Error() != "no nope" {
		t.Errorf("%v", err)
	}
	_, err = a.Call(context.Background(), call("double", "not an object", nil, &params{}))
	if api.AsError(err).Code != api.CodeInternal {
		t.Errorf("%v", err)
	}
}

// TestCancel: the runner can distinguish a caller that leaves from a link that is lost.
func TestCancel(t *testing.T) {
	a, b, _, pb := connect(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := a.Call(ctx, call("wait", params{}, nil, &params{}))
		done <- err
	}()
	<-pb.begun // a call that is cancelled before does not begin
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if cause := <-pb.causes; errors.Is(cause, link.ErrLost) {
		t.Errorf("cause %v", cause)
	}
	go func() {
		_, err := a.Call(context.Background(), call("wait", params{}, nil, &params{}))
		done <- err
	}()
	<-pb.begun
	b.Close()
	if cause := <-pb.causes; !errors.Is(cause, link.ErrLost) {
		t.Errorf("cause %v", cause)
	}
	if err := <-done; !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("%v", err)
	}
	if _, err := a.Call(context.Background(), call("double", params{}, nil, &params{})); !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("call on a closed link: %v", err)
	}
}

// TestEventsComeFirst: an event that was sent before an answer is seen before it.
func TestEventsComeFirst(t *testing.T) {
	a, b, pa, _ := connect(t)
	for i := range 100 {
		later := i%2 == 0
		if later {
			if err := b.NotifyLater(fmt.Sprint(i), params{i}); err != nil {
				t.Fatal(err)
			}
		} else if err := b.Notify(fmt.Sprint(i), params{i}, []byte("!")); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Call(context.Background(), call("double", params{i}, nil, &params{})); err != nil {
			t.Fatal(err)
		}
		pa.mu.Lock()
		if len(pa.events) != i+1 {
			t.Fatalf("%d events after %d", len(pa.events), i+1)
		}
		pa.mu.Unlock()
	}
}

// TestExecEvents: what is written by hand is what json would write.
func TestExecEvents(t *testing.T) {
	c, end := net.Pipe()
	conn := link.NewConn(c)
	at := time.Date(2026, 11, 14, 12, 0, 0, 123456789, time.UTC)
	events := []link.ExecEvent{
		{ExecID: "x-3f9a1c-1", State: api.ExecRunning, At: at},
		{ExecID: "x-1", State: api.ExecClosed, At: at.Truncate(time.Second)},
		{ExecID: "x-\"\\<é\n", State: api.ExecQueued, At: at},
		{ExecID: "x-2", State: api.ExecExited, At: at, Outcome: &api.ExecOutcome{ExitCode: 3}},
	}
	for _, e := range events {
		if err := conn.NotifyLater(link.EventExec, e); err != nil {
			t.Fatal(err)
		}
	}
	flushed := make(chan error)
	go func() { flushed <- conn.Flush() }()
	for _, e := range events {
		want, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		f, err := link.ReadFrame(end)
		if err != nil || f.Kind != link.KindEvent || f.Name != link.EventExec || !bytes.Equal(f.Header, want) {
			t.Errorf("%+v %s, %v, want %s", f, f.Header, err, want)
		}
		if got, err := link.DecodeExecEvent(f.Header); err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%s decoded: %+v, %v", f.Header, got, err)
		}
	}
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	if err := conn.Flush(); err != nil { // there is nothing to send, and no reader
		t.Error(err)
	}
	conn.Close()
	end.Close()
}

// TestRunResult: the result of a command is what json would write.
func TestRunResult(t *testing.T) {
	a, _, _, _ := connect(t)
	for _, id := range []string{"x-3f9a1c-1", "x-\"\\<é\n"} {
		want, err := json.Marshal(runResult(id))
		if err != nil {
			t.Fatal(err)
		}
		var got json.RawMessage
		if _, err := a.Call(context.Background(), call("run", id, nil, &got)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

func runResult(id string) *link.RunResult {
	return &link.RunResult{ExecID: id, StdoutLen: 7, ExecOutcome: api.ExecOutcome{
		ExitCode: 137, Signal: "SIGKILL", Killed: []api.KilledProcess{{PID: 3, Command: "<a>", Signal: "SIGKILL"}}, OOM: &api.OOMKill{PID: 3, Command: "é"},
	}}
}

// FuzzDecodeExecEvent: the shorter way reads what json reads.
func FuzzDecodeExecEvent(f *testing.F) {
	for _, text := range []string{
		`{"exec_id":"x-1-2","state":"closed","at":"2026-11-14T12:00:00.123456789Z"}`,
		`{"exec_id":"x-1-2","state":"closed","at":"2026-11-14T12:00:00+01:00"}`,
		`{"exec_id":"x-1","state":"exited","at":"2026-11-14T12:00:00Z","outcome":{"signal":"x"}}`,
		`{"exec_id":"x\u002d1","state":"exited","at":"2026-11-14T12:00:00Z"}`,
		`{"exec_id":"x-1","state":"exited","at":"noon"}`,
		`{"state":"queued"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want link.ExecEvent
		if json.Unmarshal([]byte(text), &want) != nil {
			return
		}
		if got, err := link.DecodeExecEvent([]byte(text)); err != nil || !got.At.Equal(want.At) || got.ExecID != want.ExecID || got.State != want.State || (got.Outcome == nil) != (want.Outcome == nil) {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	})
}

func TestTooLarge(t *testing.T) {
	a, _, _, _ := connect(t)
	_, err := a.Call(context.Background(), call("double", params{}, make([]byte, link.MaxFrame), &params{}))
	if api.AsError(err).Code != api.CodeRequestTooLarge {
		t.Errorf("%v", err)
	}
	if _, err := a.Call(context.Background(), call("double", params{1}, nil, &params{})); err != nil {
		t.Errorf("the link did not survive: %v", err)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 10, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 15, 1, 0, 0, 0, 1, 1, 0, 0, 0, 2, 'x', '{', '}', 'b', 'b'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x0f, 0xff, 0xff, 0xff, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			before := r.Len()
			frame, err := link.ReadFrame(r)
			if err != nil {
				if errors.Is(err, io.EOF) && before != 0 {
					t.Fatalf("end of file inside a frame")
				}
				return
			}
			if got := 14 + len(frame.Name) + len(frame.Header) + len(frame.Body); got != before-r.Len() {
				t.Fatalf("%d bytes taken for a frame of %d", before-r.Len(), got)
			}
		}
	})
}

// TestReleasedBodies: a body that was given back is used for another, and no other is.
func TestReleasedBodies(t *testing.T) {
	a, _, _, _ := connect(t)
	var calls sync.WaitGroup
	for n := range 4 {
		calls.Go(func() {
			var kept [][]byte
			for i := range 50 {
				mark := byte(n*50 + i)
				body, err := a.Call(context.Background(), call("double", params{i}, bytes.Repeat([]byte{mark}, 20<<10+i*1000), &params{}))
				if err != nil || len(body) != 2*(20<<10+i*1000) {
					t.Errorf("%d bytes, %v", len(body), err)
					return
				}
				if i%2 == 0 {
					kept = append(kept, body)
				} else {
					link.Release(body)
				}
				for j, b := range kept {
					if want := byte(n*50 + 2*j); bytes.Count(b, []byte{want}) != len(b) {
						t.Errorf("body %d was overwritten", 2*j)
						return
					}
				}
			}
		})
	}
	calls.Wait()
	link.Release(nil)
}
