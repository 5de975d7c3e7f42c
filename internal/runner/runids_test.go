package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// TestDrop: the command of a caller that has disconnected ends, whether it runs, is queued or has not
// arrived yet.
func TestDrop(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	drop := func(runID string) {
		t.Helper()
		if _, err := d.conn.Call(context.Background(), link.ExecDrop.With(&link.DropParams{RunID: runID}, nil, &struct{}{})); err != nil {
			t.Fatal(err)
		}
	}
	runs := d.begin(api.ExecParams{Command: "echo up; sleep 100", RunID: "runs"})
	waits := d.begin(api.ExecParams{Command: "touch " + d.dir + "/waited", Wait: true, RunID: "waits"})
	d.read(runs.ExecID, running)
	for _, runID := range []string{"waits", "runs", "late"} {
		drop(runID)
	}
	for _, id := range []string{runs.ExecID, waits.ExecID} {
		if _, oc := d.read(id, nil); oc == nil || !oc.Cancelled {
			t.Errorf("%s: %+v", id, oc)
		}
	}
	if _, err := d.try(api.ExecParams{Command: "touch " + d.dir + "/late", RunID: "late"}); !errors.Is(err, api.ErrExecNotFound) {
		t.Errorf("a request that was dropped: %v", err)
	}
	drop("runs") // has ended
	if d.run("echo next").stdout != "next\n" || exists(d.dir+"/waited") || exists(d.dir+"/late") {
		t.Error("a command ran although it was dropped")
	}
}
