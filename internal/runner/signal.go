package runner

import (
	"context"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// signal is exec.signal.
func (r *Runner) signal(ctx context.Context, p *api.ExecSignalParams) (*api.ExecSignalResult, error) {
	e, err := r.find(p.ExecID)
	if err != nil {
		return nil, err
	}
	sig, ok := process.AnySignal(p.Signal)
	if !ok {
		return nil, api.InvalidParam("signal", "%.40q is not a signal of this system", p.Signal)
	}
	if err := e.awaitRunning(ctx); err != nil {
		return nil, err
	}
	res := &api.ExecSignalResult{ExecID: e.ID, Signal: process.SignalName(sig), Processes: []api.Process{}}
	for _, in := range e.task.processes(p.To != api.SignalTree) {
		h, ok := process.Open(in)
		if !ok {
			continue
		}
		one := api.Process{PID: in.PID, Command: process.CommandLine(in.PID)}
		if h.Signal(sig) == nil {
			res.Processes = append(res.Processes, one)
		}
		h.Close()
	}
	return res, nil
}

// awaitRunning waits for a command that is about to run, so that a signal can follow its start
// at once. A command that is queued behind another is not waited for.
func (e *Exec) awaitRunning(ctx context.Context) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		switch {
		case happened(e.ended):
			return e.hasEnded()
		case e.task.Running():
			return nil
		case !happened(e.turn):
			return api.Errorf(api.CodeConflict, "exec %q: is queued and does not run yet", e.ID)
		}
		select {
		case <-tick.C:
		case <-e.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
