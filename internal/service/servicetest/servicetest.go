// Package servicetest runs tests of the methods of the API on sessions in memory.
package servicetest

import (
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
		Registry: r, Connections: func() int { return 7 },
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
