package runner

import (
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/limits"
)

// When memory runs out, the kernel kills processes until there is enough. A victim may take long to
// give its memory back, and the kernel then chooses another. The processes of the session are chosen in
// this order: those of commands, the shell, the runner. A shell that dies is replaced; without its
// runner, the session ends.

// weigh sets the scores of a session with these limits.
func (b *bounds) weigh(l *api.Limits, place []api.EnforcedLimit) {
	shared := sharedMemory(l, place)
	victims := limits.OwnScores(shared)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shared, b.victims = shared > 0, victims
}

// scores returns those of the shell and of commands; nil for processes that keep the score of the
// runner. Own is the memory limit of a command, 0 for none.
func (b *bounds) scores(own int64) (shell, command *int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shared {
		shell = new(b.victims.Shell)
	}
	if b.shared || own > 0 || positive(b.limits.MemoryBytes) > 0 {
		command = new(b.victims.Command)
	}
	return shell, command
}

// sharedMemory returns the memory limit that counts the runner too, such as that of its container; 0
// for none.
func sharedMemory(l *api.Limits, place []api.EnforcedLimit) int64 {
	if most := limits.OwnMemory(); most > 0 {
		return most
	}
	for _, e := range place { // which does not show its cgroup
		if e.Limit == api.LimitMemory && l != nil {
			return positive(l.MemoryBytes)
		}
	}
	return 0
}

// preferVictims gives the processes of a command their score, until the meter ends. The shell cannot do
// that for its children, which begin as copies of it. Nil is no score. It looks for new processes less
// and less often, at least once in most.
func (m *meter) preferVictims(e *Exec, score *int, most time.Duration) {
	if score == nil {
		return
	}
	stop := make(chan struct{})
	m.stop = stop
	go func() {
		known := map[int]bool{}
		for wait := 5 * time.Millisecond; ; wait = min(wait*2, most) {
			select {
			case <-stop:
				return
			case <-time.After(wait):
			}
			var pids []int
			for _, p := range e.task.processes(false) {
				if !known[p.PID] {
					known[p.PID] = true
					pids = append(pids, p.PID)
				}
			}
			limits.Prefer(pids, *score)
		}
	}()
}
