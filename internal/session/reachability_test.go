package session_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/journal"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/metrics"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// life lists the events of one session in the journal.
func (w world) life(id string) (list []string) {
	events, _ := w.Journal().Read(0, 10_000)
	for _, ev := range events {
		if ev.SessionID == id && strings.HasPrefix(ev.Type, "session.") {
			list = append(list, strings.TrimPrefix(ev.Type, "session."))
		}
	}
	return list
}

func (w world) wantTold(id, want string) {
	w.t.Helper()
	synctest.Wait()
	if got := strings.Join(w.life(id), " "); got != want {
		w.t.Errorf("told %q, want %q", got, want)
	}
}

// TestBrokenLinkIsMadeAnew: however often a link breaks, the daemon connects again, the command
// continues, and the caller gets its outcome.
func TestBrokenLinkIsMadeAnew(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		s, runner := w.get(id), w.rt.Runner(id)
		var all sync.WaitGroup
		all.Go(func() {
			if r, err := s.Run(t.Context(), api.ExecParams{Command: "hang"}); err != nil || !r.Cancelled {
				t.Errorf("exec.run: %+v, %v", r, err)
			}
		})
		synctest.Wait()
		const breaks = 20
		for range breaks {
			runner.Break()
			time.Sleep(time.Second)
		}
		if w.state(id) != api.SessionRunning || runner.Dials() != breaks+1 {
			t.Fatalf("state %s after %d dials", w.state(id), runner.Dials())
		}
		w.wantTold(id, "created running")
		var page metrics.Page
		if w.WriteMetrics(&page); !strings.Contains(page.String(), "\ntrl_runner_reconnects_total 20\n") {
			t.Errorf("%d links were made again, and the metrics are\n%s", breaks, page.String())
		}
		if list, err := s.ExecList(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("commands: %+v, %v", list, err)
		}
		if _, err := s.Cancel(t.Context(), api.ExecCancelParams{}); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if w.state(id) != api.SessionIdle {
			t.Errorf("state %s", w.state(id))
		}
	})
}

// TestUnreachable: a runner that refuses connections for an hour is not given up. Calls
// are answered within a bounded time, and session.info reports the reason.
func TestUnreachable(t *testing.T) {
	in(t, session.Config{IdleTimeout: time.Minute}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{Name: "far"}).SessionID
		s, runner := w.get(id), w.rt.Runner(id)
		runner.Deny(true)
		runner.Break()
		synctest.Wait()
		if !s.Info().Reachable {
			t.Error("told at once, which it may not be worth")
		}
		time.Sleep(2 * time.Second)
		info, err := s.Details(t.Context())
		if err != nil || info.Reachable || info.UnreachableSince == nil || info.UnreachableWhy != "connection refused" || info.State != api.SessionIdle {
			t.Errorf("info = %+v, %v", info, err)
		}
		_, err = s.Run(t.Context(), api.ExecParams{Command: "true"})
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, `session "far": has been unreachable for`)
		if !session.IsUnreachable(err) || !strings.Contains(err.Error(), "session.destroy and force") {
			t.Errorf("no advice: %v", err)
		}
		time.Sleep(time.Hour)
		if dials := runner.Dials(); dials < 500 || dials > 2000 {
			t.Errorf("%d dials in an hour", dials)
		}
		w.wantTold(id, "created unreachable")
		runner.Deny(false)
		if _, err := s.Run(t.Context(), api.ExecParams{Command: "true"}); err != nil { // which makes it try at once
			t.Error(err)
		}
		if info := s.Info(); !info.Reachable || info.UnreachableSince != nil {
			t.Errorf("info = %+v", info)
		}
		w.wantTold(id, "created unreachable reachable running idle")
	})
}

// TestFrozenRunner: every call to a runner that does not answer is answered in its time,
// and the runner goes on where it was.
func TestFrozenRunner(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		s, runner := w.get(id), w.rt.Runner(id)
		x, err := s.Start(t.Context(), api.ExecParams{Command: "hang"})
		if err != nil {
			t.Fatal(err)
		}
		const second = time.Second
		runner.Freeze()
		var all sync.WaitGroup
		for name, c := range map[string]struct {
			within time.Duration
			call   func(ctx context.Context) error
		}{
			"exec.run with a timeout of 0.5 s": {2500 * time.Millisecond, func(ctx context.Context) error {
				_, err := s.Run(ctx, api.ExecParams{Command: "true", TimeoutS: new(0.5)})
				return err
			}},
			"exec.run with a timeout of 2 s": {4 * second, func(ctx context.Context) error {
				_, err := s.Run(ctx, api.ExecParams{Command: "true", TimeoutS: new(2.0)})
				return err
			}},
			"exec.run with a timeout of 20 s": {5 * second, func(ctx context.Context) error {
				_, err := s.Run(ctx, api.ExecParams{Command: "true", TimeoutS: new(20.0)})
				return err
			}},
			"exec.run": {30 * second, func(ctx context.Context) error { _, err := s.Run(ctx, api.ExecParams{Command: "true"}); return err }},
			"exec.start with a timeout of 1 s": {3 * second, func(ctx context.Context) error {
				_, err := s.Start(ctx, api.ExecParams{Command: "true", TimeoutS: new(1.0)})
				return err
			}},
			"exec.start":  {5 * second, func(ctx context.Context) error { _, err := s.Start(ctx, api.ExecParams{Command: "true"}); return err }},
			"exec.cancel": {5 * second, func(ctx context.Context) error { _, err := s.Cancel(ctx, api.ExecCancelParams{}); return err }},
			"exec.list":   {5 * second, func(ctx context.Context) error { _, err := s.ExecList(ctx); return err }},
			"exec.info":   {5 * second, func(ctx context.Context) error { _, err := s.ExecInfo(ctx, x.ExecID); return err }},
			"exec.output": {5 * second, func(ctx context.Context) error {
				_, err := s.OutputBytes(ctx, api.ExecOutputParams{ExecID: x.ExecID}, false)
				return err
			}},
			"exec.input": {5 * second, func(ctx context.Context) error {
				_, err := s.Input(ctx, link.InputParams{ExecID: x.ExecID}, nil)
				return err
			}},
			"session.wait with a timeout of 1 s": {3 * second, func(ctx context.Context) error {
				_, err := s.Await(ctx, api.SessionWaitParams{Text: "never", TimeoutS: new(1.0)})
				return err
			}},
			"session.wait": {30 * second, func(ctx context.Context) error {
				_, err := s.Await(ctx, api.SessionWaitParams{Text: "never"})
				return err
			}},
			"stream of a command with a timeout of 1 s": {3 * second, func(ctx context.Context) error {
				_, _, err := s.ReadDue(ctx, link.ReadParams{ExecID: x.ExecID, Wait: true}, time.Now().Add(second))
				return err
			}},
			"stream": {30 * second, func(ctx context.Context) error {
				_, _, err := s.Read(ctx, link.ReadParams{ExecID: x.ExecID, Wait: true})
				return err
			}},
			"exec.wait": {30 * second, func(ctx context.Context) error { _, _, err := s.AwaitEnd(ctx, x.ExecID); return err }},
		} {
			all.Go(func() {
				began := time.Now()
				err := c.call(t.Context())
				if took := time.Since(began); !session.IsUnreachable(err) || took > c.within {
					t.Errorf("%s: %v after %s, not within %s", name, err, took, c.within)
				}
			})
		}
		all.Wait()
		// Now it is known that the session cannot be reached.
		began := time.Now()
		_, err = s.Run(t.Context(), api.ExecParams{Command: "true", TimeoutS: new(1.0)})
		if took := time.Since(began); !session.IsUnreachable(err) || took > 3*second {
			t.Errorf("exec.run with a timeout of 1 s: %v after %s", err, took)
		}
		began = time.Now()
		if info, err := s.Details(t.Context()); err != nil || info.Reachable || info.UnreachableWhy != "its runner does not answer" || time.Since(began) > 0 {
			t.Errorf("info = %+v, %v", info, err)
		}
		w.wantTold(id, "created running unreachable")
		runner.Thaw()
		synctest.Wait()
		if !s.Info().Reachable || runner.Dials() != 1 {
			t.Errorf("%+v, %d dials", s.Info(), runner.Dials())
		}
		if _, err := s.Cancel(t.Context(), api.ExecCancelParams{ExecID: x.ExecID}); err != nil {
			t.Error(err)
		}
		if list := w.life(id); !slices.Contains(list, "reachable") {
			t.Errorf("told %q", list)
		}
		if _, err := s.Run(t.Context(), api.ExecParams{Command: "true"}); err != nil {
			t.Error(err)
		}
	})
}

// TestShortFreeze: a runner that does not answer for a short time causes no error.
func TestShortFreeze(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		s, runner := w.get(id), w.rt.Runner(id)
		runner.Freeze()
		time.AfterFunc(8*time.Second, runner.Thaw)
		if _, err := s.Run(t.Context(), api.ExecParams{Command: "true"}); err != nil {
			t.Error(err)
		}
	})
}

// TestLateAnswer: a command that ends long after its timeout has its answer, if its runner is there:
// processes of the command may take their time to end.
func TestLateAnswer(t *testing.T) {
	slow := func(context.Context, *sessiontest.Exec) int {
		time.Sleep(10 * time.Minute)
		return 7
	}
	in(t, session.Config{}, &sessiontest.Runtime{Command: slow}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		before := w.rt.Runner(id).Hellos()
		r, err := w.get(id).Run(t.Context(), api.ExecParams{Command: "slow", TimeoutS: new(1.0)})
		if err != nil || r.ExitCode != 7 {
			t.Errorf("%+v, %v", r, err)
		}
		if n := w.rt.Runner(id).Hellos() - before; n > 60 {
			t.Errorf("%d probes in ten minutes", n)
		}
	})
}

// TestQuietWaitIsProbedSeldom: a long wait costs little.
func TestQuietWaitIsProbedSeldom(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		x, err := w.get(id).Start(t.Context(), api.ExecParams{Command: "hang"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		before := w.rt.Runner(id).Hellos()
		if _, _, err := w.get(id).AwaitEnd(ctx, x.ExecID); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if n := w.rt.Runner(id).Hellos() - before; n < 100 || n > 130 {
			t.Errorf("%d probes in an hour", n)
		}
		time.Sleep(time.Minute)
		before = w.rt.Runner(id).Hellos()
		time.Sleep(time.Hour)
		if n := w.rt.Runner(id).Hellos() - before; n != 0 {
			t.Errorf("%d probes while nobody waits", n)
		}
	})
}

// TestFrozenRunnerIsDestroyed: a session that cannot be reached can be ended, and soon
// when that is forced.
func TestFrozenRunnerIsDestroyed(t *testing.T) {
	for _, force := range []bool{false, true} {
		for _, known := range []bool{false, true} {
			in(t, session.Config{}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
				id := w.create(api.SessionCreateParams{}).SessionID
				runner := w.rt.Runner(id)
				runner.Freeze()
				if known {
					_, _ = w.get(id).ExecList(t.Context())
				}
				began, most := time.Now(), 20*time.Second
				if force {
					most = 6 * time.Second
				}
				r, err := w.Destroy(t.Context(), id, force)
				if err != nil || r.State != api.SessionTerminated || time.Since(began) > most {
					t.Errorf("force %v, known %v: %+v, %v after %s", force, known, r, err, time.Since(began))
				}
			})
		}
	}
}

// TestRecoverSlowRunner: a daemon serves although a runner of the one before does not
// answer, and goes on with that session when it does.
func TestRecoverSlowRunner(t *testing.T) {
	for _, deny := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rt := &sessiontest.Runtime{Command: untilCancelled}
			path := t.TempDir() + "/events.jsonl"
			open := func() world {
				j, err := journal.Open(path, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				return world{newRegistry(session.Config{Journal: j}, rt), rt, t}
			}
			w := open()
			slow := w.create(api.SessionCreateParams{Name: "before", Tags: []string{"a"}}).SessionID
			name, tags := "slow", []string{"b"}
			if _, err := w.Set(t.Context(), w.get(slow), api.SessionSetParams{Name: &name, Tags: &tags}); err != nil {
				t.Fatal(err)
			}
			w.create(api.SessionCreateParams{Name: "fine"})
			hangs, err := w.get(slow).Start(t.Context(), api.ExecParams{Command: "hang"})
			if err != nil {
				t.Fatal(err)
			}
			w.Leave()
			runner := rt.Runner(slow)
			if deny {
				runner.Deny(true)
			} else {
				runner.Freeze()
			}
			w = open()
			began := time.Now()
			if err := w.Recover(t.Context(), false); err != nil || time.Since(began) > time.Second {
				t.Errorf("%v after %s", err, time.Since(began))
			}
			if info := w.get("fine").Info(); !info.Reachable || info.State != api.SessionIdle {
				t.Errorf("%+v", info)
			}
			info, err := w.get("slow").Details(t.Context())
			if err != nil || info.Reachable || info.State != api.SessionRunning || info.SessionID != slow || info.UnreachableWhy == "" || !slices.Equal(info.Tags, tags) {
				t.Errorf("%+v, %v", info, err)
			}
			_, err = w.Create(t.Context(), api.SessionCreateParams{Name: "slow"})
			testkit.WantError(t, err, api.CodeConflict, "is taken")
			_, err = w.get("slow").ExecList(t.Context())
			if !session.IsUnreachable(err) {
				t.Errorf("got %v", err)
			}
			time.Sleep(10 * time.Minute)
			runner.Thaw()
			runner.Deny(false)
			if _, err := w.get("slow").ExecList(t.Context()); err != nil { // which makes it try at once
				t.Fatal(err)
			}
			info, err = w.get("slow").Details(t.Context())
			if err != nil || !info.Reachable || info.State != api.SessionRunning || len(info.Tags) != 1 {
				t.Errorf("%+v, %v", info, err)
			}
			// A runner that goes on also answers attempts from before, which may break the link once more: a
			// call that names the command is then made again.
			if x, err := w.get("slow").Cancel(t.Context(), api.ExecCancelParams{ExecID: hangs.ExecID}); err != nil || !x.Outcome.Cancelled {
				t.Errorf("%+v, %v", x, err)
			}
			w.wantTold(slow, "created updated running unreachable reachable idle")
			w.Close(nil)
		})
	}
}
