package shell

import (
	"os"
	"time"

	"github.com/trl-dev/trl/internal/process"
)

// present is what runs below the shell and below us, the shell left out. It is
// empty, and cheap, in a session without background jobs.
func (s *Shell) present() map[int]uint64 {
	if len(s.shellKids.List(nil)) == 0 && len(s.ourKids.List(nil)) <= 1 {
		return nil
	}
	seen := map[int]uint64{}
	for _, p := range process.Descendants(os.Getpid(), nil) {
		if p.PID != s.proc.PID {
			seen[p.PID] = p.StartTime
		}
	}
	return seen
}

// scope says which processes are those of a command. It never changes.
type scope struct {
	shell   int            // process id
	earlier map[int]uint64 // processes that were there before: pid → start time
	strays  func() []process.Info
}

func (s scope) isEarlier(p process.Info) bool {
	start, ok := s.earlier[p.PID]
	return ok && start == p.StartTime
}

// notOurs leaves out earlier jobs, and, seen from us, the shell: what is below
// the shell is looked at from there.
func (s scope) notOurs(p process.Info) bool { return p.PID == s.shell || s.isEarlier(p) }

// processes are those of the command that live now: below the shell, or
// orphans that came to us, and not below a job of an earlier command.
func (s scope) processes() []process.Info {
	list := process.Descendants(s.shell, s.isEarlier)
	list = append(list, process.Descendants(os.Getpid(), s.notOurs)...)
	if s.strays != nil {
		list = append(list, s.strays()...)
	}
	return list
}

// scope is that of the command, below the shell that is there now.
func (r *run) scope() scope { return scope{r.proc.PID, r.earlier, r.strays} }

func (r *run) isEarlier(p process.Info) bool { return r.scope().isEarlier(p) }
func (r *run) notOurs(p process.Info) bool   { return r.scope().notOurs(p) }
func (r *run) processes() []process.Info     { return r.scope().processes() }

// account takes the command's share of the shell's processor time. The kernel tells
// it in ticks of 10 ms, so a short command is not worth the question; what it used
// counts for the next long one.
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

// sampleMemory looks at the high-water marks of the command's processes, soon
// after the start and then more and more seldom: the kernel remembers the peak of
// a process, but only while it lives. It returns when to look again.
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
