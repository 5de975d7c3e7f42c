package wait_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/service"
	"github.com/trl-dev/trl/internal/service/servicetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

func scripted(t *testing.T, f func(t *testing.T, s *service.Service, start func(string) string)) {
	t.Helper()
	servicetest.InEach(t, sessiontest.Script, func(t *testing.T, s *service.Service) {
		f(t, s, func(text string) string {
			t.Helper()
			return servicetest.Start(t, s, servicetest.Create(t, s, api.SessionCreateParams{}), text)
		})
	})
}

// showWait writes an answer the way a test can read it.
func showWait(r api.ExecWaitResult, ids ...string) string {
	var text []string
	for _, e := range r.Happened {
		line := fmt.Sprintf("%s@%d", e.Reason, e.Seq)
		if len(ids) > 1 {
			for i, id := range ids {
				if id == e.ExecID {
					line = fmt.Sprint(i, ":", line)
				}
			}
		}
		if e.Match != nil {
			line += fmt.Sprintf(" %s %d %q", e.Stream, e.Match.Offset, e.Match.Text)
		}
		if e.Outcome != nil {
			line += fmt.Sprint(" code ", e.Outcome.ExitCode)
		}
		if e.Process != nil {
			line += fmt.Sprint(" pid ", e.Process.PID)
		}
		text = append(text, line)
	}
	if len(r.Pending) > 0 {
		text = append(text, fmt.Sprint(len(r.Pending), " pending"))
	}
	if r.TimedOut {
		text = append(text, "timed out")
	}
	return strings.Join(text, ", ")
}

func TestWaitForOne(t *testing.T) {
	words := func(w ...string) api.Words { return w }
	for _, c := range []struct {
		name   string
		script string
		before time.Duration // how long it runs before the wait begins
		p      api.ExecWaitParams
		want   string
		took   time.Duration
	}{
		{"exit", "3 a", 0, api.ExecWaitParams{}, "exit@2 code 9", 3 * time.Second},
		{"exit asked for", "3", 0, api.ExecWaitParams{Until: words("exit")}, "exit@1 code 9", 3 * time.Second},
		{"exited before", "3 a", 5 * time.Second, api.ExecWaitParams{}, "exit@2 code 9", 0},
		{"timeout", "3", 0, api.ExecWaitParams{TimeoutS: new(1.0)}, "1 pending, timed out", time.Second},
		{"look once", "3", 0, api.ExecWaitParams{TimeoutS: new(0.0)}, "1 pending, timed out", 0},
		{"look once at the end", "3", 4 * time.Second, api.ExecWaitParams{TimeoutS: new(0.0)}, "exit@1 code 9", 0},
		{"match", "1 one_ 1 two_ 5", 0, api.ExecWaitParams{OutputMatch: "^tw"}, `output_match@2 stdout 4 "two"`, 2 * time.Second},
		{"match on stderr", "1 one_ 1 !two_ 5", 0, api.ExecWaitParams{OutputMatch: "^tw"}, `output_match@2 stderr 0 "two"`, 2 * time.Second},
		{"match across records", "1 one_t 1 w 1 o_ 5", 0, api.ExecWaitParams{OutputMatch: "^two$"}, `output_match@3 stdout 4 "two"`, 3 * time.Second},
		{"match of a line without an end", "1 Password: 5", 0, api.ExecWaitParams{OutputMatch: "word: ?$"}, `output_match@1 stdout 0 "Password:"`, time.Second},
		{"match of what is there", "one_two_ 5", time.Second, api.ExecWaitParams{OutputMatch: "o"}, `output_match@1 stdout 0 "one"`, 0},
		{"match only behind a number", "one_ one_ 2 one_ 5", time.Second, api.ExecWaitParams{OutputMatch: "o", AfterSeq: 2}, `output_match@3 stdout 8 "one"`, time.Second},
		{"match of what came before the end", "one_", time.Second, api.ExecWaitParams{OutputMatch: "o"}, `output_match@1 stdout 0 "one" code 9`, 0},
		{"no match until the end", "1 one_ 1", 0, api.ExecWaitParams{OutputMatch: "two"}, "exit@2 code 9", 2 * time.Second},
		{"the streams have lines of their own", "1 on !e e_ 5", 0, api.ExecWaitParams{OutputMatch: "^one$"}, `output_match@3 stdout 0 "one"`, time.Second},
		{"idle", "1 a 1 a 9", 0, api.ExecWaitParams{IdleS: new(1.5)}, "idle_s@2", 3500 * time.Millisecond},
		{"idle without any output", "9", 3 * time.Second, api.ExecWaitParams{IdleS: new(1.0)}, "idle_s@0", time.Second},
		{"idle since long ago", "a 9", 5 * time.Second, api.ExecWaitParams{IdleS: new(4.0)}, "idle_s@1", 0},
		{"idle since not so long", "a 9", 3 * time.Second, api.ExecWaitParams{IdleS: new(4.0)}, "idle_s@1", time.Second},
		{"never idle", "a 1 a 1 a 1", 0, api.ExecWaitParams{IdleS: new(1.5)}, "exit@4 code 9", 3 * time.Second},
		{"idle, look once", "a 9", time.Second, api.ExecWaitParams{IdleS: new(0.5), TimeoutS: new(0.0)}, "idle_s@1", 0},
		{"idle begins with the command", "queued 4.2 begin 9", time.Second, api.ExecWaitParams{IdleS: new(1.0)}, "idle_s@0", 4200 * time.Millisecond},
		{"idle begins with the output", "queued 4.2 begin 0.2 a 9", time.Second, api.ExecWaitParams{IdleS: new(1.0)}, "idle_s@1", 4400 * time.Millisecond},
		{"a queued command is not idle", "queued 9", time.Second, api.ExecWaitParams{IdleS: new(0.5), TimeoutS: new(2.0)}, "1 pending, timed out", 2 * time.Second},
		{"a queued command is not idle, look once", "queued 9", time.Second, api.ExecWaitParams{IdleS: new(0.001), TimeoutS: new(0.0)}, "1 pending, timed out", 0},
		{"a short idle time, queued", "queued 1.001 begin 9", 0, api.ExecWaitParams{IdleS: new(0.001)}, "idle_s@0", 1050 * time.Millisecond},
		{"input", "2 what? in 9", 0, api.ExecWaitParams{Until: words("waiting_for_input")}, "waiting_for_input@1 pid 42", 2 * time.Second},
		{"input, at the end", "2", 0, api.ExecWaitParams{Until: words("waiting_for_input")}, "exit@1 code 9", 2 * time.Second},
		{"input, look once", "in 2", 0, api.ExecWaitParams{Until: words("waiting_for_input"), TimeoutS: new(0.0)}, "waiting_for_input@0 pid 42", 0},
		{"no input, look once", "2", 0, api.ExecWaitParams{Until: words("waiting_for_input"), TimeoutS: new(0.0)}, "1 pending, timed out", 100 * time.Millisecond},
		{"the first of many", "1 a 3 in 9", 0, api.ExecWaitParams{Until: words("waiting_for_input"), IdleS: new(2.0), OutputMatch: "b"}, "idle_s@1", 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			scripted(t, func(t *testing.T, s *service.Service, start func(string) string) {
				c.p.ExecIDs = []string{start(c.script)}
				time.Sleep(c.before)
				synctest.Wait()
				began := time.Now()
				r, err := s.ExecWait(t.Context(), c.p)
				if err != nil {
					t.Fatal(err)
				}
				if got := showWait(r); got != c.want || time.Since(began) != c.took {
					t.Errorf("got  %s after %s\nwant %s after %s", got, time.Since(began), c.want, c.took)
				}
				if r.Happened == nil || r.Pending == nil {
					t.Error("a list is null")
				}
			})
		})
	}
}

func TestWaitForMany(t *testing.T) {
	scripted(t, func(t *testing.T, s *service.Service, start func(string) string) {
		ids := []string{start("3"), start("1 a_ 0.1"), start("2")}
		wait := func(p api.ExecWaitParams, want string, took time.Duration) {
			t.Helper()
			p.ExecIDs = ids
			began := time.Now()
			r, err := s.ExecWait(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if got := showWait(r, ids...); got != want || time.Since(began) != took {
				t.Errorf("got  %s after %s\nwant %s after %s", got, time.Since(began), want, took)
			}
		}
		wait(api.ExecWaitParams{TimeoutS: new(0.5)}, "3 pending, timed out", 500*time.Millisecond)
		wait(api.ExecWaitParams{OutputMatch: "a"}, `1:output_match@1 stdout 0 "a", 2 pending`, 500*time.Millisecond)
		wait(api.ExecWaitParams{}, "1:exit@2 code 9, 2 pending", 100*time.Millisecond)
		wait(api.ExecWaitParams{All: true, TimeoutS: new(0.0)}, "1:exit@2 code 9, 2 pending, timed out", 0)
		wait(api.ExecWaitParams{All: true, TimeoutS: new(1.5)}, "1:exit@2 code 9, 2:exit@1 code 9, 1 pending, timed out", 1500*time.Millisecond)
		wait(api.ExecWaitParams{All: true}, "1:exit@2 code 9, 2:exit@1 code 9, 0:exit@1 code 9", 400*time.Millisecond)
		wait(api.ExecWaitParams{}, "1:exit@2 code 9, 2:exit@1 code 9, 0:exit@1 code 9", 0)
	})
}

func TestWaitForSessions(t *testing.T) {
	servicetest.In(t, &sessiontest.Runtime{Command: sessiontest.Script}, func(t *testing.T, s *service.Service, _ *session.Registry) {
		fresh := servicetest.Create(t, s, api.SessionCreateParams{Name: "fresh"})
		busy := servicetest.Create(t, s, api.SessionCreateParams{Name: "busy"})
		for _, command := range []string{"0", "2"} {
			if _, err := s.ExecStart(t.Context(), api.ExecParams{SessionID: busy, Command: command}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		r, err := s.ExecWait(t.Context(), api.ExecWaitParams{SessionIDs: []string{"fresh", fresh, "busy"}})
		if err != nil || len(r.Happened) != 1 || r.Happened[0].ExecID != "" || r.Happened[0].SessionID != fresh || len(r.Pending) != 1 {
			t.Errorf("fresh: %+v, %v", r, err)
		}
		r, err = s.ExecWait(t.Context(), api.ExecWaitParams{SessionIDs: []string{"busy"}})
		if err != nil || showWait(r) != "exit@1 code 9" || !strings.HasSuffix(r.Happened[0].ExecID, "-2") {
			t.Errorf("busy: %+v, %v", r, err)
		}
		_, err = s.ExecWait(t.Context(), api.ExecWaitParams{SessionIDs: []string{"nobody"}})
		testkit.WantError(t, err, api.CodeSessionNotFound, `session "nobody": not found`)
	})
}

func TestWaitErrors(t *testing.T) {
	scripted(t, func(t *testing.T, s *service.Service, start func(string) string) {
		id := start("a 9")
		for _, c := range []struct {
			p    api.ExecWaitParams
			code api.Code
			text string
		}{
			{api.ExecWaitParams{}, api.CodeInvalidParams, "params.exec_ids"},
			{api.ExecWaitParams{ExecIDs: []string{id, "x-0000000000-1"}}, api.CodeExecNotFound, "x-0000000000-1"},
			{api.ExecWaitParams{ExecIDs: []string{id, id + "7"}}, api.CodeExecNotFound, id + "7"},
			{api.ExecWaitParams{ExecIDs: []string{"", id}}, api.CodeExecNotFound, "not found"},
			{api.ExecWaitParams{ExecIDs: []string{id}, OutputMatch: "["}, api.CodeInvalidParams, "params.output_match: error parsing regexp"},
			{api.ExecWaitParams{ExecIDs: []string{id}, OutputMatch: "b", AfterSeq: 2}, api.CodeInvalidParams, "params.after_seq: 2"},
			{api.ExecWaitParams{ExecIDs: []string{id}, AfterSeq: 2}, api.CodeInvalidParams, "params.after_seq: 2"},
		} {
			_, err := s.ExecWait(t.Context(), c.p)
			testkit.WantError(t, err, c.code, c.text)
		}
	})
}

// TestWaitIsGivenUp: when the caller goes, nothing of the wait is left. (The bubble
// complains about goroutines that are.)
func TestWaitIsGivenUp(t *testing.T) {
	scripted(t, func(t *testing.T, s *service.Service, start func(string) string) {
		id := start("99")
		ctx, gone := context.WithTimeout(t.Context(), time.Second)
		defer gone()
		_, err := s.ExecWait(ctx, api.ExecWaitParams{
			ExecIDs: []string{id}, OutputMatch: "x", IdleS: new(50.0), Until: api.Words{api.UntilWaitingForInput},
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// TestWaitForWhatIsEnded: the end of a session ends every wait for its commands.
func TestWaitForWhatIsEnded(t *testing.T) {
	all := api.ExecWaitParams{OutputMatch: "x", IdleS: new(50.0), Until: api.Words{api.UntilWaitingForInput}}
	for _, c := range []struct {
		name string
		p    api.ExecWaitParams
		end  func(s *service.Service, rt *sessiontest.Runtime, id string)
		want string
	}{
		{"destroyed", api.ExecWaitParams{}, func(s *service.Service, _ *sessiontest.Runtime, id string) {
			_, _ = s.SessionDestroy(context.Background(), api.SessionDestroyParams{SessionID: id})
		}, "exit@1 code 130"},
		{"destroyed, waiting for more", all, func(s *service.Service, _ *sessiontest.Runtime, id string) {
			_, _ = s.SessionDestroy(context.Background(), api.SessionDestroyParams{SessionID: id})
		}, "exit@1 code 130"},
		{"crashed", api.ExecWaitParams{}, func(_ *service.Service, rt *sessiontest.Runtime, id string) {
			rt.Runner(id).Crash("killed by SIGKILL")
		}, "terminated@0"},
		{"crashed, waiting for more", all, func(_ *service.Service, rt *sessiontest.Runtime, id string) {
			rt.Runner(id).Crash("killed by SIGKILL")
		}, "terminated@0"},
		{"link broke", api.ExecWaitParams{}, func(_ *service.Service, rt *sessiontest.Runtime, id string) {
			rt.Runner(id).Break()
		}, "exit@1 code 9"},
		{"link broke, waiting for more", all, func(_ *service.Service, rt *sessiontest.Runtime, id string) {
			rt.Runner(id).Break()
		}, "exit@1 code 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := &sessiontest.Runtime{Command: sessiontest.Script}
			servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
				id := servicetest.Create(t, s, api.SessionCreateParams{})
				x, err := s.ExecStart(t.Context(), api.ExecParams{SessionID: id, Command: "20"})
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Second, func() { c.end(s, rt, id) })
				c.p.ExecIDs = []string{x.ExecID}
				for range 2 { // the second time it is over
					r, err := s.ExecWait(t.Context(), c.p)
					if err != nil || showWait(r) != c.want {
						t.Errorf("got %s, %v, want %s", showWait(r), err, c.want)
					}
				}
			})
		})
	}
}

// TestWaitWhenTheWordIsLost: the link breaks just when the command ends.
func TestWaitWhenTheWordIsLost(t *testing.T) {
	var runner *sessiontest.Runner
	rt := &sessiontest.Runtime{
		OnStart: func(r *sessiontest.Runner) error { runner = r; return nil },
		Command: func(context.Context, *sessiontest.Exec) int {
			time.Sleep(time.Second)
			runner.Break()
			return 9
		},
	}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		x, err := s.ExecStart(t.Context(), api.ExecParams{SessionID: servicetest.Create(t, s, api.SessionCreateParams{}), Command: "x"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.ExecWait(t.Context(), api.ExecWaitParams{ExecIDs: []string{x.ExecID}, TimeoutS: new(60.0)})
		if err != nil || showWait(r) != "exit@1 code 9" {
			t.Errorf("%s, %v", showWait(r), err)
		}
	})
}

// TestWaitForAThousand waits for as many commands as a wait can have.
func TestWaitForAThousand(t *testing.T) {
	rt := &sessiontest.Runtime{Command: sessiontest.Script}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		var ids []string
		for n := range 10 { // a hundred each, of which the last one runs
			id := servicetest.Create(t, s, api.SessionCreateParams{})
			for i := range 100 {
				command := ""
				if i == 99 {
					command = fmt.Sprint(1 + n)
				}
				x, err := s.ExecStart(t.Context(), api.ExecParams{SessionID: id, Command: "1e-9 " + command})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Microsecond)
				ids = append(ids, x.ExecID)
			}
		}
		synctest.Wait()
		began := time.Now()
		r, err := s.ExecWait(t.Context(), api.ExecWaitParams{ExecIDs: ids, All: true})
		if err != nil || len(r.Happened) != 1000 || time.Since(began).Round(time.Second) != 10*time.Second {
			t.Errorf("%d happened, %d pending after %s: %v", len(r.Happened), len(r.Pending), time.Since(began), err)
		}
	})
}

// TestWaitForMatchBehindAGap: the two lines at the edges of a gap are not joined.
func TestWaitForMatchBehindAGap(t *testing.T) {
	servicetest.InOutput(t, false, []string{"oRE", "gap", "oADY\n", "oREADY"}, func(t *testing.T, s *service.Service, id string) {
		r, err := s.ExecWait(t.Context(), api.ExecWaitParams{ExecIDs: []string{id}, OutputMatch: "^READY"})
		if got := showWait(r); err != nil || got != `output_match@4 stdout 106 "READY"` {
			t.Errorf("%s, %v", got, err)
		}
	})
}
