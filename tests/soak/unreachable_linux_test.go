package soak_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// ticks starts a command that prints a number every few milliseconds, until go exists.
func ticks(t *testing.T, service api.Service, session, dir string) (exec string, stop func() int) {
	t.Helper()
	goOn := filepath.Join(dir, "go")
	x, err := service.ExecStart(context.Background(), api.ExecParams{SessionID: session,
		Command: `i=0; while [ ! -e ` + goOn + ` ]; do i=$((i+1)); echo $i; sleep 0.01; done; echo $i`})
	if err != nil {
		t.Fatal(err)
	}
	return x.ExecID, func() int {
		if err := os.WriteFile(goOn, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		testkit.EventuallyNoProblem(t, func() string {
			info, err := service.ExecInfo(context.Background(), api.ExecInfoParams{ExecID: x.ExecID})
			if err != nil || info.State != api.ExecClosed {
				return fmt.Sprintf("%+v, %v", info, err)
			}
			return ""
		})
		out, err := service.ExecOutput(context.Background(), api.ExecOutputParams{ExecID: x.ExecID})
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Fields(out.Data)
		for i, line := range lines[:len(lines)-1] {
			if line != fmt.Sprint(i+1) {
				t.Fatalf("line %d is %s", i+1, line)
			}
		}
		return len(lines) - 1
	}
}

func stop(t *testing.T, service api.Service, session string) (goOn func()) {
	t.Helper()
	runner := runnerOf(t, service, session)
	if err := runner.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn = func() { _ = runner.Signal(syscall.SIGCONT) }
	t.Cleanup(goOn)
	// A thread that runs goes on until it notices the signal.
	testkit.Eventually(t, "all threads of the runner are stopped", func() bool {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", runner.Pid))
		for _, stat := range stats {
			text, _ := os.ReadFile(stat)
			if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
				return false
			}
		}
		return err == nil && len(stats) > 0
	})
	return goOn
}

func reachable(t *testing.T, service api.Service, session string, want bool) {
	t.Helper()
	testkit.EventuallyNoProblem(t, func() string {
		info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: session})
		if err != nil || info.Reachable != want || (info.UnreachableSince == nil) != want || (info.UnreachableWhy == "") != want {
			return fmt.Sprintf("%+v, %v", info, err)
		}
		return ""
	})
}

// TestStoppedRunnerAtStart: a daemon that starts while a runner does not answer serves all other
// sessions at once, reports that it cannot reach that one, and continues with it, its command and its
// name when the runner answers.
func TestStoppedRunnerAtStart(t *testing.T) {
	daemon := trltest.Start(t)
	service := daemon.Client(t)
	create(t, service, api.SessionCreateParams{Name: "fine"})
	for _, kind := range []api.SessionKind{api.KindShell, api.KindTerminal, api.KindProgram} {
		p := api.SessionCreateParams{Name: "slow-" + string(kind), Kind: kind}
		if kind != api.KindShell {
			p.Command = []string{"cat"}
		}
		create(t, service, p)
	}
	exec, end := ticks(t, service, "slow-shell", t.TempDir())
	var goOn []func()
	slow := []string{"slow-shell", "slow-terminal", "slow-program"}
	for _, name := range slow {
		goOn = append(goOn, stop(t, service, name))
	}
	daemon.Kill9()
	daemon.Restart(t)
	service = daemon.Client(t)
	says(t, service, "fine", "echo served", "served\n")
	for _, name := range slow {
		reachable(t, service, name, false)
		_, err := service.SessionCreate(context.Background(), api.SessionCreateParams{Name: name})
		if api.AsError(err).Code != api.CodeConflict {
			t.Errorf("the name %s is free: %v", name, err)
		}
	}
	_, err := service.SessionInput(context.Background(), api.SessionInputParams{SessionID: "slow-terminal", Text: "x"})
	if e := api.AsError(err); err == nil || e.Code != api.CodeRuntimeUnavailable || e.Details["reason"] != "unreachable" {
		t.Errorf("session.input: %v", err)
	}
	for i, name := range slow {
		goOn[i]()
		reachable(t, service, name, true)
	}
	if info, err := service.ExecInfo(context.Background(), api.ExecInfoParams{ExecID: exec}); err != nil || info.State != api.ExecRunning {
		t.Errorf("%+v, %v", info, err)
	}
	end()
	if _, err := service.SessionInput(context.Background(), api.SessionInputParams{SessionID: "slow-program", Text: "x\n"}); err != nil {
		t.Error(err)
	}
	for _, want := range []string{api.EventSessionUnreachable, api.EventSessionReachable} {
		if n := len(eventsOf(t, service, want)); n != len(slow) {
			t.Errorf("%d events %s", n, want)
		}
	}
}

func eventsOf(t *testing.T, service api.Service, kind string) (list []api.StreamEvent) {
	t.Helper()
	all := int64(0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	now, err := service.EventSubscribe(ctx, api.EventSubscribeParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer now.Close()
	stream, err := service.EventSubscribe(ctx, api.EventSubscribeParams{AfterSeq: &all})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for last := now.Start().Seq; ; {
		ev, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == kind {
			list = append(list, ev)
		}
		if ev.Seq >= last {
			return list
		}
	}
}

// TestStoppedRunner: every call to a session whose runner was stopped is answered, the
// others are not held up, and the session can be ended.
func TestStoppedRunner(t *testing.T) {
	daemon := trltest.Start(t)
	service := daemon.Client(t)
	id := create(t, service, api.SessionCreateParams{Name: "stopped"}).SessionID
	create(t, service, api.SessionCreateParams{Name: "fine"})
	screen := create(t, service, api.SessionCreateParams{Name: "screen", Kind: api.KindTerminal, Command: []string{"cat"}}).SessionID
	x, end := ticks(t, service, id, t.TempDir())
	run(t, service, "fine", "true")
	goOn := stop(t, service, id)
	goOnScreen := stop(t, service, screen)
	two, tenth := 2.0, 0.1
	other, err := service.ExecStart(context.Background(), api.ExecParams{SessionID: "fine", Command: "sleep 1.5"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := service.ExecWait(context.Background(), api.ExecWaitParams{ExecIDs: []string{x, other.ExecID}})
	if err != nil || len(r.Happened) != 1 || r.Happened[0].ExecID != other.ExecID {
		t.Errorf("exec.wait for two sessions: %+v, %v", r, err)
	}
	for _, p := range []api.ExecWaitParams{
		{ExecIDs: []string{x}, TimeoutS: new(0.0)},
		{ExecIDs: []string{x}, TimeoutS: &tenth},
		{ExecIDs: []string{x}, TimeoutS: &two},
		{SessionIDs: []string{id}, TimeoutS: &tenth},
	} {
		if r, err := service.ExecWait(context.Background(), p); err != nil || !r.TimedOut || !slices.Equal(r.Pending, []string{x}) {
			t.Errorf("exec.wait with a timeout of %g s: %+v, %v", *p.TimeoutS, r, err)
		}
	}
	calls := map[string]func(ctx context.Context) error{
		"exec.run": func(ctx context.Context) error {
			_, err := service.ExecRun(ctx, api.ExecParams{SessionID: id, Command: "true", TimeoutS: &two, Wait: true})
			return err
		},
		"exec.stream": func(ctx context.Context) error {
			_, err := service.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: id, Command: "true"}})
			return err
		},
		"exec.start": func(ctx context.Context) error {
			_, err := service.ExecStart(ctx, api.ExecParams{SessionID: id, Command: "true"})
			return err
		},
		"exec.cancel": func(ctx context.Context) error {
			_, err := service.ExecCancel(ctx, api.ExecCancelParams{ExecID: x})
			return err
		},
		"exec.output": func(ctx context.Context) error {
			_, err := service.ExecOutput(ctx, api.ExecOutputParams{ExecID: x})
			return err
		},
		"exec.info": func(ctx context.Context) error {
			_, err := service.ExecInfo(ctx, api.ExecInfoParams{ExecID: x})
			return err
		},
		"exec.list": func(ctx context.Context) error {
			_, err := service.ExecList(ctx, api.ExecListParams{SessionID: id})
			return err
		},
		"exec.wait": func(ctx context.Context) error {
			_, err := service.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{x}})
			return err
		},
		"session.input": func(ctx context.Context) error {
			_, err := service.SessionInput(ctx, api.SessionInputParams{SessionID: screen, Text: "x"})
			return err
		},
		"session.resize": func(ctx context.Context) error {
			_, err := service.SessionResize(ctx, api.SessionResizeParams{SessionID: screen, Cols: 100, Rows: 30})
			return err
		},
		"session.screen": func(ctx context.Context) error {
			_, err := service.SessionScreen(ctx, api.SessionScreenParams{SessionID: screen})
			return err
		},
		"session.wait": func(ctx context.Context) error {
			_, err := service.SessionWait(ctx, api.SessionWaitParams{SessionID: screen, Text: "never"})
			return err
		},
		"session.attach": func(ctx context.Context) error {
			_, err := service.SessionAttach(ctx, api.SessionAttachParams{SessionID: screen})
			return err
		},
	}
	var all sync.WaitGroup
	for name, call := range calls {
		all.Go(func() {
			// The bound is far above what is promised: the machine may be busy.
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			if err := call(ctx); err == nil || api.AsError(err).Code != api.CodeRuntimeUnavailable || ctx.Err() != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	list, err := service.ExecList(context.Background(), api.ExecListParams{})
	if err != nil || len(list.Execs) != 2 || !slices.Contains(list.Unreachable, id) || !slices.Contains(list.Unreachable, screen) {
		t.Errorf("exec.list of all: %+v, %v", list, err)
	}
	if sessions, err := service.SessionList(context.Background(), api.SessionListParams{}); err != nil || len(sessions.Sessions) != 3 {
		t.Errorf("session.list: %+v, %v", sessions, err)
	}
	says(t, service, "fine", "echo served", "served\n")
	all.Wait()
	reachable(t, service, id, false)
	goOn()
	reachable(t, service, id, true)
	if end() == 0 {
		t.Error("the command did nothing")
	}
	says(t, service, id, "echo again", "again\n")
	destroyed, err := service.SessionDestroy(context.Background(), api.SessionDestroyParams{SessionID: screen, Force: true})
	if err != nil || destroyed.State != api.SessionTerminated {
		t.Errorf("session.destroy: %+v, %v", destroyed, err)
	}
	goOnScreen()
	if left := sessionProcesses(screen); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestLinkIsTakenAway: processes of the same user connect to the link's socket. Those that send
// nothing do no harm. Those that know the secret take the daemon's place, and the daemon reconnects,
// however often; the command continues.
func TestLinkIsTakenAway(t *testing.T) {
	daemon := trltest.Start(t)
	service := daemon.Client(t)
	id := create(t, service, api.SessionCreateParams{}).SessionID
	_, end := ticks(t, service, id, t.TempDir())
	right := linkKey(t, daemon, id)
	for _, key := range []string{"", "wrong", right} {
		for range 5 {
			err := greet(t, daemon, id, key, func() { lists(t, service, id) })
			if (err == nil) != (key == right) {
				t.Errorf("hello with key %q: %v", key, err)
			}
		}
	}
	if end() == 0 {
		t.Error("the command did nothing")
	}
	says(t, service, id, "echo mine", "mine\n")
}

// linkKey is the secret of a session's link.
func linkKey(t *testing.T, daemon *trltest.Daemon, id string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(daemon.StateDir, "sessions", id+".json"))
	var record struct {
		Key string `json:"key"`
	}
	if err != nil || json.Unmarshal(text, &record) != nil || record.Key == "" {
		t.Fatalf("record %s, %v", text, err)
	}
	return record.Key
}

// greet connects to the link's socket and says hello. It looks before and after.
func greet(t *testing.T, daemon *trltest.Daemon, id, key string, look func()) error {
	t.Helper()
	c, err := net.Dial("unix", filepath.Join(daemon.RuntimeDir, id, "link.sock"))
	if err != nil {
		t.Fatal(err)
	}
	look()
	conn := link.NewConn(c)
	var all sync.WaitGroup
	all.Go(func() { _ = conn.Serve(deaf{}) })
	_, err = conn.Call(context.Background(), link.Hello.With(&link.HelloParams{Protocol: link.Protocol, Key: key}, nil, &link.HelloResult{}))
	look()
	conn.Close()
	all.Wait()
	return err
}

// TestRunOutlivesItsLink: the caller of a command gets its result although the link breaks again and
// again. The command runs once, and reads its input once.
func TestRunOutlivesItsLink(t *testing.T) {
	daemon := trltest.Start(t)
	service := daemon.Client(t)
	id := create(t, service, api.SessionCreateParams{}).SessionID
	key, dir := linkKey(t, daemon, id), t.TempDir()
	log, goOn, input := filepath.Join(dir, "log"), filepath.Join(dir, "go"), "input\n"
	var all sync.WaitGroup
	all.Go(func() {
		r, err := service.ExecRun(context.Background(), api.ExecParams{SessionID: id, Stdin: &input,
			Command: `cat; echo ran >>` + log + `; while [ ! -e ` + goOn + ` ]; do sleep 0.01; done; echo done; (exit 7)`})
		if err != nil || r.ExitCode != 7 || r.Stdout != "input\ndone\n" {
			t.Errorf("exec.run: %+v, %v", r, err)
		}
	})
	ran := func() string {
		if text, err := os.ReadFile(log); string(text) != "ran\n" {
			return fmt.Sprintf("%q, %v", text, err)
		}
		return ""
	}
	testkit.EventuallyNoProblem(t, ran)
	for range 10 {
		if err := greet(t, daemon, id, key, func() {}); err != nil {
			t.Fatal(err)
		}
		lists(t, service, id)
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if wrong := ran(); wrong != "" {
		t.Error(wrong)
	}
	says(t, service, id, "echo mine", "mine\n")
}

// deaf is a daemon that does not listen.
type deaf struct{}

func (deaf) Handle(context.Context, *link.Incoming) error {
	return api.Errorf(api.CodeMethodNotFound, "no")
}
func (deaf) Event(string, json.RawMessage, []byte) {}

// lists looks whether the daemon has its session.
func lists(t *testing.T, service api.Service, id string) {
	t.Helper()
	list, err := service.ExecList(context.Background(), api.ExecListParams{SessionID: id})
	if err != nil || len(list.Execs) != 1 {
		t.Errorf("exec.list: %+v, %v", list, err)
	}
}
