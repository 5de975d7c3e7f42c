package runner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// A session that is destroyed names everything that was signalled, in the command that
// ran and beside it. The commands say why they were cancelled.
func TestDestroyTells(t *testing.T) {
	shells(t, func(t *testing.T, sh string) {
		d := start(t, api.SessionCreateParams{Shell: sh})
		d.run("sleep 31.1 &")
		first := d.begin(api.ExecParams{Command: "echo up; sleep 31.2"})
		for !strings.Contains(fmt.Sprint(d.details().Processes), "sleep 31.2") {
		}
		second := d.begin(api.ExecParams{Command: "true", Wait: true})
		var res link.DestroyResult
		if _, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Cause: "lifetime_s is over"}, nil, &res)); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"sleep 31.1", "sleep 31.2"} {
			if n := strings.Count(fmt.Sprint(res.Killed), want); n != 1 {
				t.Errorf("%s is %d times in %v", want, n, res.Killed)
			}
		}
		causes := map[string]string{}
		for _, e := range res.Execs {
			if e.Outcome != nil {
				causes[e.ExecID] = e.Outcome.CancelCause
			}
		}
		for _, id := range []string{first.ExecID, second.ExecID} {
			if causes[id] != "its session ended: lifetime_s is over" {
				t.Errorf("%s: %q", id, causes[id])
			}
		}
	})
}

// TestCancelCause: after exec.cancel the outcome has no cause, because the caller knows it; after the loss
// of the caller the outcome has one, for other readers.
func TestCancelCause(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	asked := d.begin(api.ExecParams{Command: "echo up; sleep 31.3"})
	d.read(asked.ExecID, running)
	if info, err := d.cancel(api.ExecCancelParams{ExecID: asked.ExecID}); err != nil || info.Outcome == nil || !info.Outcome.Cancelled || info.Outcome.CancelCause != "" {
		t.Errorf("exec.cancel: %+v, %v", info, err)
	}
	ctx, leave := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = d.conn.Call(ctx, link.ExecRun.With(&link.ExecParams{ExecParams: api.ExecParams{SessionID: d.id, Command: "echo up; sleep 31.4"}}, nil, &link.RunResult{}))
	}()
	id := strings.TrimSuffix(asked.ExecID, "-1") + "-2"
	for d.details().ExecID != id {
	}
	d.read(id, running)
	leave()
	<-gone
	if _, oc := d.read(id, nil); !oc.Cancelled || oc.CancelCause != "its caller disconnected" {
		t.Errorf("%+v", oc)
	}
	stream := d.begin(api.ExecParams{Command: "echo up; sleep 31.5"}) // whose connection the daemon has lost
	d.read(stream.ExecID, running)
	params := &link.CancelParams{ExecCancelParams: api.ExecCancelParams{ExecID: stream.ExecID}, Gone: true}
	var info api.ExecInfo
	if _, err := d.conn.Call(context.Background(), link.ExecCancel.With(params, nil, &info)); err != nil || info.Outcome == nil || info.Outcome.CancelCause != "its caller disconnected" {
		t.Errorf("stream: %+v, %v", info, err)
	}
}
