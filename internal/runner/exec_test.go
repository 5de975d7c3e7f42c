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

func ptr[T any](v T) *T { return &v }

// begin starts a command and returns without waiting for it.
func (d *daemon) begin(p api.ExecParams) api.ExecInfo {
	d.t.Helper()
	p.SessionID = d.id
	var info api.ExecInfo
	if _, err := d.conn.Call(context.Background(), link.ExecStart.With(&link.ExecParams{ExecParams: p}, nil, &info)); err != nil {
		d.t.Fatalf("start %q: %v", p.Command, err)
	}
	return info
}

// read pulls the log from the beginning until the exit, or until enough returns true.
func (d *daemon) read(id string, enough func(out string) bool) (string, *api.ExecOutcome) {
	d.t.Helper()
	var out strings.Builder
	after := int64(0)
	for {
		var res link.ReadResult
		body, err := d.conn.Call(context.Background(), link.ExecRead.With(&link.ReadParams{ExecID: id, AfterSeq: after, Limit: 64 << 10, Wait: true}, nil, &res))
		if err != nil {
			d.t.Fatalf("read %s: %v", id, err)
		}
		for _, c := range res.Chunks {
			if c.Seq <= after {
				d.t.Fatalf("seq %d after %d", c.Seq, after)
			}
			after = c.Seq
			out.Write(body[:c.Len])
			body = body[c.Len:]
		}
		if res.Outcome != nil || (enough != nil && enough(out.String())) {
			return out.String(), res.Outcome
		}
	}
}

func (d *daemon) info(id string) api.ExecInfo {
	d.t.Helper()
	var info api.ExecInfo
	if _, err := d.conn.Call(context.Background(), link.ExecInfo.With(&api.ExecInfoParams{ExecID: id}, nil, &info)); err != nil {
		d.t.Fatal(err)
	}
	return info
}

func (d *daemon) details() api.SessionDetails {
	d.t.Helper()
	var det link.SessionDetails
	if _, err := d.conn.Call(context.Background(), link.Info.With(&struct{}{}, nil, &det)); err != nil {
		d.t.Fatal(err)
	}
	return det.SessionDetails
}

// cancel ends a command and returns what became of it.
func (d *daemon) cancel(p api.ExecCancelParams) (api.ExecInfo, error) {
	var info api.ExecInfo
	_, err := d.conn.Call(context.Background(), link.ExecCancel.With(&link.CancelParams{ExecCancelParams: p}, nil, &info))
	return info, err
}

func running(out string) bool { return strings.Contains(out, "up\n") }

func TestBusyAndQueue(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh", Name: "build"})
	first := d.begin(api.ExecParams{Command: "echo up; read x </dev/zero 2>/dev/null; sleep 100"})
	d.read(first.ExecID, running)
	if st := d.details(); st.State != api.SessionRunning || st.ExecID != first.ExecID {
		t.Errorf("%+v", st)
	}
	if _, err := d.try(api.ExecParams{Command: "true"}); !errors.Is(err, api.ErrSessionBusy) || !strings.Contains(err.Error(), `session "build": runs `+first.ExecID) {
		t.Errorf("a second command: %v", err)
	}
	var queued []api.ExecInfo
	for i := range limits.MaxQueued {
		queued = append(queued, d.begin(api.ExecParams{Command: fmt.Sprintf("A=${A}%d", i), Wait: true}))
	}
	if _, err := d.try(api.ExecParams{Command: "true", Wait: true}); !errors.Is(err, api.ErrSessionBusy) || !strings.Contains(err.Error(), `session "build": `) {
		t.Errorf("one too many in the queue: %v", err)
	}
	// Cancelling a queued command removes it without running it.
	given, err := d.cancel(api.ExecCancelParams{ExecID: queued[3].ExecID})
	if err != nil || given.State != api.ExecClosed || given.Outcome == nil || !given.Outcome.Cancelled || given.Outcome.ExitCode != api.ExitCancelled || given.StartedAt != nil {
		t.Errorf("%+v, %v", given, err)
	}
	if st := d.details(); st.Queued != limits.MaxQueued-1 {
		t.Errorf("%d queued", st.Queued)
	}
	ended, err := d.cancel(api.ExecCancelParams{SessionID: d.id})
	if err != nil || ended.ExecID != first.ExecID || !ended.Outcome.Cancelled || ended.Outcome.ExitCode != api.ExitCancelled {
		t.Errorf("%+v, %v", ended, err)
	}
	r, err := d.try(api.ExecParams{Command: "echo $A", Wait: true})
	if err != nil || r.stdout != "0124567\n" {
		t.Errorf("the queue ran as %q, %v", r.stdout, err)
	}
	if st := d.details(); st.State != api.SessionIdle || st.Queued != 0 {
		t.Errorf("%+v", st)
	}
	if _, err := d.cancel(api.ExecCancelParams{SessionID: d.id}); !errors.Is(err, api.ErrExecNotFound) {
		t.Errorf("cancel with nothing running: %v", err)
	}
	if _, err := d.cancel(api.ExecCancelParams{ExecID: first.ExecID, Signal: "SIGNOPE"}); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("cancel with a strange signal: %v", err)
	}
}

// TestCallerLeaves: a caller that gives up its exec.run takes the command with
// it, unless it was detached; a daemon that dies does not.
func TestCallerLeaves(t *testing.T) {
	for _, detach := range []bool{false, true} {
		d := start(t, api.SessionCreateParams{Shell: "sh"})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() {
			p := link.ExecParams{ExecParams: api.ExecParams{Command: "sleep 100 & echo up; wait", Detach: &detach}}
			_, err := d.conn.Call(ctx, link.ExecRun.With(&p, nil, &link.RunResult{}))
			done <- err
		}()
		id := "x-" + strings.TrimPrefix(d.id, "s-") + "-1"
		for { // until the command is accepted; its output says that it runs
			if _, err := d.cancel(api.ExecCancelParams{ExecID: id, Signal: "?"}); errors.Is(err, api.ErrInvalidParams) {
				var info api.ExecInfo
				if _, err := d.conn.Call(context.Background(), link.ExecInfo.With(&api.ExecInfoParams{ExecID: id}, nil, &info)); err == nil {
					break
				}
			}
		}
		d.read(id, running)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if !detach {
			if _, oc := d.read(id, nil); !oc.Cancelled || len(oc.Killed) == 0 {
				t.Errorf("%+v", oc)
			}
			continue
		}
		if in := d.info(id); in.State != api.ExecRunning {
			t.Errorf("a detached command: %+v", in)
		}
	}
}

// TestNewDaemon: without a daemon the command continues and its output is kept, and the next daemon
// finds everything.
func TestNewDaemon(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh", Name: "n", Tags: []string{"x"}, Env: map[string]string{"SECRET": "v"}})
	d.run("V=kept")
	e := d.begin(api.ExecParams{Command: "echo up; while [ ! -e " + d.dir + "/go ]; do sleep 0.01; done; seq 1 1000; exit 0"})
	d.read(e.ExecID, running)
	d.conn.Close()
	<-d.done
	d.connect()
	var hello link.HelloResult
	if _, err := d.conn.Call(context.Background(), link.Hello.With(&link.HelloParams{Protocol: link.Protocol}, nil, &hello)); err != nil || !hello.Created || hello.SessionID != d.id {
		t.Fatalf("%+v, %v", hello, err)
	}
	st := d.details()
	if st.State != api.SessionRunning || st.Name != "n" || len(st.Tags) != 1 || len(st.EnvKeys) != 1 || st.EnvKeys[0] != "SECRET" {
		t.Errorf("%+v", st)
	}
	touch(t, d.dir+"/go")
	out, oc := d.read(e.ExecID, nil)
	if !strings.HasSuffix(out, "\n1000\n") || oc.ExitCode != 0 || !oc.ShellRestarted {
		t.Errorf("%q, %+v", out, oc)
	}
	if r := d.run("echo $V"); r.stdout != "kept\n" {
		t.Errorf("%q", r.stdout)
	}
}

// TestLeftRunning: a command returns when it has ended, names what it left
// behind, and the later output goes into the same log.
func TestLeftRunning(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	r := d.run("(while [ ! -e " + d.dir + "/go ]; do sleep 0.01; done; echo late) & echo early")
	if r.stdout != "early\n" || len(r.LeftRunning) == 0 || r.ExitCode != 0 {
		t.Fatalf("%q, %+v", r.stdout, r.ExecOutcome)
	}
	if in := d.info(r.ExecID); in.State != api.ExecExited {
		t.Errorf("while somebody holds its output: %s", in.State)
	}
	if next := d.run("echo clean"); next.stdout != "clean\n" || len(next.LeftRunning) != 0 {
		t.Errorf("the next command: %q, %+v", next.stdout, next.LeftRunning)
	}
	if st := d.details(); len(st.Processes) == 0 {
		t.Error("session.info does not list it")
	}
	touch(t, d.dir+"/go")
	d.run("wait")
	var in api.ExecInfo
	for in = d.info(r.ExecID); in.State != api.ExecClosed; in = d.info(r.ExecID) {
	}
	if in.StdoutBytes != int64(len("early\nlate\n")) {
		t.Errorf("%d bytes", in.StdoutBytes)
	}
}

// TestTimeout: the session keeps its state, earlier jobs live on, and the receipt
// names what died.
func TestTimeout(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	d.run("V=kept; sleep 1000 & J=$!")
	r, err := d.try(api.ExecParams{Command: "echo before; setsid sleep 2000 & sleep 3000 | cat", TimeoutS: ptr(0.3)})
	if err != nil || !r.TimedOut || r.ExitCode != api.ExitTimedOut || r.stdout != "before\n" || r.Signal == "" || r.ShellRestarted {
		t.Fatalf("%+v, %v", r, err)
	}
	var killed []string
	for _, k := range r.Killed {
		killed = append(killed, k.Command)
	}
	list := strings.Join(killed, ",")
	for _, want := range []string{"sleep 2000", "sleep 3000"} { // cat may end by itself
		if !strings.Contains(list, want) {
			t.Errorf("%s is not among %s", want, list)
		}
	}
	if r := d.run("echo $V; kill -0 $J && echo job"); r.stdout != "kept\njob\n" {
		t.Errorf("%q %q", r.stdout, r.stderr)
	}
	for _, p := range d.details().Processes {
		if p.Command != "sleep 1000" {
			t.Errorf("left: %+v", p)
		}
	}
}

// TestCancelByINT: a job in the background ignores SIGINT, and is not waited for.
func TestCancelByINT(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	e := d.begin(api.ExecParams{Command: "sleep 4321 & echo up; sleep 4322"})
	d.read(e.ExecID, running)
	info, err := d.cancel(api.ExecCancelParams{ExecID: e.ExecID, Signal: "INT"})
	if err != nil || !info.Outcome.Cancelled {
		t.Fatalf("%+v, %v", info, err)
	}
	for _, k := range info.Outcome.Killed {
		if k.Signal == "SIGKILL" {
			t.Errorf("%+v was not given the chance to end", k)
		}
	}
	if left := d.details().Processes; len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

func TestLimits(t *testing.T) {
	old := limits
	defer func() { limits = old }()
	limits.MaxCommands, limits.MaxStdinBytes, limits.ExecsKept = 5, 10, 2
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	if _, err := d.try(api.ExecParams{Command: "cat", Stdin: ptr("12345678901")}); api.AsError(err).Code != api.CodeRequestTooLarge {
		t.Errorf("stdin: %v", err)
	}
	var ids []string
	for range 5 {
		ids = append(ids, d.run("true").ExecID)
	}
	if _, err := d.try(api.ExecParams{Command: "true"}); api.AsError(err).Code != api.CodeSessionLimitExceeded {
		t.Errorf("commands: %v", err)
	}
	var list api.ExecListResult
	if _, err := d.conn.Call(context.Background(), link.ExecList.With(&struct{}{}, nil, &list)); err != nil || len(list.Execs) != 2 || list.Execs[1].ExecID != ids[4] {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestWorkingDirAndEnv last for one command.
func TestWorkingDirAndEnv(t *testing.T) {
	for _, sh := range []string{"sh", "bash", "zsh", "ash", "fish"} {
		if !installed(sh) {
			t.Logf("NOT TESTED: %s is not installed", sh)
			continue
		}
		d := start(t, api.SessionCreateParams{Shell: sh, WorkingDir: "/tmp"})
		for _, command := range []string{"pwd; sh -c 'echo $K'", "pwd; sh -c 'echo $K'; exit 3", "pwd; sh -c 'echo $K'; cd /; sleep 100"} {
			r, err := d.try(api.ExecParams{Command: command, WorkingDir: "/usr/lib", Env: map[string]string{"K": "v w"}, TimeoutS: ptr(1.0)})
			if err != nil || r.stdout != "/usr/lib\nv w\n" || r.WorkingDir != "/tmp" {
				t.Errorf("%s: %q: %q %q, then in %q, %v", sh, command, r.stdout, r.stderr, r.WorkingDir, err)
			}
			if r := d.run("pwd; sh -c 'echo ${K-unset}'"); r.stdout != "/tmp\nunset\n" {
				t.Errorf("%s: after %q: %q", sh, command, r.stdout)
			}
		}
		if _, err := d.try(api.ExecParams{Command: "true", WorkingDir: "/nope"}); !errors.Is(err, api.ErrInvalidParams) {
			t.Errorf("%s: %v", sh, err)
		}
	}
}

// TestDirectoryDeleted: a command that deletes TRL's own files costs a second, not the session.
func TestDirectoryDeleted(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	d.run("V=kept")
	d.run("rm -rf " + d.dir + "/sh")
	if r := d.run("echo $V"); r.stdout != "kept\n" || r.ShellRestarted {
		t.Errorf("%q, %+v", r.stdout, r.ExecOutcome)
	}
	// A command that keeps running still delivers its output.
	r, err := d.try(api.ExecParams{Command: "rm -rf " + d.dir + "/sh; sleep 1.5; echo out; echo err >&2; V=new", TimeoutS: ptr(10.0)})
	if err != nil || r.stdout != "out\n" || r.stderr != "err\n" || r.ShellRestarted || r.TimedOut {
		t.Errorf("%q, %q, %+v, %v", r.stdout, r.stderr, r.ExecOutcome, err)
	}
	if r := d.run("echo $V"); r.stdout != "new\n" || r.ShellRestarted {
		t.Errorf("%q, %+v", r.stdout, r.ExecOutcome)
	}
}

// TestDestroy leaves nothing behind.
func TestDestroy(t *testing.T) {
	for _, force := range []bool{false, true} {
		d := start(t, api.SessionCreateParams{Shell: "sh"})
		d.run("setsid sleep 1234 & (sleep 1235 &) ; nohup sleep 1236 >/dev/null 2>&1 &")
		e := d.begin(api.ExecParams{Command: "echo up; sleep 1237"})
		d.read(e.ExecID, running)
		var res link.DestroyResult
		if _, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Force: force, Cause: "test"}, nil, &res)); err != nil {
			t.Fatal(err)
		}
		if err := d.cmd.Wait(); err != nil {
			t.Errorf("the runner ended with %v", err)
		}
		if len(res.Killed) < 3 || res.Info.State != api.SessionTerminated || res.Info.Cause != "test" || len(res.Execs) != 2 || !res.Execs[1].Outcome.Cancelled {
			t.Errorf("force %v: %+v", force, res)
		}
		for _, k := range res.Killed {
			if alive(k.PID) {
				t.Errorf("%+v lives", k)
			}
		}
		if exists(d.dir) {
			t.Errorf("%s is still there", d.dir)
		}
	}
}
