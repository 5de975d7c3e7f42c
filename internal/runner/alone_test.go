package runner_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/export"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/terminal"
	"github.com/trl-dev/trl/internal/testkit"
)

// endAlone lets the program end while no daemon is there.
func (d *daemon) endAlone(t *testing.T) {
	t.Helper()
	pid := d.details().ShellPID
	d.leave()
	touch(t, d.dir+"/go")
	testkit.Eventually(t, "the program ends", func() bool { return !alive(pid) })
}

// untilGo is a script that ends with status 9 when endAlone lets it.
func untilGo(t *testing.T, p api.SessionCreateParams) *daemon {
	t.Helper()
	d := launch(t)
	p.Env = map[string]string{"GO": d.dir + "/go"}
	p.Command = []string{"sh", "-c", `echo up; while [ ! -e "$GO" ]; do sleep 0.01; done; echo last words; trap "" HUP; sleep 1000 & exit 9`}
	if _, err := d.create(p, ""); err != nil {
		t.Fatal(err)
	}
	d.read(d.one(), func(out string) bool { return strings.Contains(out, "up") })
	return d
}

// What a program wrote, and how it ended, waits for the next daemon.
func TestEndWithoutDaemon(t *testing.T) {
	for _, kind := range []api.SessionKind{api.KindProgram, api.KindTerminal} {
		d := untilGo(t, api.SessionCreateParams{Kind: kind, Name: "alone"})
		d.endAlone(t)
		d.connect()
		var hello link.HelloResult
		if _, err := d.conn.Call(context.Background(), link.Hello.With(&link.HelloParams{Protocol: link.Protocol}, nil, &hello)); err != nil || !hello.Created {
			t.Fatalf("%+v, %v", hello, err)
		}
		testkit.Eventually(t, "the session is terminated", func() bool { return d.details().State == api.SessionTerminated })
		info := d.details()
		if *info.ExitCode != 9 || info.Cause != "the program exited with status 9" || info.ExecID != d.one() || info.TerminatedAt == nil || info.Name != "alone" {
			t.Errorf("%s", text(info))
		}
		if kind == api.KindTerminal {
			if s := d.screen(); strings.TrimSpace(s.Text) != "up\nlast words" {
				t.Errorf("%q", s.Text)
			}
		}
		// This one dies too, before it has asked, and the next in the middle.
		d.leave()
		d.connect()
		d.destroyAndFetch()
		d.leave()
		d.connect()
		res, exported := d.destroyAndFetch()
		d.safe()
		if len(res.Killed) != 1 || *res.Info.ExitCode != 9 {
			t.Errorf("%s", text(res))
		}
		past, err := export.Open(bytes.NewReader(exported), int64(len(exported)))
		if err != nil {
			t.Fatal(err)
		}
		x, err := past.Load(output.NewStore(output.StoreConfig{}), d.one())
		if err != nil {
			t.Fatal(err)
		}
		r, body, err := x.Read(t.Context(), link.ReadParams{ExecID: d.one(), Limit: 1000}, nil)
		if got := strings.ReplaceAll(string(body), "\r", ""); got != "up\nlast words\n" || err != nil || r.Outcome.ExitCode != 9 {
			t.Errorf("%q, %s, %v", body, text(r), err)
		}
		x.Log.Release()
		last, err := past.Screen()
		if err != nil || (last != nil) != (kind == api.KindTerminal) {
			t.Fatalf("%+v, %v", last, err)
		}
		if last != nil {
			if s := terminal.Restore(last.Data, last.SnapshotResult).Screen(api.SessionScreenParams{}); strings.TrimSpace(s.Text) != "up\nlast words" {
				t.Errorf("%q", s.Text)
			}
		}
	}
}

// A daemon that gets the report of the end and dies before it has fetched anything loses nothing.
func TestDaemonDiesAtTheEnd(t *testing.T) {
	d := start(t, script("echo words; exit 2"))
	d.terminated()
	before := descriptors(t, d)
	d.leave()
	testkit.Eventually(t, "the runner is alone", func() bool { return descriptors(t, d) < before })
	time.Sleep(50 * time.Millisecond) // in which it could do the wrong thing
	d.connect()
	_, exported := d.destroyAndFetch()
	d.safe()
	if past, err := export.Open(bytes.NewReader(exported), int64(len(exported))); err != nil || past.Result.Execs[0].StdoutBytes != 6 {
		t.Errorf("%+v, %v", past, err)
	}
}

// A shell that has been idle for too long ends without a daemon; its output waits for one.
func TestShellEndsWithoutDaemon(t *testing.T) {
	was := limits
	defer func() { limits = was }()
	limits.IdleTimeoutS = 0.05
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	id := d.run("echo kept").ExecID
	d.endAlone(t)
	d.connect()
	testkit.Eventually(t, "the session is terminated", func() bool { return d.details().State == api.SessionTerminated })
	res, exported := d.destroyAndFetch()
	d.safe()
	past, err := export.Open(bytes.NewReader(exported), int64(len(exported)))
	if err != nil || res.Info.Cause != "idle timeout, while no daemon was connected" || past.Result.Execs[0].ExecID != id {
		t.Errorf("%s, %v", text(res), err)
	}
}

// A runner waits for a daemon for a bounded time, and not at all if its output is not kept.
func TestNoDaemonComes(t *testing.T) {
	was := limits
	defer func() { limits = was }()
	for _, c := range []struct {
		retention float64
		ephemeral bool
	}{{0.05, false}, {-1, false}, {0.05, true}, {-1, true}} {
		limits.RetentionS = c.retention
		d := untilGo(t, api.SessionCreateParams{Kind: api.KindTerminal, Ephemeral: c.ephemeral})
		d.endAlone(t)
		if err := d.cmd.Wait(); err != nil || exists(d.dir) {
			t.Errorf("%+v: the runner ended with %v, its directory is there: %v", c, err, exists(d.dir))
		}
	}
	// A runner that gets a signal to end does not wait either.
	limits.RetentionS = 1000
	for _, ended := range []bool{false, true} {
		d := untilGo(t, api.SessionCreateParams{Kind: api.KindProgram})
		pid := d.details().ShellPID
		if ended {
			d.endAlone(t)
		} else {
			d.leave()
		}
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := d.cmd.Wait(); err != nil || exists(d.dir) || alive(pid) {
			t.Errorf("ended %v: %v", ended, err)
		}
	}
}

// The owner of an ephemeral terminal gets the end of its program from the next daemon.
func TestEphemeralEndsWithoutDaemon(t *testing.T) {
	d := untilGo(t, api.SessionCreateParams{Kind: api.KindTerminal, Ephemeral: true})
	d.endAlone(t)
	d.connect()
	testkit.Eventually(t, "the session is terminated", func() bool { return d.details().State == api.SessionTerminated })
	if info := d.details(); info.ExitCode == nil {
		t.Errorf("%s", text(info))
	}
	_, exported := d.destroyAndFetch()
	d.safe()
	if _, err := export.Open(bytes.NewReader(exported), int64(len(exported))); err != nil {
		t.Error(err)
	}
}

// A session whose directory was removed ends if it has no daemon, also while a program runs in it: no daemon could
// connect.
func TestDirectoryIsRemoved(t *testing.T) {
	was := limits
	defer func() { limits = was }()
	limits.IdleTimeoutS, limits.RetentionS = 0.05, 1000
	for _, p := range []api.SessionCreateParams{
		{Kind: api.KindProgram, Command: []string{"sh", "-c", "sleep 1000 & wait"}},
		{Kind: api.KindTerminal, Command: []string{"sleep", "1000"}},
		{Shell: "sh"},
	} {
		d := start(t, p)
		pid := d.details().ShellPID
		if p.Shell != "" {
			d.run("sleep 1000 &")
		}
		// Twice the time in which a look would end it: its daemon is there.
		if err := os.RemoveAll(d.dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Duration(limits.IdleTimeoutS*float64(time.Second)))
		if d.details().State == api.SessionTerminated || !alive(pid) {
			t.Errorf("%s: it ended with its daemon there", p.Kind)
		}
		d.leave()
		if err := d.cmd.Wait(); err != nil || alive(pid) || exists(d.dir) {
			t.Errorf("%s: the runner ended with %v, its program lives: %v", p.Kind, err, alive(pid))
		}
	}
}

// A daemon of the version before works with this runner.
func TestOlderDaemon(t *testing.T) {
	d := launch(t)
	var hello link.HelloResult
	if _, err := d.conn.Call(context.Background(), link.Hello.With(&link.HelloParams{Protocol: link.MinProtocol}, nil, &hello)); err != nil || hello.Protocol != link.MinProtocol {
		t.Fatalf("%+v, %v", hello, err)
	}
	// It says nothing of kinds, recordings and retention.
	create := `{"session_id":"` + d.id + `","params":{"shell":"sh"},"base_env":{"PATH":"` + os.Getenv("PATH") + `"},"created_at":"2026-01-02T03:04:05Z",` +
		`"limits":{"kill_grace_s":5,"max_queued":8,"output_bytes":1000000,"execs_kept":10,"shell_start_timeout":10}}`
	var info struct {
		Kind  string `json:"kind"`
		State string `json:"state"`
	}
	if _, err := d.conn.Call(context.Background(), link.Outgoing{Row: &link.Create.Row, Params: rawJSON(create), Result: &info}); err != nil || info.Kind != "shell" || info.State != "idle" {
		t.Fatalf("%+v, %v", info, err)
	}
	if r := d.run("echo works"); r.stdout != "works\n" {
		t.Errorf("%q", r.stdout)
	}
	if _, err := d.conn.Call(context.Background(), link.Hello.With(&link.HelloParams{Protocol: link.MinProtocol - 1}, nil, &hello)); api.AsError(err).Code != api.CodeRuntimeUnavailable {
		t.Errorf("one that is too old: %v", err)
	}
}

type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// A daemon may leave at any moment of create: the runner goes with it, or has the session.
func TestDaemonLeavesDuringCreate(t *testing.T) {
	for i := range 30 {
		p := onTerminal("echo up; sleep 1000")
		if i%2 == 0 {
			p = script("echo up; sleep 1000")
		}
		d := launch(t)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _ = d.create(p, "")
		}()
		time.Sleep(time.Duration(i) * 300 * time.Microsecond) // anywhere
		d.leave()
		<-answered
		// A daemon that connects finds a session and ends it, or finds none; the runner ends with it.
		for gone := false; !gone; {
			c, err := net.Dial("unix", d.dir+"/link.sock")
			if err != nil {
				break
			}
			d.use(c)
			var hello link.HelloResult
			_, err = d.conn.Call(context.Background(), link.Hello.With(&link.HelloParams{Protocol: link.Protocol}, nil, &hello))
			if gone = err == nil && hello.Created; gone {
				_, _ = d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Force: true}, nil, &link.DestroyResult{}))
			}
			d.leave()
		}
		if err := d.cmd.Wait(); err != nil {
			t.Errorf("%d: the runner: %v", i, err)
		}
		if exists(d.dir) {
			t.Errorf("%d: its directory is there", i)
		}
	}
}

// A client that looks, waits or follows and disconnects leaves nothing behind.
func TestTerminalManyLooks(t *testing.T) {
	d := start(t, onTerminal("echo up; sleep 1000"))
	d.waits(api.SessionWaitParams{Text: "up"}, api.WaitText)
	d.screen()
	before := descriptors(t, d)
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for call, params := range map[string]any{
			link.Wait.Name:      api.SessionWaitParams{Text: "never", IdleS: ptr(1000.0), WaitingForInput: true},
			link.Follow.Name:    link.FollowParams{Offset: 4, Wait: true, Limit: 1000, Resizes: -1},
			link.ExecRead.Name:  link.ReadParams{ExecID: d.one(), AfterSeq: 1, Wait: true},
			link.ExecAwait.Name: api.ExecInfoParams{ExecID: d.one()},
		} {
			group.Go(func() { _, _ = d.conn.Call(ctx, untyped(call, params)) })
		}
		var snap link.SnapshotResult
		if _, err := d.conn.Call(context.Background(), link.Snapshot.With(&link.SnapshotParams{Scrollback: -1}, nil, &snap)); err != nil || snap.Offset != 4 {
			t.Fatalf("%+v, %v", snap, err)
		}
		cancel()
		group.Wait()
	}
	// The runner hears of the last that went away a moment later.
	testkit.Eventually(t, "no descriptor is left", func() bool { return descriptors(t, d) <= before })
}
