package exec_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestSteppedClock sets the clock of a runner while a command is queued or runs. trl ps shows for how long
// the command has run nevertheless. An hour is longer than the test takes, and shorter than the step.
func TestSteppedClock(t *testing.T) {
	for _, when := range []api.ExecState{api.ExecQueued, api.ExecRunning} {
		for _, by := range []time.Duration{7 * time.Hour, -7 * time.Hour} {
			t.Run(string(when)+" "+by.String(), func(t *testing.T) { stepped(t, when, by) })
		}
	}
}

func stepped(t *testing.T, when api.ExecState, by time.Duration) {
	binary, step := trltest.Stepped(t, by)
	d := trltest.Start(t, trltest.Use(binary))
	c, ctx := d.Client(t), t.Context()
	session := testkit.Must(c.SessionCreate(ctx, api.SessionCreateParams{Shell: "sh"}))(t).SessionID
	begin := func() string {
		p := api.ExecParams{SessionID: session, Command: "read x", StdinOpen: true, Wait: true}
		return testkit.Must(c.ExecStart(ctx, p))(t).ExecID
	}
	first, id := begin(), begin()
	info := func() api.ExecInfo { return testkit.Must(c.ExecInfo(ctx, api.ExecInfoParams{ExecID: id}))(t) }
	goOn := func(id string) {
		testkit.Must(c.ExecInput(ctx, api.ExecInputParams{ExecID: id, Data: "go\n"}))(t)
	}
	for _, state := range []api.ExecState{api.ExecQueued, api.ExecRunning} {
		if state == api.ExecRunning {
			goOn(first)
			testkit.Eventually(t, "the command runs", func() bool { return info().State == state })
		}
		if i := info(); i.State != state || (i.RunningMS != nil) != (state == api.ExecRunning) {
			t.Errorf("%s: %+v", state, i)
		}
		if state == when {
			step()
		}
	}
	now := testkit.Must(c.ExecRun(ctx, api.ExecParams{SessionID: session, Argv: []string{"true"}}))(t)
	began := testkit.Must(c.ExecInfo(ctx, api.ExecInfoParams{ExecID: now.ExecID}))(t).QueuedAt
	if ahead := time.Until(began); (ahead - by).Abs() > time.Hour {
		t.Fatalf("the clock was not set: it is %s ahead", ahead)
	}
	out, err := exec.Command(binary, "ps", "--socket", d.Socket).CombinedOutput()
	cells := strings.Split(string(out), "\t")
	if err != nil || len(cells) < 7 || cells[0] != id {
		t.Fatalf("trl ps: %v: %s", err, out)
	}
	if ms, err := strconv.ParseInt(cells[5], 10, 64); err != nil || ms < 0 || ms > time.Hour.Milliseconds() {
		t.Errorf("trl ps: the command has run for %s ms", cells[5])
	}
	if i := info(); i.AgeMS < 0 || i.AgeMS > time.Hour.Milliseconds() {
		t.Errorf("the command was accepted %d ms ago", i.AgeMS)
	}
	goOn(id)
	testkit.Must(c.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{id}}))(t)
	if i := info(); i.RunningMS != nil || i.Outcome == nil || i.Outcome.DurationMS < 0 || i.Outcome.DurationMS > time.Hour.Milliseconds() {
		t.Errorf("at the end: %+v", i)
	}
}
