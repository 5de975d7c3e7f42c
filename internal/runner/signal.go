package runner

import (
	"context"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// signal is exec.signal.
func (r *Runner) signal(_ context.Context, p *api.ExecSignalParams) (*api.ExecSignalResult, error) {
	e, err := r.find(p.ExecID)
	if err != nil {
		return nil, err
	}
	sig, ok := process.AnySignal(p.Signal)
	switch {
	case !ok:
		return nil, api.Errorf(api.CodeInvalidParams, "params.signal: %.40q is not a signal of this system", p.Signal)
	case happened(e.ended):
		return nil, e.hasEnded()
	case !e.task.Running():
		return nil, api.Errorf(api.CodeConflict, "exec %q: does not run now", e.ID)
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
