package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// TestStateMoves looks at every pair of states.
func TestStateMoves(t *testing.T) {
	const legal = `
		 -> connecting
		connecting -> connected
		connecting -> failed
		connected -> reconnecting
		connected -> failed
		reconnecting -> reconnected
		reconnecting -> failed
		reconnected -> reconnecting
		reconnected -> failed
		failed -> connecting
		failed -> reconnecting
	`
	allowed := map[string]bool{}
	for line := range strings.Lines(legal) {
		allowed[strings.Trim(line, "\t\n")] = true
	}
	states := []client.State{"", client.StateConnecting, client.StateConnected, client.StateReconnecting, client.StateReconnected, client.StateFailed}
	for _, from := range states {
		for _, to := range states {
			if got := from.CanBecome(to); got != allowed[fmt.Sprintf("%s -> %s", from, to)] {
				t.Errorf("%q to %q: %v", from, to, got)
			}
		}
	}
}

// TestFailures: what is tried again, and what is not.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		err    error
		reason client.Reason // "" for another try
	}{
		{client.Lost(api.Errorf(api.CodeRuntimeUnavailable, "daemon: connection lost: EOF")), ""},
		{client.Lost(api.Errorf(api.CodeResourcePressure, "connection: max_connections (1) reached")), ""},
		{api.ErrDaemonStarting, ""},
		{api.ErrDaemonEnding, ""},
		{api.Errorf(api.CodeRuntimeUnavailable, "session: the runner does not answer"), ""},
		{api.Errorf(api.CodeResourcePressure, "too much"), ""},
		{api.ErrSessionNotFound, client.ReasonSessionGone},
		{api.ErrExecNotFound, client.ReasonSessionGone},
		{api.ErrSessionTerminated, client.ReasonSessionGone},
		{api.Errorf(api.CodeAuthFailed, "token: is wrong"), client.ReasonAuthRejected},
		{api.Errorf(api.CodeForbidden, "needs a token of scope full"), client.ReasonAuthRejected},
		{fmt.Errorf("%w: x509: expired", api.Errorf(api.CodeAuthFailed, "daemon: is not trusted")), client.ReasonAuthRejected},
		{api.ErrInvalidParams, client.ReasonRefused},
		{api.Errorf(api.CodeInternal, "a fault"), client.ReasonRefused},
		{errors.New("anything"), client.ReasonRefused},
		{client.ErrClosed, client.ReasonUnreachable},
	} {
		if reason, again := client.FailureOf(c.err); reason != c.reason || again != (c.reason == "") {
			t.Errorf("%v: %q, %v", c.err, reason, again)
		}
	}
}

// TestBackoff: pauses grow to their bound, differ from client to client, and end.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, most, giveUp = 100 * time.Millisecond, 2 * time.Second, 30 * time.Second
		seen := map[time.Duration]bool{}
		for range 20 {
			began := time.Now()
			wait, over := client.Pace(client.Backoff{First: first, Most: most, GiveUp: giveUp})
			for want := first; ; want = min(2*want, most) {
				now := time.Now()
				if !wait(context.Background()) {
					break
				}
				pause := time.Since(now)
				if pause < want/2 || pause > want {
					t.Fatalf("a pause of %s, want %s to %s", pause, want/2, want)
				}
				seen[pause] = true
			}
			if took := time.Since(began); took < giveUp || took > giveUp+most {
				t.Errorf("given up after %s", took)
			}
			over()
			if !wait(context.Background()) {
				t.Error("the next loss is not given a try")
			}
		}
		if len(seen) < 100 {
			t.Errorf("only %d different pauses", len(seen))
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if wait, _ := client.Pace(client.Backoff{First: time.Hour, Most: time.Hour, GiveUp: -1}); wait(ctx) {
			t.Error("waited after the end")
		}
	})
}

// TestRemoteOverASocket: a RemoteSession works with any Client. The daemon goes away at
// every step.
func TestRemoteOverASocket(t *testing.T) {
	const answer = `{"id":"1","ok":true,"data":{"stream_id":"x-1/1","exec_id":"x-1","session_id":"s-1"}}` + "\n"
	event := func(seq, offset int, data string) string {
		return fmt.Sprintf(`{"stream_id":"x-1/1","seq":%d,"type":"stdout","offset":%d,"data":%q}`+"\n", seq, offset, data)
	}
	asked := make(chan string, 10)
	path := sayInTurn(t, asked,
		answer+event(1, 0, "abc"),
		answer+event(2, 2, "cd")+`{"stream_id":"x-1/1","seq":3,"type":"gap","stream":"stdout","from":1,"to":8}`+"\n", // begins with what is there
		"",
		answer+event(4, 5, "no")+event(5, 7, "xyz")+`{"stream_id":"x-1/1","seq":6,"type":"error","error":{"code":"RUNTIME_UNAVAILABLE","message":"gone","details":{"reason":"stopping"}}}`+"\n",
		answer+`{"stream_id":"x-1/1","seq":7,"type":"exit","exit_code":3}`+"\n",
	)
	c, err := client.Dial(timeout(t), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var states []string
	r, err := client.OpenRemote(timeout(t), c, "name", client.RemoteOptions{ExecID: "x-1", Backoff: client.Backoff{First: time.Millisecond},
		OnState: func(c client.StateChange) { states = append(states, string(c.State)) }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	for {
		p, err := r.Recv(timeout(t))
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch p.Type {
		case api.EventGap:
			got = append(got, fmt.Sprintf("gap %d-%d", *p.Event.From, *p.Event.To))
		case api.EventExit:
			got = append(got, fmt.Sprintf("exit %d", p.Event.ExitCode))
		default:
			got = append(got, fmt.Sprintf("%d %s", p.Offset, p.Data))
		}
	}
	if s := strings.Join(got, ", "); s != "0 abc, 3 d, gap 4-8, 8 yz, exit 3" {
		t.Errorf("%s", s)
	}
	r.Close() // OnState is not called any more
	if s := strings.Join(states, " "); s != "connecting connected reconnecting reconnected reconnecting reconnected reconnecting reconnected" {
		t.Errorf("%s", s)
	}
	if id, exec := r.IDs(); id != "s-1" || exec != "x-1" {
		t.Errorf("%s, %s", id, exec)
	}
	for _, after := range []string{"", `"after_seq":1`, `"after_seq":3`, `"after_seq":3`, `"after_seq":5`} {
		if line := <-asked; !strings.Contains(line, `"exec_id":"x-1"`) || !strings.Contains(line, after) || after == "" && strings.Contains(line, "after_seq") {
			t.Errorf("%s, want %s", line, after)
		}
	}
}

// sayInTurn is a daemon that takes one request of each connection, answers with the next text, and
// closes the connection.
func sayInTurn(t *testing.T, asked chan<- string, texts ...string) (path string) {
	t.Helper()
	ln, path := listen(t)
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { ln.Close() })
	next := make(chan string, len(texts))
	for _, text := range texts {
		next <- text
	}
	serving.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer nc.Close()
				line, err := bufio.NewReader(nc).ReadString('\n')
				if err != nil {
					return // the connection for calls
				}
				asked <- line
				_, _ = io.WriteString(nc, <-next)
			})
		}
	})
	return path
}
