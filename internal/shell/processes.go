package shell

import (
	"os"
	"slices"
	"time"

	"github.com/trl-dev/trl/internal/process"
)

// present returns the descendants of the shell and of this process, without the shell itself.
// In a session without background jobs, the result is empty and the call is cheap.
func (s *Shell) present() map[int]uint64 {
	if len(s.shellKids.List(nil)) == 0 && len(s.ourKids.List(nil)) <= 1 {
		return nil
	}
	seen := map[int]uint64{}
	for _, p := range s.ourKids.Descendants(nil) {
		if p.PID != s.proc.PID {
			seen[p.PID] = p.StartTime
		}
	}
	return seen
}

// scope determines which processes belong to a command. It never changes.
type scope struct {
	shell   int                     // process id
	foreign func(process.Info) bool // see Config.Foreign; may be nil
	earlier map[int]uint64          // processes older than the command: pid → start time
	strays  func() []process.Info   // see Config.Strays; may be nil
}

// isEarlier reports whether p was started before the command.
func (s scope) isEarlier(p process.Info) bool {
	start, ok := s.earlier[p.PID]
	return ok && start == p.StartTime
}

// notOurs reports whether p must be skipped when searching below this process: it is older than
// the command, or it is the shell, whose descendants are searched separately, or it does not
// come from the shell.
func (s scope) notOurs(p process.Info) bool {
	return p.PID == s.shell || s.isEarlier(p) || s.foreign != nil && p.PPID == os.Getpid() && s.foreign(p)
}

// processes returns the living processes of the command: the descendants of the shell and the
// orphans that this process has adopted, without those of earlier commands.
func (s scope) processes() []process.Info {
	list := process.Descendants(s.shell, s.isEarlier)
	return s.withOrphans(list, process.Descendants(os.Getpid(), s.notOurs))
}

// withOrphans completes the descendants of the shell.
func (s scope) withOrphans(list, orphans []process.Info) []process.Info {
	list = append(list, orphans...)
	if s.strays != nil {
		list = append(list, s.strays()...)
	}
	return list
}

// scope returns the scope of the command, for the current shell process.
func (r *run) scope() scope { return scope{r.proc.PID, r.cfg.Foreign, r.earlier, r.strays} }

func (r *run) isEarlier(p process.Info) bool { return r.scope().isEarlier(p) }
func (r *run) notOurs(p process.Info) bool   { return r.scope().notOurs(p) }

// processes is faster than that of the scope.
func (r *run) processes() (list []process.Info) {
	s := r.scope()
	if r.shellKids != nil { // else the shell died and could not be started again
		list = r.shellKids.Descendants(s.isEarlier)
	}
	return s.withOrphans(list, r.ourKids.Descendants(s.notOurs))
}

// straysFromNow returns Config.Strays for a command that begins now. The times of processes are
// coarse: a process of the last command may seem to start with this one, if that command has only
// just ended. It is noted here as an earlier one.
func (s *Shell) straysFromNow() func() []process.Info {
	since := process.Now()
	earlier := scope{earlier: map[int]uint64{}}
	if s.lastEnd >= since {
		for _, p := range s.cfg.Strays(since) {
			earlier.earlier[p.PID] = p.StartTime
		}
	}
	return func() []process.Info { return slices.DeleteFunc(s.cfg.Strays(since), earlier.isEarlier) }
}

// account charges the command with the processor time that the shell has used since it was last
// charged. The kernel counts in ticks of 10 ms, so a short command is not worth the query; its
// time is charged to the next long one.
func (r *run) account() {
	s := r.Shell
	if time.Since(r.start) < 5*time.Millisecond {
		return
	}
	if in, ok := process.Stat(s.proc.PID); ok {
		r.oc.UserMS, r.oc.SystemMS = in.UserMS-s.cpuUser, in.SystemMS-s.cpuSystem
		s.cpuUser, s.cpuSystem = in.UserMS, in.SystemMS
	}
}

// sampleMemory reads the peak memory of the command's processes, soon after the start and then
// less and less often. It must sample because the kernel reports the peak of a process only
// while the process lives. It returns the time of the next sample.
func (r *run) sampleMemory(now time.Time) time.Time {
	if due := r.start.Add(r.rssNext); now.Before(due) {
		return due
	}
	for _, p := range r.processes() {
		r.oc.MaxRSSBytes = max(r.oc.MaxRSSBytes, process.HighWaterRSS(p.PID))
	}
	if r.input != nil {
		r.input.begun(r.proc.PID, r.req.stdout)
	}
	r.rssNext = min(r.rssNext*4, r.rssNext+time.Second)
	return r.start.Add(r.rssNext)
}
