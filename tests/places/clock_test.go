//go:build linux

package places

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

// clock has sessions in a place whose clock is hours ahead or behind. Times are those of the place; nothing
// ends sooner or later for that.
func (p *place) clock(t *testing.T) {
	for _, shift := range []time.Duration{7 * time.Hour, -7 * time.Hour} {
		t.Run(shift.String(), func(t *testing.T) { p.shifted(t, shift) })
	}
}

// shifted is clock with one shift. An hour is longer than the test takes, and shorter than the shift.
func (p *place) shifted(t *testing.T, shift time.Duration) {
	binary := trltest.Shifted(t, shift)
	daemon := trltest.Start(t, trltest.Use(binary), trltest.Args("--log-level", "warn", "--retention-s", "3600", "--grpc", "127.0.0.1:0"), trltest.Env(p.env...))
	c := daemon.Client(t)
	params := api.SessionCreateParams{Runtime: p.at.Runtime, Place: p.at.Place, Name: "work", LifetimeS: new(3600.0)}
	id := testkit.Must(c.SessionCreate(p.ctx, params))(t).SessionID
	idle := testkit.Must(c.SessionCreate(p.ctx, api.SessionCreateParams{Beside: id, IdleTimeoutS: new(3600.0)}))(t).SessionID
	testkit.Must(c.ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "x=kept"}))(t)
	r := testkit.Must(c.ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "sleep 1000", TimeoutS: new(0.5)}))(t)
	if !r.TimedOut || r.DurationMS > time.Hour.Milliseconds() || r.DurationMS < 500 {
		t.Errorf("a timeout: %+v", r)
	}
	x := testkit.Must(c.ExecStart(p.ctx, api.ExecParams{SessionID: id, Argv: []string{"sh", "-c", "read x; exit 7"}, StdinOpen: true}))(t).ExecID
	for _, next := range []func(){func() { c = daemon.Crash(t, nil) }, nil} {
		info := testkit.Must(c.ExecInfo(p.ctx, api.ExecInfoParams{ExecID: x}))(t)
		if info.StartedAt == nil || (time.Until(*info.StartedAt)-shift).Abs() > time.Hour || info.AgeMS > time.Hour.Milliseconds() {
			t.Errorf("the clock of the place is %s ahead: %+v", shift, info)
		}
		if took := took(t, daemon, binary, x); took < 0 || took > time.Hour {
			t.Errorf("trl ps: the command has run for %s", took)
		}
		for _, id := range []string{id, idle} {
			// The next daemon learns it from the runner.
			testkit.Must(c.ExecRun(p.ctx, api.ExecParams{SessionID: id, Argv: []string{"true"}}))(t)
			s := testkit.Must(c.SessionInfo(p.ctx, api.SessionInfoParams{SessionID: id}))(t)
			if s.EndsInS == nil || *s.EndsInS > 3600 || *s.EndsInS <= 0 {
				t.Errorf("%s ends in %v seconds, because %q", id, s.EndsInS, s.EndsWhy)
			}
			if since := time.Since(s.CreatedAt); since < 0 || since > time.Hour {
				t.Errorf("%s was created %s ago", id, since)
			}
		}
		if next != nil {
			next()
		}
	}
	short := testkit.Must(c.SessionCreate(p.ctx, api.SessionCreateParams{Beside: id, LifetimeS: new(1.0)}))(t).SessionID
	testkit.Must(c.ExecInput(p.ctx, api.ExecInputParams{ExecID: x, Data: "go\n", Close: true}))(t)
	if w := testkit.Must(c.ExecWait(p.ctx, api.ExecWaitParams{ExecIDs: []string{x}}))(t); w.Happened[0].Outcome == nil || w.Happened[0].Outcome.ExitCode != 7 {
		t.Errorf("%+v", w)
	}
	testkit.Eventually(t, "the session with a lifetime of one second has ended", func() bool {
		s := testkit.Must(c.SessionInfo(p.ctx, api.SessionInfoParams{SessionID: short}))(t)
		return s.State == api.SessionTerminated && strings.Contains(s.Cause, "lifetime_s")
	})
	if r := testkit.Must(c.ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "echo $x"}))(t); r.Stdout != "kept\n" {
		t.Errorf("%+v", r)
	}
	for _, id := range []string{idle, id} {
		testkit.Must(c.SessionDestroy(p.ctx, api.SessionDestroyParams{SessionID: id}))(t)
	}
	if out := testkit.Must(c.ExecInfo(p.ctx, api.ExecInfoParams{ExecID: x}))(t); out.Outcome == nil || out.Outcome.ExitCode != 7 {
		t.Errorf("after the end of the session: %+v", out)
	}
}

// took returns for how long a command has run, as trl ps prints it.
func took(t *testing.T, daemon *trltest.Daemon, binary, id string) time.Duration {
	t.Helper()
	out, err := exec.Command(binary, "ps", "--socket", daemon.Socket).CombinedOutput()
	if err != nil {
		t.Fatalf("trl ps: %v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		const column = 5
		if cells := strings.Split(line, "\t"); cells[0] == id && len(cells) > column {
			return time.Duration(testkit.Must(strconv.ParseInt(cells[column], 10, 64))(t)) * time.Millisecond
		}
	}
	t.Fatalf("trl ps does not list %s: %s", id, out)
	return 0
}
