package runner

import (
	"context"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// usage answers the call usage: the resources that the session uses now.
func (r *Runner) usage(context.Context, *struct{}) (*api.SessionUsage, error) {
	r.mu.Lock()
	u := &api.SessionUsage{SessionID: r.cfg.SessionID, Name: r.params.Params.Name, State: r.state}
	if r.current != nil {
		u.Command = r.current.params.Command
	} else if len(r.parallel) > 0 {
		u.Command = r.parallel[0].params.Command
	}
	if len(u.Command) > 200 {
		u.Command = u.Command[:200]
	}
	r.mu.Unlock()
	var user, system, memory int64
	pids := r.cgroup.Procs()
	if r.cgroup == nil {
		pids = r.pids()
	}
	for _, p := range statAll(pids...) {
		u.Processes++
		user += p.UserMS
		system += p.SystemMS
		use := process.UseOf(p.PID)
		memory += use.RSSBytes
		u.ReadBytes += use.ReadBytes
		u.WrittenBytes += use.WrittenBytes
	}
	s := r.group.Stats()
	u.UserMS, u.SystemMS, u.MemoryBytes = user, system, memory
	if s.HasCPU {
		u.UserMS, u.SystemMS = s.UserMS, s.SystemMS
	}
	if s.MemoryBytes > 0 {
		u.MemoryBytes = s.MemoryBytes
	}
	u.ThrottledMS, u.ForksRefused, u.OOMKills = s.ThrottledMS, s.ForksRefused, s.OOMKills
	return u, nil
}
