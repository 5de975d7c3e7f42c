package soak_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

var runs = flag.Int("runs", 1000, "commands of TestLeaks")

// TestLeaks runs many commands that end in every way there is, over many
// sessions at once, and then looks for anything that was not there before.
func TestLeaks(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "0.5", "--max-sessions", "200", "--log-level", "error",
		"--retention-s", "0")) // or files would stay, on purpose
	list := shells(t, t.TempDir())
	service := daemon.Client(t)

	// Once round, for what is made on first use and then kept.
	first := create(t, service, api.SessionCreateParams{Shell: list[0]})
	says(t, service, first.SessionID, "echo warm", "warm\n")
	destroy(t, service, first.SessionID)
	// At rest only when it stays so: a goroutine on its way out would be missed below.
	before, still := measure(t, daemon, service), 0
	testkit.EventuallyNoProblem(t, func() string {
		last := before
		if before = measure(t, daemon, service); before != last || before.Children > 0 {
			still = 0
		}
		if still++; still < 20 {
			return fmt.Sprintf("not at rest after the first session: %+v", before)
		}
		return ""
	})

	const workers = 8
	var todo atomic.Int64
	todo.Store(int64(*runs))
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			w := &worker{t: t, daemon: daemon, shell: list[i%len(list)], random: rand.New(rand.NewPCG(uint64(i), 7))}
			w.work(&todo)
		})
	}
	group.Wait()

	testkit.EventuallyNoProblem(t, func() string {
		after := measure(t, daemon, service)
		if after.Goroutines <= before.Goroutines {
			after.Goroutines = before.Goroutines
		}
		if after == before {
			return ""
		}
		return fmt.Sprintf("the daemon has %+v, before it had %+v; below it %v", after, before, below(daemon.PID))
	})
	for _, p := range processes() {
		if p.state == "Z" && p.parent == daemon.PID {
			t.Errorf("a zombie: %s", p)
		}
	}
}

func destroy(t *testing.T, service api.Service, session string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: session}); err != nil {
		t.Errorf("session.destroy: %s", err)
	}
}

// worker has one session at a time and treats it badly.
type worker struct {
	t       *testing.T
	daemon  *trltest.Daemon
	shell   string
	random  *rand.Rand
	client  *client.Client
	session string
}

func (w *worker) work(todo *atomic.Int64) {
	ctx := context.Background()
	var err error
	if w.client, err = client.Dial(ctx, w.daemon.Socket); err != nil {
		w.t.Error(err)
		return
	}
	defer w.client.Close()
	w.open()
	for todo.Add(-1) >= 0 && !w.t.Failed() {
		do := deeds[w.random.IntN(len(deeds))]
		if err := do.act(w); err != nil {
			w.t.Errorf("%s: %s: %s", w.shell, do.name, err)
		}
	}
	destroy(w.t, w.client, w.session)
}

func (w *worker) open() {
	w.session = create(w.t, w.client, api.SessionCreateParams{Shell: w.shell}).SessionID
}

// run runs a command that must not be refused.
func (w *worker) run(command string, timeout float64) (api.ExecResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p := api.ExecParams{SessionID: w.session, Command: command, Wait: true}
	if timeout > 0 {
		p.TimeoutS = &timeout
	}
	return w.client.ExecRun(ctx, p)
}

// deeds are the ways in which a command can end.
var deeds = []struct {
	name string
	act  func(*worker) error
}{
	{"run", func(w *worker) error { return w.expect("echo hello", 0, "hello\n", 0) }},
	{"run", func(w *worker) error { return w.expect("echo out; echo err >&2; sh -c 'exit 7'", 0, "out\n", 7) }},
	{"timeout", func(w *worker) error { return w.expect("sleep 77", 0.02, "", api.ExitTimedOut) }},
	{"timeout of a pipeline", func(w *worker) error { return w.expect("sleep 77 | cat | cat", 0.03, "", api.ExitTimedOut) }},
	{"timeout of a loop", func(w *worker) error { return w.expect(w.loop(), 0.03, "", api.ExitTimedOut) }},
	{"exit", func(w *worker) error { return w.expect("exit 3", 0, "", 3) }},
	{"crash", func(w *worker) error { return w.expect("kill -9 "+w.self()+"; sleep 77", 0, "", 137) }},
	{"left running", func(w *worker) error { return w.expect("sleep 0.5 & echo hi", 0, "hi\n", 0) }},
	{"daemon", func(w *worker) error { return w.expect("sh -c '(setsid sleep 5 &)'; echo up", 0, "up\n", 0) }},
	{"flood", (*worker).flood},
	{"cancel", (*worker).cancel},
	{"disconnect", (*worker).disconnect},
	{"destroy", (*worker).destroyBusy},
	{"syntax error", func(w *worker) error { _, err := w.run("echo \"", 5); return err }},
}
