package service_test

import (
	"context"
	"fmt"
	"slices"
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

// all reads a list page by page. It checks that no page has more than limit entries and that only the
// last one has no next.
func all(t *testing.T, limit int, list func(p api.Page) (ids []string, next string)) (pages [][]string) {
	t.Helper()
	for p := (api.Page{Limit: &limit}); ; {
		ids, next := list(p)
		if len(ids) > limit || next != "" && len(ids) < limit {
			t.Fatalf("a page of %d, next %q", len(ids), next)
		}
		pages = append(pages, ids)
		if p.After = next; next == "" {
			return pages
		}
	}
}

// TestPages: lists come in pages, in either order; entries that come or go between two pages neither
// repeat nor hide others.
func TestPages(t *testing.T) {
	servicetest.In(t, &sessiontest.Runtime{Command: sessiontest.Echo}, func(t *testing.T, s *service.Service, r *session.Registry) {
		var made []string
		for n := range 5 {
			made = append(made, servicetest.Create(t, s, api.SessionCreateParams{Name: fmt.Sprint("n", n)}))
			time.Sleep(time.Second) // of the bubble
		}
		ids := func(p api.SessionListParams) ([]string, string) {
			t.Helper()
			r := testkit.Must(s.SessionList(t.Context(), p))(t)
			var list []string
			for _, info := range r.Sessions {
				list = append(list, info.SessionID)
			}
			return list, r.Next
		}
		newest := slices.Clone(made)
		slices.Reverse(newest)
		for _, c := range []struct {
			limit  int
			newest bool
		}{{1, false}, {2, false}, {2, true}, {5, true}, {6, false}, {api.MaxPageLimit, false}} {
			got := all(t, c.limit, func(p api.Page) ([]string, string) {
				p.NewestFirst = c.newest
				return ids(api.SessionListParams{Page: p})
			})
			want := made
			if c.newest {
				want = newest
			}
			if !slices.Equal(slices.Concat(got...), want) || len(got) != (5+c.limit-1)/c.limit {
				t.Errorf("%+v: %v, want %v", c, got, want)
			}
		}
		// The session at the cursor ends, and another one is created.
		two := 2
		first, next := ids(api.SessionListParams{Page: api.Page{Limit: &two}})
		testkit.Must(s.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: first[1]}))(t)
		sixth := servicetest.Create(t, s, api.SessionCreateParams{Name: "n5"})
		if rest, end := ids(api.SessionListParams{Page: api.Page{After: next}}); end != "" || !slices.Equal(rest, append(made[2:5:5], sixth)) {
			t.Errorf("behind a session that is gone: %v, %q", rest, end)
		}
		if rest, _ := ids(api.SessionListParams{Page: api.Page{After: "9999-01-01T00:00:00Z/s-1"}}); len(rest) != 0 {
			t.Errorf("behind everything: %v", rest)
		}
		for p, want := range map[*api.SessionListParams][]string{
			{States: []api.SessionState{api.SessionTerminated, api.SessionIdle}}: append(slices.Clone(made), sixth),
			{States: []api.SessionState{api.SessionTerminated}}:                  made[1:2],
			{States: []api.SessionState{api.SessionRunning}}:                     nil,
			{Kinds: []api.SessionKind{api.KindTerminal}}:                         nil,
			{Kinds: []api.SessionKind{api.KindTerminal, api.KindShell}}:          {made[0], made[2], made[3], made[4], sixth},
		} {
			if got, _ := ids(*p); !slices.Equal(got, want) {
				t.Errorf("%+v: %v, want %v", p, got, want)
			}
		}
	})
}

// TestPagesOfCommands: commands that were queued at the same moment come in the order of their numbers.
func TestPagesOfCommands(t *testing.T) {
	quick := func(context.Context, *sessiontest.Exec) int { return 0 }
	servicetest.InEach(t, quick, func(t *testing.T, s *service.Service) {
		id := servicetest.Create(t, s, api.SessionCreateParams{Name: "a"})
		var made []string
		for range 12 { // the clock of the bubble stands still
			made = append(made, testkit.Must(s.ExecRun(t.Context(), api.ExecParams{SessionID: id, Command: "x"}))(t).ExecID)
		}
		synctest.Wait()
		for _, session := range []string{id, ""} {
			got := all(t, 5, func(p api.Page) (ids []string, next string) {
				r := testkit.Must(s.ExecList(t.Context(), api.ExecListParams{SessionID: session, States: []api.ExecState{api.ExecExited, api.ExecClosed}, Page: p}))(t)
				for _, x := range r.Execs {
					ids = append(ids, x.ExecID)
				}
				return ids, r.Next
			})
			if !slices.Equal(slices.Concat(got...), made) || len(got) != 3 {
				t.Errorf("%v, want %v", got, made)
			}
		}
	})
}

// TestBadPages: limits, cursors and words that are wrong are named.
func TestBadPages(t *testing.T) {
	servicetest.InEach(t, sessiontest.Echo, func(t *testing.T, s *service.Service) {
		lists := map[string]func(p api.Page) error{
			"session.list": func(p api.Page) error {
				_, err := s.SessionList(t.Context(), api.SessionListParams{Page: p})
				return err
			},
			"exec.list": func(p api.Page) error {
				_, err := s.ExecList(t.Context(), api.ExecListParams{Page: p})
				return err
			},
		}
		for name, list := range lists {
			for _, limit := range []int{0, -1, api.MaxPageLimit + 1, 1 << 62} {
				testkit.WantError(t, list(api.Page{Limit: &limit}), api.CodeInvalidParams, "params.limit: must be from 1 to 10000")
			}
			for _, after := range []string{"x", "/", "2026-11-17T14:00:00Z/", "/s-1", "2026-11-17T14:00:00Z", "s-0123456789", "1/s-1", "\x00", "../.."} {
				err := list(api.Page{After: after})
				if err == nil {
					t.Errorf("%s after %q: no error", name, after)
					continue
				}
				testkit.WantError(t, err, api.CodeInvalidParams, "is not the next of an earlier page")
			}
		}
		_, err := s.SessionList(t.Context(), api.SessionListParams{State: api.SessionIdle, States: []api.SessionState{api.SessionIdle}})
		testkit.WantError(t, err, api.CodeInvalidParams, "params.states: cannot be given together with state")
		_, err = s.SessionList(t.Context(), api.SessionListParams{Kinds: []api.SessionKind{"shel"}})
		testkit.WantError(t, err, api.CodeInvalidParams, `params.kinds: "shel" is not one of shell, terminal, program`)
		_, err = s.ExecList(t.Context(), api.ExecListParams{States: []api.ExecState{api.ExecClosed, "over"}})
		testkit.WantError(t, err, api.CodeInvalidParams, `params.states: "over" is not one of queued, running, exited, closed`)
		if err := (api.DialogueListParams{State: "done"}).Check(); err == nil {
			t.Error("dialogue.list: no error for an unknown state")
		}
	})
}
