package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// listen lets the events be kept.
func (d *daemon) listen() { d.news = make(chan struct{}, 1) }

// history waits until an exec has come into a state, and returns all it went through.
func (d *daemon) history(id string, until api.ExecState) (states []string, events []link.ExecEvent) {
	for {
		states, events = nil, nil
		d.mu.Lock()
		for _, e := range d.events {
			if e.ExecID == id {
				states, events = append(states, string(e.State)), append(events, e)
			}
		}
		d.mu.Unlock()
		if n := len(events); n > 0 && events[n-1].State == until {
			return states, events
		}
		<-d.news
	}
}

const wholeLife = "queued running exited closed"

func TestEvents(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	d.listen()
	// The events of a short command have arrived when its answer arrives.
	for i := range 20 {
		e := d.run(fmt.Sprintf("exit %d", i))
		d.mu.Lock()
		n := len(d.events)
		d.mu.Unlock()
		states, events := d.history(e.ExecID, api.ExecClosed)
		if n != 4*(i+1) || strings.Join(states, " ") != wholeLife {
			t.Fatalf("%d events, %v", n, states)
		}
		for j, ev := range events {
			if (ev.Outcome != nil) != (ev.State == api.ExecExited) || ev.At.IsZero() || j > 0 && ev.At.Before(events[j-1].At) {
				t.Errorf("%+v", ev)
			}
		}
		if oc := events[2].Outcome; oc.ExitCode != i || oc.LeftRunning == nil || oc.Killed == nil {
			t.Errorf("%+v", oc)
		}
	}
	// A long command is reported as running before it ends, and a waiting one as queued.
	long, queued, given := d.open("cat"), d.open("cat"), d.open("cat")
	d.history(long.ExecID, api.ExecRunning)
	d.history(queued.ExecID, api.ExecQueued)
	if _, err := d.cancel(api.ExecCancelParams{ExecID: given.ExecID}); err != nil {
		t.Fatal(err)
	}
	if states, events := d.history(given.ExecID, api.ExecClosed); strings.Join(states, " ") != "queued closed" || events[1].Outcome == nil || !events[1].Outcome.Cancelled {
		t.Errorf("%v %+v", states, events)
	}
	d.write(long.ExecID, "", true)
	d.history(queued.ExecID, api.ExecRunning)
	if states, _ := d.history(long.ExecID, api.ExecClosed); strings.Join(states, " ") != wholeLife {
		t.Errorf("%v", states)
	}
	d.write(queued.ExecID, "", true)
	if states, _ := d.history(queued.ExecID, api.ExecClosed); strings.Join(states, " ") != wholeLife {
		t.Errorf("%v", states)
	}
	// A command that leaves a process running is closed when that process ends.
	left := d.run("{ while [ ! -e " + d.dir + "/go ]; do sleep 0.01; done; } & true")
	if states, _ := d.history(left.ExecID, api.ExecExited); strings.Join(states, " ") != "queued running exited" {
		t.Errorf("%v", states)
	}
	if res, _, err := d.readAfter(left.ExecID, d.info(left.ExecID).LastSeq, true); err != nil || res.Outcome == nil {
		t.Errorf("whoever hears of the end does not find it: %+v, %v", res, err)
	}
	touch(t, d.dir+"/go")
	d.history(left.ExecID, api.ExecClosed)
	// A command that cannot be run has no outcome.
	if _, err := d.try(api.ExecParams{Command: "true", WorkingDir: "/nope", Wait: true}); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("%v", err)
	}
	var list api.ExecListResult
	if _, err := d.conn.Call(context.Background(), link.ExecList.With(&struct{}{}, nil, &list)); err != nil {
		t.Fatal(err)
	}
	bad := list.Execs[len(list.Execs)-1].ExecID
	if states, events := d.history(bad, api.ExecClosed); strings.Join(states, " ") != wholeLife || events[2].Outcome != nil {
		t.Errorf("%v %+v", states, events)
	}
}

// TestExitedCanBeRead: a daemon that gets the report of the end can read the outcome.
func TestExitedCanBeRead(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	d.listen()
	for i := range 50 {
		e := d.begin(api.ExecParams{Command: fmt.Sprintf("(exit %d)", i), Wait: true})
		d.history(e.ExecID, api.ExecClosed)
		if in := d.info(e.ExecID); in.Outcome == nil || in.Outcome.ExitCode != i || in.State != api.ExecClosed {
			t.Errorf("%+v", in)
		}
		if res, _, err := d.readAfter(e.ExecID, d.info(e.ExecID).LastSeq, false); err != nil || res.Outcome == nil {
			t.Errorf("%+v, %v", res, err)
		}
	}
}

// TestBriefOutcome: the lists of an event are short, however much was left running.
func TestBriefOutcome(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	d.listen()
	r := d.run("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do sleep 1000 & done")
	if len(r.LeftRunning) < 25 {
		t.Fatalf("%d left running", len(r.LeftRunning))
	}
	_, events := d.history(r.ExecID, api.ExecExited)
	if oc := events[2].Outcome; len(oc.LeftRunning) != 20 || len(oc.Killed) != 0 {
		t.Errorf("%d and %d processes in the event", len(oc.LeftRunning), len(oc.Killed))
	}
	if in := d.info(r.ExecID); len(in.Outcome.LeftRunning) != len(r.LeftRunning) {
		t.Errorf("%d in exec.info", len(in.Outcome.LeftRunning))
	}
}

// TestLiveUsage: a running command shows what it uses, also by its children.
func TestLiveUsage(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	for _, command := range []string{"while :; do :; done", "sh -c 'while :; do :; done'; :", "(sh -c 'while :; do :; done' & wait)"} {
		e := d.begin(api.ExecParams{Command: command})
		if e.QuietMS != nil || e.LastSeq != 0 || e.StdinOpen {
			t.Errorf("%+v", e)
		}
		var in api.ExecInfo
		for in.Usage.UserMS+in.Usage.SystemMS < 30 { // three ticks of the kernel's clock
			if in = d.info(e.ExecID); in.State == api.ExecClosed {
				t.Fatalf("%q has ended: %+v", command, in)
			}
		}
		if in.AgeMS < 20 || in.Outcome != nil {
			t.Errorf("%q: %+v", command, in)
		}
		var list api.ExecListResult
		if _, err := d.conn.Call(context.Background(), link.ExecList.With(&struct{}{}, nil, &list)); err != nil || list.Execs[len(list.Execs)-1].Usage.UserMS == 0 {
			t.Errorf("%+v, %v", list.Execs, err)
		}
		ended, err := d.cancel(api.ExecCancelParams{ExecID: e.ExecID})
		if err != nil || ended.Usage != ended.Outcome.Usage {
			t.Errorf("%+v, %v", ended, err)
		}
	}
	r := d.run("echo out")
	if in := d.info(r.ExecID); in.QuietMS == nil || in.LastSeq != 2 || in.AgeMS < *in.QuietMS {
		t.Errorf("%+v", in)
	}
}

// TestHello: a daemon with an unsupported protocol version gets an error.
func TestHello(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	hello := func(protocol int) (link.HelloResult, error) {
		var res link.HelloResult
		_, err := d.conn.Call(context.Background(), link.Hello.With(&link.HelloParams{Version: "x", Protocol: protocol}, nil, &res))
		return res, err
	}
	for protocol := link.MinProtocol; protocol <= link.Protocol+1; protocol++ {
		if res, err := hello(protocol); err != nil || res.Protocol != min(protocol, link.Protocol) || res.SessionID != d.id || !res.Created {
			t.Errorf("protocol %d: %+v, %v", protocol, res, err)
		}
	}
	for _, protocol := range []int{-1, 0, link.MinProtocol - 1, link.Protocol + 2} {
		want := fmt.Sprintf("runner speaks protocol %d, the daemon %d", link.Protocol, protocol)
		if res, err := hello(protocol); !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("protocol %d: %+v, %v", protocol, res, err)
		}
	}
	if r := d.run("echo fine"); r.stdout != "fine\n" {
		t.Errorf("%q", r.stdout)
	}
}
