package service_test

import (
	"context"
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

// TestTerminalParameters: what cannot be is refused, and names the parameter or the kind.
func TestTerminalParameters(t *testing.T) {
	rt := &sessiontest.Runtime{Command: sessiontest.Echo}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		servicetest.Create(t, s, api.SessionCreateParams{Name: "shell"})
		servicetest.Create(t, s, api.SessionCreateParams{Name: "term", Kind: api.KindTerminal, Command: []string{"echo"}})
		servicetest.Create(t, s, api.SessionCreateParams{Name: "prog", Kind: api.KindProgram, Command: []string{"echo"}})
		call := func(method, params string) error {
			m, ok := api.FindMethod(method)
			if !ok {
				t.Fatalf("no method %s", method)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := m.Call(ctx, s, []byte(params))
			return err
		}
		for _, c := range []struct{ method, params, code, text string }{
			{"session.create", `{"kind":"terminal","cols":0}`, "INVALID_PARAMS", "params.cols: 0: must be 2 to 1000"},
			{"session.create", `{"kind":"terminal","cols":-5}`, "INVALID_PARAMS", "params.cols: -5"},
			{"session.create", `{"kind":"terminal","rows":100000}`, "INVALID_PARAMS", "params.rows: 100000: must be 1 to 1000"},
			{"session.create", `{"kind":"program"}`, "INVALID_PARAMS", "params.command: is required"},
			{"session.create", `{"kind":"window"}`, "INVALID_PARAMS", "params.kind"},
			{"session.resize", `{"session_id":"term","cols":0,"rows":0}`, "INVALID_PARAMS", "params.cols: 0"},
			{"session.resize", `{"session_id":"term","cols":80,"rows":-1}`, "INVALID_PARAMS", "params.rows: -1"},
			{"session.resize", `{"session_id":"term","cols":80,"rows":1099511627776}`, "INVALID_PARAMS", "params.rows"},
			{"session.resize", `{"session_id":"term","cols":80,"rows":24,"viewer_id":"v-0"}`, "INVALID_PARAMS", `viewer "v-0" of session "term": is not attached`},
			{"session.resize", `{"session_id":"prog","cols":80,"rows":24}`, "INVALID_PARAMS", `session "prog": is a program; session.resize is for terminals`},
			{"session.input", `{"session_id":"shell","text":"x"}`, "INVALID_PARAMS", `session "shell": is a shell; session.input is for terminals and programs`},
			{"session.input", `{"session_id":"term"}`, "INVALID_PARAMS", "params.text: is required"},
			{"session.input", `{"session_id":"term","close":true}`, "INVALID_PARAMS", "params.close: is only for kind program"},
			{"session.input", `{"session_id":"prog","keys":["enter"]}`, "INVALID_PARAMS", "params.keys: is only for kind terminal"},
			{"session.input", `{"session_id":"prog","paste":"x"}`, "INVALID_PARAMS", "params.paste: is only for kind terminal"},
			{"session.input", `{"session_id":"term","data_base64":"!"}`, "INVALID_PARAMS", "params.data_base64"},
			{"session.input", `{"session_id":"none","text":"x"}`, "SESSION_NOT_FOUND", `session "none": not found`},
			{"session.screen", `{"session_id":"shell"}`, "INVALID_PARAMS", `session "shell": is a shell; session.screen is for terminals`},
			{"session.screen", `{"session_id":"term","format":"png"}`, "INVALID_PARAMS", "params.format"},
			{"session.screen", `{"session_id":"term","scrollback":-2}`, "INVALID_PARAMS", "params.scrollback"},
			{"session.wait", `{"session_id":"term"}`, "INVALID_PARAMS", "params.text: is required"},
			{"session.wait", `{"session_id":"shell","exit":true}`, "INVALID_PARAMS", `session "shell": is a shell`},
			{"session.wait", `{"session_id":"prog","cursor":{"x":0}}`, "INVALID_PARAMS", "params.cursor: is only for kind terminal"},
			{"session.wait", `{"session_id":"term","text":"("}`, "INVALID_PARAMS", "params.text: error parsing regexp"},
			{"session.wait", `{"session_id":"term","text":"((a{99}){99}){99}"}`, "INVALID_PARAMS", "params.text"},
			{"session.wait", `{"session_id":"term","idle_s":0}`, "INVALID_PARAMS", "params.idle_s"},
			{"session.wait", `{"session_id":"term","exit":true,"timeout_s":-1}`, "INVALID_PARAMS", "params.timeout_s"},
			{"session.attach", `{"session_id":"prog"}`, "INVALID_PARAMS", `session "prog": is a program; session.attach is for terminals`},
			{"session.attach", `{"session_id":"term","size":{"cols":0,"rows":24}}`, "INVALID_PARAMS", "params.cols: 0"},
			{"session.attach", `{"session_id":"term","take_size":true}`, "INVALID_PARAMS", "params.take_size"},
			{"session.attach", `{"session_id":"term","from_offset":-1}`, "INVALID_PARAMS", "params.from_offset"},
			{"session.attach", `{"session_id":"term","from_offset":1}`, "INVALID_PARAMS", "params.from_offset: 1 is beyond the end, which is 0"},
			{"session.recording", `{"session_id":"term"}`, "INVALID_PARAMS", `session "term": is not recorded; create it with record: true`},
			{"session.recording", `{"session_id":"term","limit":0}`, "INVALID_PARAMS", "params.limit"},
			{"session.recording", `{"session_id":"shell"}`, "INVALID_PARAMS", `session "shell": is a shell`},
			{"exec.run", `{"session_id":"term","command":"x"}`, "INVALID_PARAMS", `session "term": is a terminal; it takes session.input, not commands`},
			{"exec.start", `{"session_id":"prog","command":"x"}`, "INVALID_PARAMS", `session "prog": is a program; it takes session.input, not commands`},
			{"exec.stream", `{"session_id":"prog","command":"x"}`, "INVALID_PARAMS", `session "prog": is a program; it takes session.input, not commands`},
		} {
			if err := call(c.method, c.params); err == nil || string(api.AsError(err).Code) != c.code || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s %s: got %v, want %s %s", c.method, c.params, err, c.code, c.text)
			}
		}
	})
}

// TestNamesOfTheEnded: a method that only reads also finds an ended session by its name: a live
// session first, then the one that ended last.
func TestNamesOfTheEnded(t *testing.T) {
	servicetest.In(t, &sessiontest.Runtime{Command: sessiontest.Echo}, func(t *testing.T, s *service.Service, _ *session.Registry) {
		type found struct{ info, list, wait string }
		look := func() (f found) {
			t.Helper()
			info, err := s.SessionInfo(t.Context(), api.SessionInfoParams{SessionID: "a"})
			if err != nil {
				t.Fatal(err)
			}
			list, err := s.ExecList(t.Context(), api.ExecListParams{SessionID: "a"})
			if err != nil || len(list.Execs) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			wait, err := s.SessionWait(t.Context(), api.SessionWaitParams{SessionID: "a", Text: ".", TimeoutS: new(0.0)})
			if err != nil {
				t.Fatal(err)
			}
			return found{info.SessionID, list.Execs[0].SessionID, wait.SessionID}
		}
		var ids []string
		for range 3 {
			id := servicetest.Create(t, s, api.SessionCreateParams{Name: "a", Kind: api.KindTerminal, Command: []string{"echo"}})
			ids = append(ids, id)
			if got := look(); got != (found{id, id, id}) {
				t.Errorf("of %v while the last lives: %+v", ids, got)
			}
			if _, err := s.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: "a"}); err != nil {
				t.Fatal(err)
			}
			if got := look(); got != (found{id, id, id}) {
				t.Errorf("of %v: %+v", ids, got)
			}
			time.Sleep(time.Second)
		}
		_, err := s.SessionInput(t.Context(), api.SessionInputParams{SessionID: "a", Text: "x"})
		testkit.WantError(t, err, api.CodeSessionTerminated, `session "a": has ended: destroyed`)
		_, err = s.SessionAttach(t.Context(), api.SessionAttachParams{SessionID: "a"})
		testkit.WantError(t, err, api.CodeSessionTerminated, `session "a": has ended: destroyed`)
		_, err = s.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: "a"})
		testkit.WantError(t, err, api.CodeSessionNotFound, `session "a": not found`)
		time.Sleep(time.Hour)
		synctest.Wait()
		_, err = s.SessionInfo(t.Context(), api.SessionInfoParams{SessionID: "a"})
		testkit.WantError(t, err, api.CodeSessionNotFound, `session "a": not found`)
	})
}

func TestSessionWaitAndInput(t *testing.T) {
	rt := &sessiontest.Runtime{Command: sessiontest.Echo}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		id := servicetest.Create(t, s, api.SessionCreateParams{Kind: api.KindTerminal, Name: "a", Command: []string{"echo"}})
		heard := make(chan api.SessionWaitResult, 1)
		go func() {
			r, err := s.SessionWait(t.Context(), api.SessionWaitParams{SessionID: "a", Text: "b+"})
			if err != nil {
				t.Error(err)
			}
			heard <- r
		}()
		r, err := s.SessionInput(t.Context(), api.SessionInputParams{SessionID: id, DataBase64: "YWJi", Keys: []string{"enter"}, WriteID: "1"})
		if want := (api.SessionInputResult{Bytes: 10, Written: 10}); err != nil || r != want {
			t.Errorf("%+v, %v", r, err)
		}
		if r := <-heard; r.Reason != api.WaitText || r.Match != "bb" || r.SessionID != id {
			t.Errorf("%+v", r)
		}
		began, day, year := time.Now(), 24*time.Hour, 366*24*time.Hour // a year is the longest wait
		last, err := s.SessionWait(t.Context(), api.SessionWaitParams{SessionID: "a", Text: "never", TimeoutS: new(day.Seconds()), IdleS: new(year.Seconds())})
		if err != nil || !last.TimedOut || time.Since(began) != day {
			t.Errorf("%+v, %v after %s", last, err, time.Since(began))
		}
	})
}
