package session_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/journal"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// talk is a program that prints hello, and ends at the input for it.
func talk(ctx context.Context, x *sessiontest.Exec) int {
	x.Stdout("hello ")
	for {
		switch text := x.Input(ctx); {
		case ctx.Err() != nil:
			return 143
		case strings.HasPrefix(text, "exit"):
			x.Stdout("bye")
			return 3
		default:
			x.Stdout(text)
		}
	}
}

func terminal(name string) api.SessionCreateParams {
	return api.SessionCreateParams{Kind: api.KindTerminal, Name: name, Command: []string{"talk"}}
}

func (w world) typed(ref, text string) {
	w.t.Helper()
	if _, err := w.get(ref).Type(w.t.Context(), link.SessionInputParams{}, []byte(text)); err != nil {
		w.t.Fatal(err)
	}
}

// published lists the types of the events in the journal.
func (w world) published() []string {
	synctest.Wait()
	events, _ := w.Journal().Read(0, 100)
	var list []string
	for _, ev := range events {
		list = append(list, ev.Type)
	}
	return list
}

func TestTerminalRunsFromItsBeginningToItsEnd(t *testing.T) {
	for _, kind := range []api.SessionKind{api.KindTerminal, api.KindProgram} {
		t.Run(string(kind), func(t *testing.T) {
			place := newShelf(t)
			in(t, session.Config{Archive: place.open(t), IdleTimeout: time.Minute}, &sessiontest.Runtime{Command: talk}, func(t *testing.T, w world) {
				p := terminal("a")
				p.Kind = kind
				info := w.create(p)
				exec := "x-" + info.SessionID[2:] + "-1"
				if info.State != api.SessionRunning || info.Kind != kind || info.ExecID != exec || !slices.Equal(info.Command, p.Command) {
					t.Errorf("created: %+v", info)
				}
				if got := w.rt.Runner(info.SessionID).Created().Params; got.Shell != "" {
					t.Errorf("the program has the shell %q", got.Shell)
				}
				time.Sleep(time.Hour) // it does not count as idle
				s := w.get("a")
				ended := time.Now()
				w.typed("a", "exit")
				<-s.Done()
				info = s.Info()
				if info.State != api.SessionTerminated || info.ExitCode == nil || *info.ExitCode != 3 || info.Cause != "the program exited with status 3" || info.ExecID != exec {
					t.Errorf("ended: %+v", info)
				}
				if !info.TerminatedAt.Equal(ended) {
					t.Errorf("ended at %s, not %s", info.TerminatedAt, ended)
				}
				want := []string{"session.created", "session.running", "exec.running", "exec.exited", "exec.closed", "session.terminated"}
				if got := w.published(); !slices.Equal(got, want) {
					t.Errorf("published %q", got)
				}
				x, err := s.ExecInfo(t.Context(), exec)
				if err != nil || x.Outcome == nil || x.Outcome.ExitCode != 3 {
					t.Errorf("exec: %+v, %v", x, err)
				}
				out, err := s.OutputText(t.Context(), api.ExecOutputParams{ExecID: exec})
				if err != nil || out.Data != "hello bye" {
					t.Errorf("output: %q, %v", out.Data, err)
				}
			})
		})
	}
}

// TestProgramThatEndsAtOnce: it is created all the same, and every event is published.
func TestProgramThatEndsAtOnce(t *testing.T) {
	place := newShelf(t)
	rt := &sessiontest.Runtime{Command: func(_ context.Context, x *sessiontest.Exec) int { x.Stdout("x"); return 7 }}
	in(t, session.Config{Archive: place.open(t)}, rt, func(t *testing.T, w world) {
		info := w.create(terminal(""))
		s := w.get(info.SessionID)
		<-s.Done()
		if got := s.Info(); got.State != api.SessionTerminated || *got.ExitCode != 7 || got.Cause != "the program exited with status 7" {
			t.Errorf("%+v", got)
		}
		want := []string{"session.created", "session.running", "exec.running", "exec.exited", "exec.closed", "session.terminated"}
		if got := w.published(); !slices.Equal(got, want) {
			t.Errorf("published %q", got)
		}
	})
}

// TestWithoutAnArchive: the runner is let go as well, at once.
func TestWithoutAnArchive(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: talk}, func(t *testing.T, w world) {
		s := w.get(w.create(terminal("a")).SessionID)
		w.typed("a", "exit")
		began := time.Now()
		<-s.Done()
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("took %s", took)
		}
		r, err := s.Await(t.Context(), api.SessionWaitParams{Exit: true})
		if err != nil || r.Reason != api.WaitExit || *r.ExitCode != 3 || r.SessionID != s.ID() {
			t.Errorf("%+v, %v", r, err)
		}
		_, err = s.Screen(t.Context(), api.SessionScreenParams{})
		testkit.WantError(t, err, api.CodeSessionTerminated, "the program exited with status 3")
	})
}

func TestLifetimeAndDestroyEndATerminal(t *testing.T) {
	in(t, session.Config{Lifetime: time.Hour}, &sessiontest.Runtime{Command: talk}, func(t *testing.T, w world) {
		old := w.create(terminal("")).SessionID
		w.wantEnd(old, time.Now().Add(time.Hour), "lived for 1h0m0s (lifetime_s)")
		id := w.create(terminal("")).SessionID
		w.destroy(id)
		if info := w.get(id).Info(); info.Cause != "destroyed" || info.ExitCode == nil {
			t.Errorf("%+v", info)
		}
	})
}

// TestWaitEndsWithTheSession: a waiting caller gets the end of the session instead, and the wait of a
// caller that leaves ends.
func TestWaitEndsWithTheSession(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: talk}, func(t *testing.T, w world) {
		for name, end := range map[string]func(id string){
			"exit":    func(id string) { w.typed(id, "exit") },
			"destroy": func(id string) { w.destroy(id) },
			"crash":   func(id string) { w.rt.Runner(id).Crash("killed by SIGKILL") },
		} {
			s := w.get(w.create(terminal("")).SessionID)
			gone, cancel := context.WithCancel(t.Context())
			left := make(chan error, 1)
			go func() {
				_, err := s.Await(gone, api.SessionWaitParams{Text: "never"})
				left <- err
			}()
			type answer struct {
				r   api.SessionWaitResult
				err error
			}
			heard := make(chan answer, 1)
			go func() {
				r, err := s.Await(t.Context(), api.SessionWaitParams{Text: "never"})
				heard <- answer{r, err}
			}()
			synctest.Wait()
			cancel()
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the caller who left: %v", name, err)
			}
			end(s.ID())
			a := <-heard
			if a.err != nil || a.r.Reason != api.WaitExit || (a.r.ExitCode == nil) != (name == "crash") {
				t.Errorf("%s: %+v, %v", name, a.r, a.err)
			}
		}
	})
}

// TestInputOverABrokenLink: with an id, input is written exactly once; without one, the error says that
// it may have been written.
func TestInputOverABrokenLink(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: talk}, func(t *testing.T, w world) {
		for _, writeID := range []string{"", "one"} {
			info := w.create(terminal(""))
			s, runner := w.get(info.SessionID), w.rt.Runner(info.SessionID)
			synctest.Wait()
			runner.LoseAnswer(link.Input.Name)
			r, err := s.Type(t.Context(), link.SessionInputParams{WriteID: writeID}, []byte("once"))
			if writeID == "" {
				testkit.WantError(t, err, api.CodeRuntimeUnavailable, "it is not known whether the input was written")
			} else if err != nil || !r.Repeated {
				t.Errorf("with an id: %+v, %v", r, err)
			}
			synctest.Wait()
			screen, err := s.Screen(t.Context(), api.SessionScreenParams{})
			if err != nil || screen.Text != "hello once" || screen.State != api.SessionRunning || screen.SessionID != s.ID() {
				t.Errorf("%+v, %v", screen, err)
			}
		}
	})
}

// TestOwnerOfTheSize follows the size through the runner: the sizes that the runner gets, the viewers
// that wake up, and the next owner when the owner leaves.
func TestOwnerOfTheSize(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: talk}, func(t *testing.T, w world) {
		id := w.create(terminal("a")).SessionID
		s, runner := w.get(id), w.rt.Runner(id)
		attach := func(p api.SessionAttachParams) *session.Viewer {
			t.Helper()
			v, err := s.Attach(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			v.Owner()
			return v
		}
		resize := func(p api.SessionResizeParams) (api.SessionResizeResult, error) { return s.Resize(t.Context(), p) }
		wantSizes := func(want ...api.TerminalSize) {
			t.Helper()
			synctest.Wait()
			if got := runner.Sizes(); !slices.Equal(got, want) {
				t.Errorf("sizes %v, want %v", got, want)
			}
		}
		look := attach(api.SessionAttachParams{})
		first := attach(api.SessionAttachParams{Size: &api.TerminalSize{Cols: 100, Rows: 30}})
		second := attach(api.SessionAttachParams{Size: &api.TerminalSize{Cols: 90, Rows: 20}})
		wantSizes(api.TerminalSize{Cols: 100, Rows: 30})
		if n := s.Info().Terminal.Viewers; n != 3 {
			t.Errorf("%d viewers", n)
		}

		_, err := resize(api.SessionResizeParams{Cols: 50, Rows: 10})
		testkit.WantError(t, err, api.CodeConflict, "its size is that of viewer "+first.ID())
		_, err = resize(api.SessionResizeParams{Cols: 50, Rows: 10, ViewerID: "v-nobody"})
		testkit.WantError(t, err, api.CodeInvalidParams, `params.viewer_id: viewer "v-nobody" of session "a": is not attached`)
		r, err := resize(api.SessionResizeParams{Cols: 91, Rows: 20, ViewerID: second.ID()})
		if want := (api.SessionResizeResult{Cols: 100, Rows: 30, OwnerID: first.ID()}); err != nil || r != want {
			t.Errorf("%+v, %v", r, err)
		}
		r, err = resize(api.SessionResizeParams{Cols: 101, Rows: 30, ViewerID: first.ID()})
		if want := (api.SessionResizeResult{Cols: 101, Rows: 30, Applied: true, OwnerID: first.ID()}); err != nil || r != want {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err = resize(api.SessionResizeParams{Cols: 101, Rows: 30, ViewerID: first.ID()}); err != nil {
			t.Error(err)
		}
		wantSizes(api.TerminalSize{Cols: 100, Rows: 30}, api.TerminalSize{Cols: 101, Rows: 30})

		// A viewer that waits for output learns that the owner left, also when the size stays.
		look.Owner()
		woken := make(chan string, 1)
		go func() {
			r, data, err := look.Follow(t.Context(), link.FollowParams{Offset: 6, Limit: 10, Wait: true, Resizes: 2})
			if len(data) > 0 || r.Resize != nil || err != nil {
				t.Errorf("%+v, %q, %v", r, data, err)
			}
			woken <- look.Owner()
		}()
		synctest.Wait()
		first.Leave()
		first.Leave()
		if owner := <-woken; owner != second.ID() {
			t.Errorf("owner %q", owner)
		}
		wantSizes(api.TerminalSize{Cols: 100, Rows: 30}, api.TerminalSize{Cols: 101, Rows: 30}, api.TerminalSize{Cols: 91, Rows: 20})

		r, err = resize(api.SessionResizeParams{Cols: 50, Rows: 10, Force: true})
		if want := (api.SessionResizeResult{Cols: 50, Rows: 10, Applied: true}); err != nil || r != want {
			t.Errorf("%+v, %v", r, err)
		}
		second.Leave()
		look.Leave()
		if n := s.Info().Terminal.Viewers; n != 0 {
			t.Errorf("%d viewers", n)
		}
		w.destroy(id)
		_, err = resize(api.SessionResizeParams{Cols: 51, Rows: 10})
		testkit.WantError(t, err, api.CodeSessionTerminated, "destroyed")
		_, err = s.Attach(t.Context(), api.SessionAttachParams{})
		testkit.WantError(t, err, api.CodeSessionTerminated, "destroyed")
	})
}

// TestProgramThatEndedWithoutADaemon is found by the next one and filed, with its end at
// the time when it was.
func TestProgramThatEndedWithoutADaemon(t *testing.T) {
	place := newShelf(t)
	synctest.Test(t, func(t *testing.T) {
		rt := &sessiontest.Runtime{Command: func(_ context.Context, x *sessiontest.Exec) int {
			time.Sleep(time.Minute)
			x.Stdout("done")
			return 5
		}}
		path := filepath.Join(t.TempDir(), "events.jsonl")
		start := func() world {
			j, err := journal.Open(path, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			return world{newRegistry(session.Config{Archive: place.open(t), Journal: j, Retention: time.Hour}, rt), rt, t}
		}
		w := start()
		began := time.Now()
		info := w.create(terminal("a"))
		w.Leave()
		time.Sleep(10 * time.Minute)
		w = start()
		if err := w.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if len(w.List()) != 0 || len(rt.Runners()) != 0 {
			t.Errorf("%d sessions, %d runners", len(w.List()), len(rt.Runners()))
		}
		s := w.get(info.SessionID)
		got := s.Info()
		if got.State != api.SessionTerminated || *got.ExitCode != 5 || got.Cause != "the program exited with status 5" || !got.TerminatedAt.Equal(began.Add(time.Minute)) {
			t.Errorf("%+v", got)
		}
		out, err := s.OutputText(t.Context(), api.ExecOutputParams{ExecID: info.ExecID})
		if err != nil || out.Data != "done" {
			t.Errorf("%q, %v", out.Data, err)
		}
		r, err := s.Await(t.Context(), api.SessionWaitParams{Text: "never"})
		if err != nil || r.Reason != api.WaitExit || *r.ExitCode != 5 {
			t.Errorf("%+v, %v", r, err)
		}
		want := []string{"session.created", "session.running", "exec.running", "exec.exited", "exec.closed", "session.terminated"}
		if got := w.published(); !slices.Equal(got, want) {
			t.Errorf("published %q", got)
		}
		time.Sleep(51 * time.Minute)
		synctest.Wait()
		if _, err := w.Get(info.SessionID); !errors.Is(err, api.ErrSessionNotFound) {
			t.Errorf("after the retention: %v", err)
		}
		w.Close(nil)
	})
}

// TestEphemeralProgramIsReadable while the connection that made it is there.
func TestEphemeralProgramIsReadable(t *testing.T) {
	place := newShelf(t)
	in(t, session.Config{Archive: place.open(t)}, &sessiontest.Runtime{Command: talk}, func(t *testing.T, w world) {
		for _, byItself := range []bool{true, false} {
			conn, gone := context.WithCancel(t.Context())
			p := terminal("")
			p.Ephemeral = true
			info, err := w.Create(api.WithConn(t.Context(), conn), p)
			if err != nil {
				t.Fatal(err)
			}
			s := w.get(info.SessionID)
			if byItself {
				w.typed(info.SessionID, "exit")
			} else {
				gone()
			}
			<-s.Done()
			out, err := s.OutputText(t.Context(), api.ExecOutputParams{ExecID: info.ExecID})
			if got := out.Data == "hello bye"; got != byItself || (err == nil) != byItself {
				t.Errorf("by itself %v: %q, %v", byItself, out.Data, err)
			}
			gone()
		}
	})
}

// TestSizeAfterALostLink: the owner of the size leaves while the runner cannot be reached. The terminal
// gets the size of the next owner when it can be reached.
func TestSizeAfterALostLink(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: talk}, func(t *testing.T, w world) {
		s := w.get(w.create(terminal("a")).SessionID)
		runner := w.rt.Runner(s.ID())
		var list []*session.Viewer
		for _, cols := range []int{100, 90} {
			v, err := s.Attach(t.Context(), api.SessionAttachParams{Size: &api.TerminalSize{Cols: cols, Rows: 30}})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, v)
		}
		runner.Deny(true)
		runner.Break()
		synctest.Wait()
		list[0].Leave()
		time.Sleep(time.Minute)
		runner.Deny(false)
		time.Sleep(time.Minute)
		want := []api.TerminalSize{{Cols: 100, Rows: 30}, {Cols: 90, Rows: 30}}
		if got := runner.Sizes(); !slices.Equal(got, want) {
			t.Errorf("sizes %v, want %v", got, want)
		}
		list[1].Leave()
	})
}
