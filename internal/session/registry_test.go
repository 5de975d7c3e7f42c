package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a registry over a runtime in memory.
type world struct {
	*session.Registry
	rt *sessiontest.Runtime
	t  *testing.T
}

// in runs f in a bubble with a registry, closes the registry, and looks for remains.
func in(t *testing.T, c session.Config, rt *sessiontest.Runtime, f func(t *testing.T, w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{newRegistry(c, rt), rt, t}
		f(t, w)
		w.Close(nil)
		if left := rt.Runners(); len(left) > 0 {
			t.Errorf("%d runners left after Close", len(left))
		}
	})
}

func newRegistry(c session.Config, list ...*sessiontest.Runtime) *session.Registry {
	for _, rt := range list {
		c.Runtimes = append(c.Runtimes, rt)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxSessions == 0 {
		c.MaxSessions = 64
	}
	if c.KillGrace == 0 {
		c.KillGrace = 5 * time.Second
	}
	if c.Retention == 0 {
		c.Retention = 10 * time.Minute
	}
	c.DefaultShell = "/bin/sh"
	c.Limits.ShellStartTimeout = 10
	return session.NewRegistry(c)
}

// untilCancelled is a command that runs until it is stopped.
func untilCancelled(ctx context.Context, x *sessiontest.Exec) int {
	if x.Params.Command == "hang" {
		<-ctx.Done()
	}
	return 0
}

func (w world) create(p api.SessionCreateParams) api.SessionInfo {
	w.t.Helper()
	info, err := w.Create(w.t.Context(), p)
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

func (w world) get(ref string) *session.Session {
	w.t.Helper()
	s, err := w.Get(ref)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w world) state(ref string) api.SessionState {
	w.t.Helper()
	synctest.Wait()
	return w.get(ref).Info().State
}

func TestCreate(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		info := w.create(api.SessionCreateParams{Name: "build", Env: map[string]string{"A": "1"}, Tags: []string{"x"}})
		if info.State != api.SessionIdle || info.Name != "build" || info.Runtime != "memory" || info.Shell != "/bin/sh" {
			t.Errorf("info = %+v", info)
		}
		if len(info.SessionID) != 12 || !strings.HasPrefix(info.SessionID, "s-") || strings.Trim(info.SessionID[2:], "0123456789abcdef") != "" {
			t.Errorf("id = %q", info.SessionID)
		}
		if w.get("build") != w.get(info.SessionID) {
			t.Error("name and id give two sessions")
		}
		created := w.rt.Runner(info.SessionID).Created()
		if created.BaseEnv["PATH"] != "/bin" || created.Params.Env["A"] != "1" {
			t.Errorf("created with %+v", created)
		}
		_, err := w.Get("nobody")
		testkit.WantError(t, err, api.CodeSessionNotFound, `session "nobody": not found`)
	})
}

func TestNamesAreUniqueAmongTheLiving(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		first := w.create(api.SessionCreateParams{Name: "build"})
		_, err := w.Create(t.Context(), api.SessionCreateParams{Name: "build"})
		testkit.WantError(t, err, api.CodeConflict, `session name "build" is taken by `+first.SessionID)

		if _, err := w.Destroy(t.Context(), "build", false); err != nil {
			t.Fatal(err)
		}
		if second := w.create(api.SessionCreateParams{Name: "build"}); second.SessionID == first.SessionID {
			t.Error("the same session again")
		}
		if w.state(first.SessionID) != api.SessionTerminated || w.state("build") != api.SessionIdle {
			t.Error("the name does not mean the living session")
		}
	})
}

// onRecord is a log that is a moment in time: it is called where a record is written.
type onRecord func(message string)

func (f onRecord) Enabled(context.Context, slog.Level) bool      { return true }
func (f onRecord) Handle(_ context.Context, r slog.Record) error { f(r.Message); return nil }
func (f onRecord) WithAttrs([]slog.Attr) slog.Handler            { return f }
func (f onRecord) WithGroup(string) slog.Handler                 { return f }

// TestPlaceOfAnEndedSessionIsFree: as soon as a session is seen to have ended, its place and
// its name can be had.
func TestPlaceOfAnEndedSessionIsFree(t *testing.T) {
	var w world
	seen := false
	log := slog.New(onRecord(func(message string) {
		if message != "session ended" || seen {
			return
		}
		seen = true
		if s := w.Past(); len(s) != 1 || s[0].Info().State != api.SessionTerminated {
			t.Error("it is not told as ended")
		}
		w.create(api.SessionCreateParams{Name: "build"})
	}))
	in(t, session.Config{MaxSessions: 1, Logger: log}, &sessiontest.Runtime{}, func(t *testing.T, now world) {
		w = now
		w.create(api.SessionCreateParams{Name: "build"})
		if _, err := w.Destroy(t.Context(), "build", false); err != nil {
			t.Fatal(err)
		}
		if w.state("build") != api.SessionIdle || !seen {
			t.Error("there is no new session")
		}
	})
}

func TestPlacesAreTakenAtOnce(t *testing.T) {
	var mu sync.Mutex
	inside, most := 0, 0
	rt := &sessiontest.Runtime{OnStart: func(*sessiontest.Runner) error {
		mu.Lock()
		inside++
		most = max(most, inside)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		inside--
		mu.Unlock()
		return nil
	}}
	in(t, session.Config{MaxSessions: 3}, rt, func(t *testing.T, w world) {
		var all sync.WaitGroup
		errs := make(chan error, 10)
		for i := range 10 {
			all.Go(func() {
				_, err := w.Create(t.Context(), api.SessionCreateParams{Name: fmt.Sprint("n", i%2)})
				errs <- err
			})
		}
		all.Wait()
		close(errs)
		got := map[api.Code]int{}
		for err := range errs {
			if err == nil {
				got[""]++
			} else {
				got[api.AsError(err).Code]++
			}
		}
		if got[""] != 2 || got[api.CodeConflict] != 8 || most != 2 {
			t.Errorf("got %v, %d at once", got, most)
		}
		w.create(api.SessionCreateParams{})
		_, err := w.Create(t.Context(), api.SessionCreateParams{})
		testkit.WantError(t, err, api.CodeMaxSessionsReached, "3 sessions are live")
	})
}

func TestCreateThatFailsLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		start func(*sessiontest.Runner) error
		code  api.Code
		text  string
	}{
		{"no runner", func(*sessiontest.Runner) error { return errors.New("no space left") },
			api.CodeRuntimeUnavailable, `session "build": no space left`},
		{"no shell", func(r *sessiontest.Runner) error {
			r.CreateError = api.Errorf(api.CodeShellNotFound, `start shell: exec: "fish": not found`)
			return nil
		}, api.CodeShellNotFound, `session "build": start shell: exec: "fish": not found`},
		{"bad parameter", func(r *sessiontest.Runner) error {
			r.CreateError = api.Errorf(api.CodeInvalidParams, "params.working_dir: no such directory")
			return nil
		}, api.CodeInvalidParams, "params.working_dir: no such directory"},
		{"no connection", func(r *sessiontest.Runner) error { r.NoDial = true; return nil },
			api.CodeRuntimeUnavailable, `session "build": connection refused`},
		{"no hello", func(r *sessiontest.Runner) error { r.Mute = true; return nil },
			api.CodeRuntimeUnavailable, `session "build": the runner does not say hello`},
		{"other protocol", func(r *sessiontest.Runner) error { r.Protocol = 99; return nil },
			api.CodeRuntimeUnavailable, `session "build": its runner (version memory) speaks protocol 99, this daemon ` + strconv.Itoa(link.Protocol)},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := &sessiontest.Runtime{OnStart: c.start}
			in(t, session.Config{MaxSessions: 1}, rt, func(t *testing.T, w world) {
				_, err := w.Create(t.Context(), api.SessionCreateParams{Name: "build"})
				testkit.WantError(t, err, c.code, c.text)
				if len(w.List())+len(w.Past())+len(rt.Runners()) != 0 {
					t.Errorf("left: %d sessions, %d past, %d runners", len(w.List()), len(w.Past()), len(rt.Runners()))
				}
				rt.OnStart = nil
				w.create(api.SessionCreateParams{Name: "build"}) // place and name are free
			})
		})
	}
}

func TestCreateThatIsGivenUpLeavesNothing(t *testing.T) {
	rt := &sessiontest.Runtime{OnStart: func(r *sessiontest.Runner) error { r.Mute = true; return nil }}
	in(t, session.Config{}, rt, func(t *testing.T, w world) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.Create(ctx, api.SessionCreateParams{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if len(rt.Runners()) != 0 {
			t.Error("a runner is left")
		}
	})
}

func TestCreatingIsInvisibleAndEndsWithTheDaemon(t *testing.T) {
	rt := &sessiontest.Runtime{OnStart: func(r *sessiontest.Runner) error { r.Mute = true; return nil }}
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(session.Config{MaxSessions: 1}, rt)
		failed := make(chan error, 1)
		go func() {
			_, err := r.Create(t.Context(), api.SessionCreateParams{Name: "build"})
			failed <- err
		}()
		synctest.Wait()
		if len(r.List()) != 0 {
			t.Error("it is listed")
		}
		_, err := r.Get("build")
		testkit.WantError(t, err, api.CodeConflict, `session "build": is being created`)
		_, err = r.Create(t.Context(), api.SessionCreateParams{})
		testkit.WantError(t, err, api.CodeMaxSessionsReached, "")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.AwaitCreated(short, "build"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller who waits for a second: %v", err)
		}
		known := make(chan error, 1)
		go func() { known <- r.AwaitCreated(t.Context(), "build") }()
		synctest.Wait()
		if len(known) > 0 {
			t.Error("a caller did not wait for the creation")
		}

		began := time.Now()
		r.Close(nil)
		testkit.WantError(t, <-failed, api.CodeRuntimeUnavailable, "the daemon is shutting down")
		if err := <-known; err != nil {
			t.Error(err)
		}
		if len(rt.Runners()) != 0 || time.Since(began) > time.Second {
			t.Errorf("%d runners left after %s", len(rt.Runners()), time.Since(began))
		}
		_, err = r.Create(t.Context(), api.SessionCreateParams{})
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, "the daemon is shutting down")
	})
}

func TestDestroyIsSharedAndIdempotent(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		s := w.get(id)
		if _, err := s.Start(t.Context(), api.ExecParams{Command: "hang"}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				r, err := w.Destroy(t.Context(), id, false)
				if err != nil || r.State != api.SessionTerminated || r.SessionID != id || r.Killed == nil {
					t.Errorf("destroy = %+v, %v", r, err)
				}
			})
		}
		all.Wait()
		if r, err := w.Destroy(t.Context(), id, true); err != nil || r.State != api.SessionTerminated {
			t.Errorf("destroyed again = %+v, %v", r, err)
		}
		info := s.Info()
		if info.Cause != "destroyed" || info.TerminatedAt == nil || info.ExecID != "" || len(w.List()) != 0 {
			t.Errorf("info = %+v", info)
		}

		// What is left to be told.
		list, err := s.ExecList(t.Context())
		if err != nil || len(list) != 1 || !list[0].Outcome.Cancelled {
			t.Errorf("execs = %+v, %v", list, err)
		}
		if x, err := s.ExecInfo(t.Context(), list[0].ExecID); err != nil || x.Command != "hang" {
			t.Errorf("exec = %+v, %v", x, err)
		}
		_, err = s.ExecInfo(t.Context(), "x-0-99")
		testkit.WantError(t, err, api.CodeExecNotFound, "not found")
		if d, err := s.Details(t.Context()); err != nil || d.State != api.SessionTerminated || d.Processes == nil {
			t.Errorf("details = %+v, %v", d, err)
		}
		_, err = s.Run(t.Context(), api.ExecParams{Command: "true"})
		testkit.WantError(t, err, api.CodeSessionTerminated, "has ended: destroyed")
	})
}

func TestForceOvertakesPatience(t *testing.T) {
	rt := &sessiontest.Runtime{OnStart: func(r *sessiontest.Runner) error { r.Stubborn = true; return nil }}
	in(t, session.Config{}, rt, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		began := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			if _, err := w.Destroy(t.Context(), id, true); err != nil {
				t.Error(err)
			}
		}()
		if _, err := w.Destroy(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("ended after %s", took)
		}
	})
}

func TestStubbornRunnerIsKilled(t *testing.T) {
	rt := &sessiontest.Runtime{OnStart: func(r *sessiontest.Runner) error {
		r.Stubborn = true
		r.Left = []api.KilledProcess{{PID: 7, Command: "sleep", Signal: "SIGKILL"}}
		return nil
	}}
	in(t, session.Config{KillGrace: time.Second}, rt, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		began := time.Now()
		r, err := w.Destroy(t.Context(), id, false)
		if err != nil || len(r.Killed) != 1 || r.Killed[0].PID != 7 {
			t.Errorf("destroy = %+v, %v", r, err)
		}
		if took := time.Since(began); took != 7*time.Second { // two grace times and five seconds
			t.Errorf("killed after %s", took)
		}
	})
}

func TestRunnerDeathIsNoticedAtOnce(t *testing.T) {
	in(t, session.Config{MaxSessions: 1}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{Name: "build"}).SessionID
		s := w.get(id)
		failed := make(chan error, 1)
		go func() {
			_, err := s.Run(t.Context(), api.ExecParams{Command: "hang"})
			failed <- err
		}()
		synctest.Wait()
		began := time.Now()
		w.rt.Runner(id).Crash("exit status 2: panic: oh")
		testkit.WantError(t, <-failed, api.CodeSessionTerminated, `session "build": has ended: its runner died: exit status 2: panic: oh`)
		if time.Since(began) != 0 {
			t.Errorf("noticed after %s", time.Since(began))
		}
		if s.Info().State != api.SessionTerminated || len(w.rt.Removed()) != 1 {
			t.Error("not ended")
		}
		if r, err := w.Destroy(t.Context(), id, false); err != nil || r.State != api.SessionTerminated {
			t.Errorf("destroy = %+v, %v", r, err)
		}
		_, err := s.ExecInfo(t.Context(), "x-1-1")
		testkit.WantError(t, err, api.CodeSessionTerminated, "its runner died")
		w.create(api.SessionCreateParams{Name: "build"}) // place and name are free
	})
}

func TestRunnersOwnEndHasItsCause(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		w.rt.Runner(id).Say(func(i *api.SessionInfo) {
			i.State, i.Cause = api.SessionTerminated, "its shell cannot be started again"
		})
		synctest.Wait()
		if got := w.get(id).Info(); got.State != api.SessionIdle || got.Cause != "" {
			t.Errorf("ended before its runner: %+v", got)
		}
		<-w.get(id).Done() // it is let go at once
		if got := w.get(id).Info(); got.State != api.SessionTerminated || got.Cause != "its shell cannot be started again" {
			t.Errorf("afterwards: %+v", got)
		}
	})
}

func TestStatesFollowTheRunner(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		s := w.get(id)
		x, err := s.Start(t.Context(), api.ExecParams{Command: "hang"})
		if err != nil {
			t.Fatal(err)
		}
		if i := s.Info(); i.State != api.SessionRunning || i.ExecID != x.ExecID || i.CommandCount != 1 {
			t.Errorf("while it runs: %+v", i)
		}
		_, err = s.Run(t.Context(), api.ExecParams{Command: "true"})
		testkit.WantError(t, err, api.CodeSessionBusy, "busy")
		if _, err := s.Cancel(t.Context(), api.ExecCancelParams{ExecID: x.ExecID}); err != nil {
			t.Fatal(err)
		}
		if i := s.Info(); i.State != api.SessionIdle || i.ExecID != "" {
			t.Errorf("afterwards: %+v", i)
		}
		if n, commands := w.Stats(); n != 1 || commands != 1 {
			t.Errorf("stats: %d sessions, %d commands", n, commands)
		}
		if _, err := w.Destroy(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
		if n, commands := w.Stats(); n != 0 || commands != 1 {
			t.Errorf("stats after the end: %d sessions, %d commands", n, commands)
		}
	})
}

func TestRunCarriesBytes(t *testing.T) {
	rt := &sessiontest.Runtime{Command: func(_ context.Context, x *sessiontest.Exec) int {
		if x.Params.Stdin != nil || x.Params.StdinBase64 != "" {
			return 99 // stdin travels in the body alone
		}
		x.Stdout(string(x.Stdin))
		x.Stderr("e")
		if !x.Params.HasStdin {
			return 1
		}
		return 3
	}}
	in(t, session.Config{}, rt, func(t *testing.T, w world) {
		s := w.get(w.create(api.SessionCreateParams{}).SessionID)
		empty, text := "", "a\x00b"
		for _, c := range []struct {
			p    api.ExecParams
			want api.ExecResult
		}{
			{api.ExecParams{}, api.ExecResult{ExecOutcome: api.ExecOutcome{ExitCode: 1}}},
			{api.ExecParams{Stdin: &empty}, api.ExecResult{ExecOutcome: api.ExecOutcome{ExitCode: 3}}},
			{api.ExecParams{Stdin: &text}, api.ExecResult{Stdout: text, ExecOutcome: api.ExecOutcome{ExitCode: 3}}},
			{api.ExecParams{StdinBase64: "/w=="}, api.ExecResult{Stdout: "\uFFFD", StdoutBase64: "/w==", ExecOutcome: api.ExecOutcome{ExitCode: 3}}},
		} {
			c.p.Command = "cat"
			r, err := s.Run(t.Context(), c.p)
			if err != nil || r.Stdout != c.want.Stdout || r.StdoutBase64 != c.want.StdoutBase64 || r.Stderr != "e" || r.ExitCode != c.want.ExitCode {
				t.Errorf("%+v: got %+v, %v", c.p, r, err)
			}
			if r.Killed == nil || r.LeftRunning == nil || r.SessionID != s.ID() {
				t.Errorf("incomplete: %+v", r)
			}
		}
	})
}

func TestCallerWhoLeavesCancels(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		s := w.get(id)
		for _, detach := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := s.Run(ctx, api.ExecParams{Command: "hang", Detach: &detach})
				failed <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("detach %v: %v", detach, err)
			}
			want := api.SessionIdle
			if detach {
				want = api.SessionRunning
			}
			if got := w.state(id); got != want {
				t.Errorf("detach %v: session is %s, want %s", detach, got, want)
			}
		}
	})
}

func TestEphemeralEndsWithItsConnection(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		conn, gone := context.WithCancel(t.Context())
		request, answered := context.WithCancel(api.WithConn(t.Context(), conn))
		info, err := w.Create(request, api.SessionCreateParams{Ephemeral: true})
		if err != nil {
			t.Fatal(err)
		}
		answered()
		if w.state(info.SessionID) != api.SessionIdle {
			t.Error("it ended with the request")
		}
		gone()
		<-w.get(info.SessionID).Done()
		if got := w.get(info.SessionID).Info(); got.State != api.SessionTerminated || got.Cause != "the connection that owned it closed" {
			t.Errorf("info = %+v", got)
		}
	})
}

// TestSmallLingerAfterRestart: after a restart of the daemon, an owner has at least 10 seconds to come
// back, also with a smaller linger_s.
func TestSmallLingerAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &sessiontest.Runtime{}
		w := world{newRegistry(session.Config{}, rt), rt, t}
		ids := map[float64]string{}
		for _, linger := range []float64{0, 2, 30} {
			info, err := w.Create(api.WithConn(t.Context(), context.Background()), api.SessionCreateParams{Ephemeral: true, LingerS: &linger})
			if err != nil {
				t.Fatal(err)
			}
			ids[linger] = info.SessionID
		}
		w.Leave()
		w = world{newRegistry(session.Config{}, rt), rt, t}
		if err := w.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		conn, gone := context.WithCancel(t.Context())
		time.Sleep(9 * time.Second)
		for linger, want := range map[float64]float64{0: 1, 2: 1, 30: 21} {
			info := w.get(ids[linger]).Info()
			if info.EndsInS == nil || *info.EndsInS != want || info.EndsWhy != "the connection that owned it closed" {
				t.Errorf("linger_s %g: %+v", linger, info)
			}
		}
		if info, err := w.get(ids[0]).Own(api.WithConn(t.Context(), conn)); err != nil || info.EndsWhy == "the connection that owned it closed" {
			t.Errorf("%+v, %v", info, err)
		}
		const cause = "the connection that owned it closed"
		w.wantEnd(ids[2], began.Add(10*time.Second), cause)
		w.wantEnd(ids[30], began.Add(30*time.Second), cause)
		gone()
		w.wantEnd(ids[0], time.Now(), cause)
		w.Close(nil)
	})
}

func TestLeaveAndRecover(t *testing.T) {
	rt := &sessiontest.Runtime{Command: untilCancelled}
	synctest.Test(t, func(t *testing.T) {
		first := newRegistry(session.Config{}, rt)
		ids := map[string]string{}
		for _, name := range []string{"idle", "busy", "gone", "stuck", "tied", "old", "refuses", "newer", "older"} {
			ctx := api.WithConn(t.Context(), context.Background())
			info, err := first.Create(ctx, api.SessionCreateParams{Name: name, Ephemeral: name == "tied"})
			if err != nil {
				t.Fatal(err)
			}
			ids[name] = info.SessionID
		}
		busy, _ := first.Get("busy")
		if _, err := busy.Start(t.Context(), api.ExecParams{Command: "hang"}); err != nil {
			t.Fatal(err)
		}
		first.Leave()
		_, err := busy.Run(t.Context(), api.ExecParams{Command: "true"})
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, "the daemon is shutting down")
		if len(rt.Runners()) != 9 {
			t.Fatalf("%d runners left alive", len(rt.Runners()))
		}
		rt.Runner(ids["gone"]).NoDial = true
		rt.Runner(ids["stuck"]).Mute = true
		rt.Runner(ids["old"]).Protocol = 99
		rt.Runner(ids["refuses"]).Refuse = api.Errorf(api.CodeRuntimeUnavailable, "too old")
		rt.Runner(ids["newer"]).Protocol = link.Protocol + 1
		rt.Runner(ids["older"]).Protocol = link.Protocol - 1

		second := newRegistry(session.Config{MaxSessions: 1}, rt)
		began := time.Now()
		if err := second.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("recovery took %s", took)
		}
		if s, err := second.Get("idle"); err != nil || s.Info().State != api.SessionIdle {
			t.Errorf("idle: %v", err)
		} else if r, err := s.Run(t.Context(), api.ExecParams{Command: "true"}); err != nil || r.ExitCode != 0 {
			t.Errorf("run again: %+v, %v", r, err)
		}
		if s, err := second.Get("busy"); err != nil || s.Info().State != api.SessionRunning || s.Info().ExecID == "" {
			t.Errorf("busy: %v", err)
		}
		for _, name := range []string{"newer", "older"} {
			if s, err := second.Get(name); err != nil {
				t.Error(err)
			} else if r, err := s.Run(t.Context(), api.ExecParams{Command: "true"}); err != nil || r.ExitCode != 0 {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
		for _, name := range []string{"old", "refuses"} {
			if _, err := second.Get(ids[name]); err == nil || rt.Runner(ids[name]) == nil {
				t.Errorf("%s was not left alone", name)
			}
			_, err := second.DeleteRecording(ids[name])
			testkit.WantError(t, err, api.CodeConflict, "its session lives")
			rt.Runner(ids[name]).Kill()
		}
		for _, name := range []string{"gone", "stuck"} {
			if s, err := second.Get(ids[name]); err != nil || s.Info().Reachable || rt.Runner(ids[name]) == nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s, err := second.Get(ids["tied"]); err != nil {
			t.Error(err)
		} else if <-s.Done(); s.Info().Cause != "the connection that owned it closed" {
			t.Errorf("tied: %+v", s.Info())
		}
		_, err = second.Create(t.Context(), api.SessionCreateParams{Name: "idle"})
		testkit.WantError(t, err, api.CodeMaxSessionsReached, "")
		second.Close(nil)
		if len(rt.Runners()) != 2 { // the runners that were left alone
			t.Error("runners left")
		}
	})
}

func TestCloseIsParallelAndCanBeForced(t *testing.T) {
	rt := &sessiontest.Runtime{OnStart: func(r *sessiontest.Runner) error { r.Stubborn = true; return nil }}
	for _, force := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry(session.Config{KillGrace: 2 * time.Second}, rt)
			for range 20 {
				if _, err := r.Create(t.Context(), api.SessionCreateParams{}); err != nil {
					t.Fatal(err)
				}
			}
			second := make(chan struct{})
			if force {
				time.AfterFunc(time.Second, func() { close(second) })
			}
			began := time.Now()
			r.Close(second)
			want := 9 * time.Second // two grace times and five seconds
			if force {
				want = time.Second + 10*time.Millisecond
			}
			if took := time.Since(began); took > want || len(rt.Runners()) != 0 {
				t.Errorf("force %v: took %s, %d left", force, took, len(rt.Runners()))
			}
		})
	}
}

func TestReadIsPassedOn(t *testing.T) {
	rt := &sessiontest.Runtime{Command: func(_ context.Context, x *sessiontest.Exec) int { x.Stdout("hello"); return 0 }}
	in(t, session.Config{}, rt, func(t *testing.T, w world) {
		s := w.get(w.create(api.SessionCreateParams{}).SessionID)
		x, err := s.Start(t.Context(), api.ExecParams{Command: "x"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r, text, err := s.Read(t.Context(), link.ReadParams{ExecID: x.ExecID, Limit: 100, Wait: true})
		if err != nil || string(text) != "hello" || len(r.Chunks) != 1 || r.Outcome == nil {
			t.Errorf("%+v %q %v", r, text, err)
		}
	})
}
