// Package servicetest runs tests of the methods of the API on sessions in memory.
package servicetest

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/service"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

// In runs f in a bubble, with a service over a runtime in memory.
func In(t *testing.T, rt *sessiontest.Runtime, f func(t *testing.T, s *service.Service, r *session.Registry)) {
	t.Helper()
	InWith(t, session.Config{}, rt, f)
}

// InWith is In with some settings of the registry.
func InWith(t *testing.T, c session.Config, rt *sessiontest.Runtime, f func(t *testing.T, s *service.Service, r *session.Registry)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, r := New(c, rt)
		f(t, s, r)
		r.Close(nil)
	})
}

// New makes a service and its registry. The caller closes the registry.
func New(c session.Config, rt *sessiontest.Runtime) (*service.Service, *session.Registry) {
	c.Runtimes, c.Logger, c.MaxSessions, c.DefaultShell, c.KillGrace = []session.Runtime{rt}, slog.New(slog.DiscardHandler), 10, "/bin/sh", 5*time.Second
	c.Retention, c.AutoExit = time.Minute, time.Hour
	r := session.NewRegistry(c)
	return service.New(service.Config{
		Registry: r, Connections: func() map[string]int { return map[string]int{"socket": 7} },
		Limits: map[string]float64{"max_sessions": 10}, Capabilities: []string{"shell"},
	}), r
}

// Create makes a session and returns its id.
func Create(t *testing.T, s api.Service, p api.SessionCreateParams) string {
	t.Helper()
	info, err := s.SessionCreate(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return info.SessionID
}

// InEach runs f with a runtime in memory. Every command of a session runs command.
func InEach(t *testing.T, command func(context.Context, *sessiontest.Exec) int, f func(t *testing.T, s *service.Service)) {
	t.Helper()
	In(t, &sessiontest.Runtime{Command: command}, func(t *testing.T, s *service.Service, _ *session.Registry) { f(t, s) })
}

// InOutput is InEach with a command that has written the records, as sessiontest.Writer takes them,
// and then ended or still runs.
func InOutput(t *testing.T, ended bool, records []string, f func(t *testing.T, s *service.Service, execID string)) {
	t.Helper()
	command := func(ctx context.Context, x *sessiontest.Exec) int {
		sessiontest.Writer(0, 0, records...)(ctx, x)
		if !ended {
			<-ctx.Done()
		}
		return 0
	}
	InEach(t, command, func(t *testing.T, s *service.Service) {
		f(t, s, Start(t, s, Create(t, s, api.SessionCreateParams{}), "x"))
	})
}

// Start starts a command, lets it run until it waits, and returns its id.
func Start(t *testing.T, s api.Service, session, command string) (execID string) {
	t.Helper()
	info, err := s.ExecStart(t.Context(), api.ExecParams{SessionID: session, Command: command})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return info.ExecID
}
