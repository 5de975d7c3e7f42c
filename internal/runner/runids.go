package runner

import (
	"context"
	"syscall"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// runsKept is how many run ids a runner remembers. A caller asks again within a minute or so.
const runsKept = 4096

// runs are the commands of the last requests that had a run id.
type runs struct {
	execs map[string]string // by run id
	order []string          // a ring, once it is full
	next  int
}

func (s *runs) keep(id, exec string) {
	if id == "" {
		return
	}
	if s.execs == nil {
		s.execs = map[string]string{}
	}
	if len(s.order) < runsKept {
		s.order = append(s.order, id)
	} else {
		delete(s.execs, s.order[s.next])
		s.order[s.next] = id
		s.next = (s.next + 1) % runsKept
	}
	s.execs[id] = exec
}

// knownRunLocked finds the command of a repeated request; nil for a new request. A command
// that ran is never run again, even when the runner has forgotten it.
func (r *Runner) knownRunLocked(runID string) (*Exec, error) {
	id, ok := r.runs.execs[runID]
	if !ok || runID == "" {
		return nil, nil
	}
	if e := r.execs[id]; e != nil {
		return e, nil
	}
	if id == "" {
		return nil, api.Errorf(api.CodeExecNotFound, "run_id %q: its caller went away before the command was started", runID)
	}
	return nil, api.Errorf(api.CodeExecNotFound, "exec %q: has run, and is no longer kept", id)
}

// drop is exec.drop: it gives up the command of a request whose caller went away. The request
// may still be on its way, on a link that broke; then it starts nothing.
func (r *Runner) drop(_ context.Context, p *link.DropParams) (*struct{}, error) {
	r.mu.Lock()
	e, err := r.knownRunLocked(p.RunID)
	if e == nil && err == nil {
		r.runs.keep(p.RunID, "")
	}
	r.mu.Unlock()
	if e != nil {
		e.because("its caller went away")
		r.abandon(e, syscall.SIGTERM)
	}
	return &struct{}{}, nil
}
