package runner_test

import (
	"context"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

func TestProgramEnds(t *testing.T) {
	for _, c := range []struct {
		script         string
		code           int
		signal         string
		stdout, stderr string
		cause          string
	}{
		{"exit 0", 0, "", "", "", "the program exited with status 0"},
		{"echo out; echo err >&2; exit 3", 3, "", "out\n", "err\n", "the program exited with status 3"},
		{"kill -9 $$", 137, "SIGKILL", "", "", "the program died of SIGKILL"},
		{"printf x; kill -TERM $$", 143, "SIGTERM", "x", "", "the program died of SIGTERM"},
		{"exec >&- 2>&-; exit 4", 4, "", "", "", "the program exited with status 4"},
		{"exec <&-; echo $TERM; echo $PWD; exit 5", 5, "", "dumb\n/tmp\n", "", "the program exited with status 5"},
	} {
		p := script(c.script)
		p.WorkingDir = "/tmp"
		d := start(t, p)
		end := d.terminated()
		if end.ExitCode == nil || *end.ExitCode != c.code || end.Signal != c.signal || end.Cause != c.cause {
			t.Errorf("%q: %s", c.script, text(end))
		}
		x := d.info(d.one())
		if x.Outcome.ExitCode != c.code || x.Outcome.Signal != c.signal || x.StdoutBytes != int64(len(c.stdout)) || x.StderrBytes != int64(len(c.stderr)) {
			t.Errorf("%q: %s", c.script, text(x))
		}
		for stream, want := range map[string]string{"stdout": c.stdout, "stderr": c.stderr} {
			var r link.OutputResult
			body, err := d.conn.Call(context.Background(), link.ExecOutput.With(&link.OutputParams{ExecID: d.one(), Stream: stream, Limit: 100, Wait: true}, nil, &r))
			if err != nil || string(body) != want || !r.Complete {
				t.Errorf("%q: %s is %q, %+v, %v", c.script, stream, body, r, err)
			}
		}
	}
}

// What a program leaves running ends with the session, politely at first.
func TestProgramLeavesProcesses(t *testing.T) {
	d := start(t, script(`setsid sleep 1231 & nohup sleep 1232 >/dev/null 2>&1 &
		sh -c 'trap "echo bye; exit" TERM; echo up; while :; do sleep 0.01; done' & read x; exit 7`))
	d.read(d.one(), running)
	if det := d.details(); len(det.Processes) < 3 {
		t.Errorf("%s", text(det.Processes))
	}
	if _, err := d.typed(link.SessionInputParams{Close: true}, "go\n"); err != nil {
		t.Fatal(err)
	}
	out, oc := d.read(d.one(), nil)
	if !strings.Contains(out, "bye\n") || oc.ExitCode != 7 || len(oc.LeftRunning) != 0 || oc.Cancelled {
		t.Errorf("%q, %s", out, text(oc))
	}
	list := text(oc.Killed)
	for _, want := range []string{"sleep 1231", "sleep 1232", "trap"} {
		if !strings.Contains(list, want) {
			t.Errorf("%s is not among %s", want, list)
		}
	}
	for _, k := range oc.Killed {
		if alive(k.PID) {
			t.Errorf("%+v lives", k)
		}
	}
	if end := d.terminated(); *end.ExitCode != 7 {
		t.Errorf("%s", text(end))
	}
	res, _ := d.destroyAndFetch()
	if len(res.Killed) < 3 {
		t.Errorf("the receipt: %s", text(res.Killed))
	}
	d.safe()
}

// A program does not block when its output has no reader.
func TestProgramFloods(t *testing.T) {
	d := start(t, script("head -c 50000000 /dev/zero; head -c 30000000 /dev/zero >&2; echo; echo end >&2"))
	end := d.terminated()
	x := d.info(d.one())
	if x.StdoutBytes != 50_000_001 || x.StderrBytes != 30_000_004 || !x.Outcome.StdoutTruncated || !x.Outcome.StderrTruncated {
		t.Errorf("%s", text(x))
	}
	if end.OutputBytes > 12<<20 {
		t.Errorf("%d bytes are kept", end.OutputBytes)
	}
}

// Destroy asks, waits for the grace time, and kills; by force it kills at once.
func TestProgramDestroyed(t *testing.T) {
	was := limits
	defer func() { limits = was }()
	const stubborn = "trap '' TERM HUP; sleep 1000 & echo up; while :; do wait; done"
	for _, c := range []struct {
		script string
		force  bool
		grace  float64
		signal string // the last one it took
	}{
		{"echo up; sleep 1000 & wait", false, 30, "SIGTERM"},
		{"trap 'exit 9' TERM; echo up; sleep 1000 & wait", false, 30, "SIGTERM"},
		{"trap '' TERM; echo up; sleep 1000 & wait", false, 30, "SIGHUP"}, // as interactive shells do
		{stubborn, false, 0.1, "SIGKILL"},
		{stubborn, true, 30, "SIGKILL"},
	} {
		limits.KillGraceS = c.grace
		d := start(t, script(c.script))
		d.read(d.one(), running)
		pid := d.details().ShellPID
		var res link.DestroyResult
		if _, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Force: c.force, Cause: "test"}, nil, &res)); err != nil {
			t.Fatal(err)
		}
		if err := d.cmd.Wait(); err != nil {
			t.Errorf("the runner ended with %v", err)
		}
		info := res.Info
		if info.State != api.SessionTerminated || info.Cause != "test" || info.Signal != c.signal || info.ExitCode == nil || *info.ExitCode != api.ExitCancelled || info.ExecID != d.one() {
			t.Errorf("%q: %s", c.script, text(info))
		}
		if len(res.Execs) != 1 || !res.Execs[0].Outcome.Cancelled || res.Execs[0].State != api.ExecClosed || res.Execs[0].Outcome.ExitCode != api.ExitCancelled {
			t.Errorf("%q: %s", c.script, text(res.Execs))
		}
		for _, k := range res.Killed {
			if k.PID == pid || alive(k.PID) {
				t.Errorf("%q: %+v", c.script, k)
			}
		}
		if alive(pid) || exists(d.dir) {
			t.Errorf("%q: something is left", c.script)
		}
	}
}

// A forced destroy overtakes one that waits.
func TestProgramForced(t *testing.T) {
	was := limits
	defer func() { limits = was }()
	limits.KillGraceS = 1000
	d := start(t, script("trap '' TERM HUP; echo up; while :; do sleep 1; done"))
	d.read(d.one(), running)
	cancelled := make(chan struct{})
	go func() {
		defer close(cancelled)
		_, _ = d.cancel(api.ExecCancelParams{ExecID: d.one()})
	}()
	type answer struct {
		link.DestroyResult
		err error
	}
	answers := make(chan answer)
	for _, force := range []bool{false, true} {
		go func() {
			var a answer
			_, a.err = d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Cause: "test", Force: force}, nil, &a.DestroyResult))
			answers <- a
		}()
	}
	// The runner ends when one of them has its answer.
	first, second := <-answers, <-answers
	if first.err != nil {
		first = second
	}
	if first.err != nil || first.Info.Signal != "SIGKILL" || !first.Execs[0].Outcome.Cancelled {
		t.Errorf("%s, %v", text(first.DestroyResult), first.err)
	}
	<-cancelled
	_ = d.cmd.Wait()
}
