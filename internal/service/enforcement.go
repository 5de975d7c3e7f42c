package service

import (
	"context"

	"github.com/trl-dev/trl/api"
)

// enforcement tries all limits and all isolation on a session, and returns what was in force. The
// machine does not change while the daemon runs, so one session is enough.
func (s *Service) enforcement(ctx context.Context) (*api.Enforcement, error) {
	select {
	case s.enforcing <- struct{}{}:
		defer func() { <-s.enforcing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.enforced != nil {
		return s.enforced, nil
	}
	cpus, memory, pids, lifetime := 0.5, int64(64<<20), int64(32), 60.0
	made, err := s.SessionCreate(ctx, api.SessionCreateParams{
		Runtime: string(api.PlaceHost), Shell: api.NoShell, WorkingDir: "/usr", LifetimeS: &lifetime,
		Limits: &api.Limits{CPUs: &cpus, MemoryBytes: &memory, Pids: &pids}, LimitsMode: api.LimitsBestEffort,
		Isolation:     &api.Isolation{Files: api.FilesReadOnly, Network: api.NetworkNone, Processes: api.ProcessesOwn},
		IsolationMode: api.LimitsBestEffort,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		_, _ = s.SessionDestroy(context.WithoutCancel(ctx), api.SessionDestroyParams{SessionID: made.SessionID, Force: true})
	}()
	info, err := s.SessionInfo(ctx, api.SessionInfoParams{SessionID: made.SessionID})
	if err != nil {
		return nil, err
	}
	if info.Limits == nil || info.Isolation == nil {
		return nil, api.Errorf(api.CodeInternal, "session %s: reports neither limits nor isolation", made.SessionID)
	}
	s.enforced = &api.Enforcement{Limits: info.Limits.LimitReport, Isolation: info.Isolation.IsolationReport}
	return s.enforced, nil
}
