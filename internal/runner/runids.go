package runner

import (
	"context"
	"syscall"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// runsKept is how many run ids a runner remembers. A caller repeats a request within a minute or
// so.
const runsKept = 4096

// knownRunLocked finds the command of a repeated request; nil for a new request. A command
// that ran is never run again, even when the runner has forgotten it.
func (r *Runner) knownRunLocked(runID string) (*Exec, error) {
	id, ok := r.runs.Get(runID)
	if !ok {
		return nil, nil
	}
	if e := r.execs[id]; e != nil {
		return e, nil
	}
	if id == "" {
		return nil, api.Errorf(api.CodeExecNotFound, "run_id %q: its caller disconnected before the command was started", runID)
	}
	return nil, api.Errorf(api.CodeExecNotFound, "exec %q: has run, and is no longer kept", id)
}

// keepRunLocked remembers the command of a request. An empty execID marks a request that must not
// start a command.
func (r *Runner) keepRunLocked(runID, execID string) {
	if runID != "" {
		r.runs.Put(runID, execID)
	}
}

// drop answers the call exec.drop: it gives up the command of a request whose caller went away. The
// request may still arrive, on a link that broke; it then starts nothing.
func (r *Runner) drop(_ context.Context, p *link.DropParams) (*struct{}, error) {
	r.mu.Lock()
	e, err := r.knownRunLocked(p.RunID)
	if e == nil && err == nil {
		r.keepRunLocked(p.RunID, "")
	}
	r.mu.Unlock()
	if e != nil {
		e.because(callerGone)
		r.abandon(e, syscall.SIGTERM)
	}
	return &struct{}{}, nil
}
