package service_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/service"
	"github.com/trl-dev/trl/internal/service/servicetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/version"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSystem(t *testing.T) {
	servicetest.In(t, &sessiontest.Runtime{}, func(t *testing.T, s *service.Service, _ *session.Registry) {
		id := servicetest.Create(t, s, api.SessionCreateParams{})
		if _, err := s.ExecRun(t.Context(), api.ExecParams{SessionID: id, Command: "true"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		ping, err := s.SystemPing(t.Context(), api.SystemPingParams{})
		if err != nil || ping.UptimeS != 3 || ping.Version != version.Version {
			t.Errorf("ping = %+v, %v", ping, err)
		}
		stats, err := s.SystemStats(t.Context(), api.SystemStatsParams{})
		if err != nil || stats.ActiveSessions != 1 || stats.TotalCommandsRun != 1 || stats.Connections != 7 || stats.MemoryRSSBytes == 0 || stats.OpenFDs == 0 {
			t.Errorf("stats = %+v, %v", stats, err)
		}
		info, err := s.SystemInfo(t.Context(), api.SystemInfoParams{})
		if err != nil || info.APIVersion != api.Version || info.Limits["max_sessions"] != 10 || !slices.Contains(info.Methods, "exec.run") || len(info.Methods) != len(api.Methods()) || !slices.Contains(info.Capabilities, "shell") {
			t.Errorf("info = %+v, %v", info, err)
		}
	})
}

func TestParametersAreChecked(t *testing.T) {
	servicetest.In(t, &sessiontest.Runtime{Command: sessiontest.Hang}, func(t *testing.T, s *service.Service, _ *session.Registry) {
		a, b := servicetest.Create(t, s, api.SessionCreateParams{}), servicetest.Create(t, s, api.SessionCreateParams{})
		x, err := s.ExecStream(t.Context(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: a, Command: "hang"}})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		id := x.Start().ExecID
		for name, c := range map[string]struct {
			call func() error
			code api.Code
			text string
		}{
			"bad name": {func() error {
				_, err := s.SessionCreate(t.Context(), api.SessionCreateParams{Name: "s-x"})
				return err
			}, api.CodeInvalidParams, "params.name"},
			"no command": {func() error {
				_, err := s.ExecRun(t.Context(), api.ExecParams{SessionID: a})
				return err
			}, api.CodeInvalidParams, "params.command: is required"},
			"no session to run in": {func() error {
				_, err := s.ExecRun(t.Context(), api.ExecParams{SessionID: "nobody", Command: "x"})
				return err
			}, api.CodeSessionNotFound, `session "nobody": not found`},
			"no session to stream from": {func() error {
				_, err := s.ExecStream(t.Context(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: "nobody", Command: "x"}})
				return err
			}, api.CodeSessionNotFound, `session "nobody": not found`},
			"busy": {func() error {
				_, err := s.ExecStream(t.Context(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: a, Command: "x"}})
				return err
			}, api.CodeSessionBusy, "busy"},
			"info of nothing": {func() error {
				_, err := s.SessionInfo(t.Context(), api.SessionInfoParams{})
				return err
			}, api.CodeInvalidParams, "params.session_id: is required"},
			"destroy of nothing": {func() error {
				_, err := s.SessionDestroy(t.Context(), api.SessionDestroyParams{})
				return err
			}, api.CodeInvalidParams, "params.session_id: is required"},
			"destroy of nobody": {func() error {
				_, err := s.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: "nobody"})
				return err
			}, api.CodeSessionNotFound, `session "nobody": not found`},
			"cancel of nothing": {func() error {
				_, err := s.ExecCancel(t.Context(), api.ExecCancelParams{})
				return err
			}, api.CodeInvalidParams, "params.exec_id: is required, unless session_id is set"},
			"cancel in another session": {func() error {
				_, err := s.ExecCancel(t.Context(), api.ExecCancelParams{ExecID: id, SessionID: b})
				return err
			}, api.CodeInvalidParams, "is not in session"},
			"exec without id": {func() error {
				_, err := s.ExecInfo(t.Context(), api.ExecInfoParams{})
				return err
			}, api.CodeInvalidParams, "params.exec_id: is required"},
			"exec that never was": {func() error {
				_, err := s.ExecInfo(t.Context(), api.ExecInfoParams{ExecID: strings.TrimSuffix(id, "1") + "99"})
				return err
			}, api.CodeExecNotFound, "not found"},
			"exec of no session": {func() error {
				_, err := s.ExecInfo(t.Context(), api.ExecInfoParams{ExecID: "x-0000000000-1"})
				return err
			}, api.CodeExecNotFound, `exec "x-0000000000-1": not found`},
			"exec that is none": {func() error {
				_, err := s.ExecInfo(t.Context(), api.ExecInfoParams{ExecID: a})
				return err
			}, api.CodeExecNotFound, `not found`},
			"list of an unknown state": {func() error {
				_, err := s.SessionList(t.Context(), api.SessionListParams{State: "asleep"})
				return err
			}, api.CodeInvalidParams, `params.state: "asleep"`},
			"execs of an unknown state": {func() error {
				_, err := s.ExecList(t.Context(), api.ExecListParams{State: "asleep"})
				return err
			}, api.CodeInvalidParams, `params.state: "asleep"`},
		} {
			if err := c.call(); err == nil || api.AsError(err).Code != c.code || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: got %v, want %s: %s", name, err, c.code, c.text)
			}
		}
	})
}

func TestLists(t *testing.T) {
	servicetest.In(t, &sessiontest.Runtime{Command: sessiontest.Hang}, func(t *testing.T, s *service.Service, _ *session.Registry) {
		var ids []string
		for i := range 3 {
			ids = append(ids, servicetest.Create(t, s, api.SessionCreateParams{Name: fmt.Sprint("n", i), Tags: []string{"all", fmt.Sprint("t", i)}}))
			time.Sleep(time.Second)
		}
		for _, i := range []int{2, 0, 1} {
			if _, err := s.ExecRun(t.Context(), api.ExecParams{SessionID: ids[i], Command: fmt.Sprint("c", i)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		st, err := s.ExecStream(t.Context(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: "n1", Command: "hang"}})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if _, err := s.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: "n0"}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			p    api.SessionListParams
			want []string
		}{
			{api.SessionListParams{}, []string{ids[1], ids[2]}},
			{api.SessionListParams{State: api.SessionIdle}, []string{ids[2]}},
			{api.SessionListParams{State: api.SessionRunning}, []string{ids[1]}},
			{api.SessionListParams{State: api.SessionTerminated}, []string{ids[0]}},
			{api.SessionListParams{State: api.SessionCreating}, nil},
			{api.SessionListParams{Tags: []string{"all", "t2"}}, []string{ids[2]}},
			{api.SessionListParams{Tags: []string{"none"}}, nil},
		} {
			r, err := s.SessionList(t.Context(), c.p)
			var got []string
			for _, info := range r.Sessions {
				got = append(got, info.SessionID)
			}
			if err != nil || r.Sessions == nil || !slices.Equal(got, c.want) {
				t.Errorf("%+v: got %v, %v, want %v", c.p, got, err, c.want)
			}
		}
		for _, c := range []struct {
			p    api.ExecListParams
			want string
		}{
			{api.ExecListParams{}, "c2 c0 c1 hang"},
			{api.ExecListParams{SessionID: "n1"}, "c1 hang"},
			{api.ExecListParams{SessionID: ids[0]}, "c0"},
			{api.ExecListParams{State: api.ExecRunning}, "hang"},
			{api.ExecListParams{State: api.ExecQueued}, ""},
		} {
			r, err := s.ExecList(t.Context(), c.p)
			var got []string
			for _, x := range r.Execs {
				got = append(got, x.Command)
			}
			if err != nil || r.Execs == nil || strings.Join(got, " ") != c.want {
				t.Errorf("%+v: got %v, %v, want %s", c.p, got, err, c.want)
			}
		}
		x, err := s.ExecCancel(t.Context(), api.ExecCancelParams{SessionID: "n1"})
		if err != nil || !x.Outcome.Cancelled || x.ExecID != st.Start().ExecID {
			t.Errorf("cancel = %+v, %v", x, err)
		}
	})
}

func TestDetachIsFilledIn(t *testing.T) {
	seen := map[string]bool{}
	rt := &sessiontest.Runtime{Command: func(_ context.Context, x *sessiontest.Exec) int {
		seen[x.Params.Command] = *x.Params.Detach
		return 0
	}}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		id := servicetest.Create(t, s, api.SessionCreateParams{})
		yes, no := true, false
		for _, p := range []api.ExecParams{{Command: "run"}, {Command: "run detached", Detach: &yes}} {
			p.SessionID = id
			if _, err := s.ExecRun(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []api.ExecParams{{Command: "stream"}, {Command: "stream attached", Detach: &no}} {
			p.SessionID = id
			st, err := s.ExecStream(t.Context(), api.ExecStreamParams{ExecParams: p})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			st.Close()
		}
		want := map[string]bool{"run": false, "run detached": true, "stream": true, "stream attached": false}
		if fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", seen, want)
		}
	})
}
