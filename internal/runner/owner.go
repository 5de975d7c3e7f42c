package runner

import (
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// besides tells apart the processes of the programs that run beside the shell.
type besides struct {
	begun atomic.Int64 // programs that were started

	// begin locks mu while it starts a program, so that the process is never seen without its
	// entry in leaders.
	mu      sync.Mutex
	leaders map[int]*beside // guarded by mu; by process id, also after the end of the process
}

// ownerOf returns the exec beside the shell to which a process belongs that is a child of the
// runner; empty if it comes from the shell. A cgroup is certain. Without one, a process is known
// by a variable in its environment. One whose environment was cleared is known by its session,
// or because an earlier look found it below the program.
func (r *Runner) ownerOf(p process.Info) string {
	r.besides.mu.Lock()
	defer r.besides.mu.Unlock()
	if b := r.besides.leaders[p.PID]; b != nil && !happened(b.run.Load().proc.Done()) {
		return b.id
	}
	if sub := r.cgroup.SubOf(p.PID); strings.HasPrefix(sub, "x-") { // others are of the shell
		return sub
	}
	if id, ok := process.Env(p.PID, api.ExecMarker); ok {
		return id
	}
	if _, ok := process.Env(p.PID, api.SessionMarker); ok {
		return ""
	}
	if b := r.besides.leaders[p.SID]; b != nil {
		return b.id
	}
	for _, b := range r.besides.leaders {
		if start, ok := b.known[p.PID]; ok && start == p.StartTime {
			return b.id
		}
	}
	return ""
}

// foreign is for shell.Config.
func (r *Runner) foreign(p process.Info) bool {
	return r.besides.begun.Load() > 0 && r.ownerOf(p) != ""
}

// shellStrays is the Config.Strays of the shell.
func (r *Runner) shellStrays(since uint64) []process.Info {
	return slices.DeleteFunc(r.strays(since), r.foreign)
}

// all returns the living processes of the program.
func (b *beside) all() (list []process.Info) {
	r, run := b.runner, b.run.Load()
	if run == nil {
		return nil
	}
	if b.cgroup != nil {
		return statAll(b.cgroup.Procs()...)
	}
	self := os.Getpid()
	list = process.Descendants(self, func(p process.Info) bool {
		return p.PPID == self && (r.shell != nil && p.PID == r.shell.PID() || r.ownerOf(p) != b.id)
	})
	if r.strays != nil {
		list = append(list, process.Strays(api.ExecMarker, b.id, b.since)...)
	}
	return list
}

// forgetBeside is called when nothing is kept of a program.
func (r *Runner) forgetBeside(b *beside) {
	r.besides.mu.Lock()
	defer r.besides.mu.Unlock()
	if run := b.run.Load(); run != nil && r.besides.leaders[run.proc.PID] == b {
		delete(r.besides.leaders, run.proc.PID)
	}
}

// look notes the processes of the program, which can be found again later wherever they are.
func (b *beside) look() {
	known := map[int]uint64{}
	for _, p := range b.all() {
		known[p.PID] = p.StartTime
	}
	b.runner.besides.mu.Lock()
	b.known = known
	b.runner.besides.mu.Unlock()
}

// statAll returns the processes that live.
func statAll(pids ...int) (list []process.Info) {
	for _, pid := range pids {
		if p, ok := process.Stat(pid); ok && !p.Ended() {
			list = append(list, p)
		}
	}
	return list
}
