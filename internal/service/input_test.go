package service_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/service"
	"github.com/trl-dev/trl/internal/service/servicetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestInput(t *testing.T) {
	rt := &sessiontest.Runtime{Command: func(ctx context.Context, x *sessiontest.Exec) int {
		if !x.Params.OpenStdin {
			x.Stdout(fmt.Sprintf("given %q", x.Stdin))
			return 0
		}
		for {
			text := x.Input(ctx)
			if text == "" {
				return 0
			}
			x.Stdout(text)
		}
	}}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		session := servicetest.Create(t, s, api.SessionCreateParams{})
		open := "open"
		ran, err := s.ExecRun(t.Context(), api.ExecParams{SessionID: session, Command: "x", Stdin: &open})
		if err != nil || ran.Stdout != `given "open"` {
			t.Errorf("exec.run: %+v, %v", ran, err)
		}
		synctest.Wait()
		st := servicetest.Stream(t, s, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: session, Command: "x", Stdin: &open}})
		id := st.Start().ExecID
		write := func(p api.ExecInputParams) api.ExecInputResult {
			t.Helper()
			p.ExecID = id
			r, err := s.ExecInput(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return r
		}
		write(api.ExecInputParams{Data: "a", WriteID: "1"})
		if r := write(api.ExecInputParams{Data: "a", WriteID: "1"}); !r.Repeated || r.StdinBytes != 1 {
			t.Errorf("repeated: %+v", r)
		}
		write(api.ExecInputParams{DataBase64: "/w=="})
		if r := write(api.ExecInputParams{Data: "b", Close: true}); !r.Closed || r.StdinBytes != 3 {
			t.Errorf("last: %+v", r)
		}
		servicetest.WantLines(t, servicetest.All(t, st), `1 stdout@0 "a"`, `2 stdout@1 "\xff"`, `3 stdout@2 "b"`, "4 exit 0")
		_, err = s.ExecInput(t.Context(), api.ExecInputParams{ExecID: id, Data: "late"})
		testkit.WantError(t, err, api.CodeConflict, id)
		_, err = s.ExecInput(t.Context(), api.ExecInputParams{ExecID: "x-0-1", Data: "x"})
		testkit.WantError(t, err, api.CodeExecNotFound, "not found")
		_, err = s.ExecInput(t.Context(), api.ExecInputParams{ExecID: id})
		testkit.WantError(t, err, api.CodeInvalidParams, "params.data")
		if _, err := s.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: session}); err != nil {
			t.Fatal(err)
		}
		_, err = s.ExecInput(t.Context(), api.ExecInputParams{ExecID: id, Data: "later"})
		testkit.WantError(t, err, api.CodeSessionTerminated, "has ended")
	})
}

// TestOlderRunner: what it cannot do is refused with the next step; the rest works.
func TestOlderRunner(t *testing.T) {
	rt := &sessiontest.Runtime{
		OnStart: func(r *sessiontest.Runner) error { r.Protocol = link.MinProtocol; return nil },
		Command: sessiontest.Writer(time.Second, 4, "oa", "ob"),
	}
	servicetest.InWith(t, session.Config{RecordingsDir: t.TempDir()}, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		st := servicetest.Stream(t, s, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: servicetest.Create(t, s, api.SessionCreateParams{Name: "old"}), Command: "x"}})
		servicetest.WantLines(t, servicetest.All(t, st), `1 stdout@0 "a"`, `2 stdout@1 "b"`, "3 exit 4")
		_, err := s.SessionCreate(t.Context(), api.SessionCreateParams{Name: "new", Isolation: &api.Isolation{Processes: api.ProcessesOwn}})
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, `session "new": its runner (version memory) is older and cannot isolate a session`)
		if left := rt.Runners(); len(left) != 1 {
			t.Errorf("%d runners", len(left))
		}
	})
}
