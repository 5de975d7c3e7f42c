package process

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// maxKillPasses bounds the second phase: what SIGKILL has not ended after so
	// many passes is stuck in the kernel.
	maxKillPasses = 50
	// rescanEvery is how long a new child may go unnoticed.
	rescanEvery = 20 * time.Millisecond
)

// Killed is a line of the receipt: a process that was signalled and is gone.
type Killed struct {
	PID     int
	Name    string         // of the program, as the kernel knew it before the kill
	Command string         // as CommandLine told it before the kill
	Signal  syscall.Signal // the strongest one it was sent
}

// KillTree ends everything below root for which skip is not true, with patience:
// the signal first, up to grace for the processes to end, then SIGKILL. It returns
// when nothing is left, or when what is left cannot be killed.
func KillTree(root int, first syscall.Signal, grace time.Duration, skip func(Info) bool) []Killed {
	l := NewLadder(root, first, grace, skip)
	defer l.Close()
	return l.run()
}

// KillAll does what KillTree does, to the given processes and everything below them.
func KillAll(infos []Info, first syscall.Signal, grace time.Duration) []Killed {
	l := NewLadder(0, first, grace, nil)
	defer l.Close()
	l.Add(infos...)
	return l.run()
}

// Ladder ends a tree of processes step by step.
//
// In its first phase every process gets the first signal and SIGCONT, because a
// stopped one could not act on it; those that appear later get it as soon as they
// are seen. The second phase begins when the grace time is over: the processes are
// stopped, so that no child escapes while they are listed, and killed.
//
// This process itself, and what is below it on another way than through root, is
// never touched. A Ladder is not safe for concurrent use.
type Ladder struct {
	root     Info // only PID and StartTime; PID 0 for none
	self     int
	first    syscall.Signal
	urge     syscall.Signal // for who ignores the first
	last     int            // the process that is asked after the others; 0 for none
	deadline time.Time      // end of the first phase
	skip     func(Info) bool

	targets []*target       // all that were ever found, in that order
	living  []*target       // those of them that are not known to be gone
	byPID   map[int]*target // the living
	groups  map[int]int     // process groups that targets lead or led, with their session
	search  func() []Info   // finds what has left the tree; nil for nothing
	scans   int
	passes  int // made in the second phase
}

// target is a process that a Ladder is to end.
type target struct {
	info    Info
	handle  *Handle
	command string
	sent    syscall.Signal // the strongest signal it was sent; 0 for none
	due     bool           // the first signal is to be sent, again perhaps
	ignored bool           // it ignored the first signal when that was sent
	urged   bool           // the second signal was sent, because it ignores the first
	stopped bool           // SIGSTOP was sent
	denied  bool           // it belongs to someone whom we may not signal
	gone    bool
}

// NewLadder makes a ladder for everything below root for which skip is not true;
// what is below a skipped process is left out with it. The grace time runs from now.
// With a grace of 0, or SIGKILL as the first signal, there is only the second phase.
func NewLadder(root int, first syscall.Signal, grace time.Duration, skip func(Info) bool) *Ladder {
	l := &Ladder{
		self:     os.Getpid(),
		first:    first,
		urge:     syscall.SIGTERM,
		deadline: time.Now().Add(grace),
		skip:     skip,
		byPID:    make(map[int]*target),
		groups:   make(map[int]int),
	}
	if root > 0 {
		l.root, _ = Stat(root)
	}
	if first == syscall.SIGKILL {
		l.Force()
	}
	return l
}

// Add makes further processes, and all below them, part of the tree: orphans that
// were found in another way.
func (l *Ladder) Add(infos ...Info) {
	for _, i := range infos {
		if i.PID != l.self {
			l.found(i)
		}
	}
}

// Search sets a way to find what belongs to the tree and has left it, where orphans do
// not come to this process. It is used first of all, and again whenever nothing else is
// left: it may look at all processes of the machine.
func (l *Ladder) Search(find func() []Info) { l.search = find }

// HangUp asks who ignores the first signal by SIGHUP instead of SIGTERM: an interactive
// shell ignores SIGTERM, and ends when its terminal goes away.
func (l *Ladder) HangUp() { l.urge = syscall.SIGHUP }

// Last makes one process the last that is asked to end. A shell that is asked first may end
// its jobs itself, and the receipt would not name them.
func (l *Ladder) Last(pid int) { l.last = pid }

// Force begins the second phase now.
func (l *Ladder) Force() { l.deadline = time.Time{} }

// Step makes one pass and returns how many processes live on. A process that may
// not be signalled is not counted. 0 is a promise: the tree was looked at until it
// held still, and there was nothing alive in it. It returns 1 when the tree does not hold
// still although nothing alive can be caught in it.
func (l *Ladder) Step() (left int) {
	killing := !time.Now().Before(l.deadline)
	if killing {
		if l.GivenUp() {
			return l.look()
		}
		l.passes++
	}
	// The kernel's list of children can miss one while others are taken from it, and
	// a process can leave a child behind after its place in the tree was passed. Neither
	// can happen if two looks met exactly the same processes.
	const looks = 16
	var before []int
	for try := range looks {
		met := l.scan()
		if killing {
			l.kill()
		} else {
			l.ask()
		}
		if left = l.look(); left > 0 {
			return left
		}
		slices.Sort(met)
		if try > 0 && slices.Equal(before, met) {
			return 0
		}
		before = met
		if try >= looks/4 {
			time.Sleep(time.Millisecond) // zombies are being reaped; let that end
		}
	}
	return 1
}

// Wait waits until all processes that are known have ended, at most for d. It does
// not see new ones: that is what Step is for.
func (l *Ladder) Wait(d time.Duration) {
	handles := make([]*Handle, 0, len(l.living))
	for _, t := range l.living {
		if !t.denied {
			handles = append(handles, t.handle)
		}
	}
	if len(handles) == 0 {
		time.Sleep(min(d, time.Millisecond))
		return
	}
	WaitGone(handles, time.Now().Add(d))
}

// GivenUp reports whether the second phase has made all its passes. Step sends no
// more signals then.
func (l *Ladder) GivenUp() bool { return l.passes >= maxKillPasses }

// Killed is the receipt until now, in the order in which the processes were found.
func (l *Ladder) Killed() []Killed {
	l.look()
	list := make([]Killed, 0, len(l.targets))
	for _, t := range l.targets {
		if t.gone && t.sent != 0 {
			list = append(list, Killed{PID: t.info.PID, Name: t.info.Name, Command: t.command, Signal: t.sent})
		}
	}
	return list
}

// Close lets go of the processes that are left.
func (l *Ladder) Close() {
	for _, t := range l.living {
		t.handle.Close()
	}
	l.living = nil
}

func (l *Ladder) run() []Killed {
	for l.Step() > 0 && !l.GivenUp() {
		wait := rescanEvery
		if left := time.Until(l.deadline); left > 0 {
			wait = min(wait, left)
		}
		l.Wait(wait)
	}
	return l.Killed()
}

// scan finds the targets and what is new about them. It returns the ids of all
// processes it met, those that had ended included.
func (l *Ladder) scan() []int {
	w := newWalk(func(i Info) bool {
		return i.PID == l.self || l.skip != nil && l.skip(i)
	})
	if now, ok := Stat(l.root.PID); l.root.PID != 0 && ok && now.same(l.root) {
		w.below(l.root.PID)
	}
	// A target whose parents are gone may have been adopted by someone outside.
	for _, t := range l.living {
		w.include(t.info)
	}
	w.includeGroups(l.groups)
	if l.search != nil && (l.scans == 0 || len(w.live) == 0) {
		for _, i := range l.search() {
			w.include(i)
		}
	}
	l.scans++
	for _, i := range w.live {
		l.found(i)
	}
	return w.pids
}

// found takes in a process that is part of the tree.
func (l *Ladder) found(i Info) {
	if i.PGID == i.PID {
		l.groups[i.PGID] = i.SID
	}
	if t := l.byPID[i.PID]; t != nil && t.info.same(i) {
		if t.info.Name != i.Name {
			// Another program runs in it now, which has not seen the signal.
			t.due, t.command = true, CommandLine(i.PID)
		} else if strings.HasPrefix(t.command, "[") {
			// In the middle of an exec a process has its new name, but no arguments.
			t.command = CommandLine(i.PID)
		}
		t.info = i
		return
	}
	handle, ok := Open(i)
	if !ok {
		return
	}
	t := &target{info: i, handle: handle, command: CommandLine(i.PID), due: true}
	l.targets = append(l.targets, t)
	l.living = append(l.living, t)
	l.byPID[i.PID] = t
}

// ask is a pass of the first phase.
func (l *Ladder) ask() {
	for _, t := range l.living {
		if t.info.PID != l.last {
			l.askOne(t)
		}
	}
	if t := l.byPID[l.last]; t != nil {
		l.askOne(t)
	}
}

func (l *Ladder) askOne(t *target) {
	if t.ignored && !t.due {
		// A child of an interactive shell ignores the signal between fork and
		// exec, as the shell does. It was lost on it if it does no longer. One that
		// caught the signal is not asked twice: it may be busy with its farewell.
		t.due = !ignores(t.info.PID, l.first)
		if !t.due && !t.urged && l.first != l.urge {
			// A background job ignores SIGINT for good: it is asked in another way.
			t.urged, t.sent = true, 0
			l.send(t, l.urge)
		}
	}
	if t.due {
		t.ignored = ignores(t.info.PID, l.first)
		t.due = false
		l.send(t, l.first)
		t.handle.Signal(syscall.SIGCONT)
	} else if t.info.State == 'T' {
		t.handle.Signal(syscall.SIGCONT)
	}
}

// kill is a pass of the second phase.
func (l *Ladder) kill() {
	const rounds = 10
	for range rounds {
		fresh := false
		for _, t := range l.living {
			// A child of someone who lives on is not stopped: a shell with job
			// control would take that for its user's ^Z, and say so.
			if !t.stopped && l.byPID[t.info.PPID] != nil {
				t.handle.Signal(syscall.SIGSTOP)
				t.stopped, fresh = true, true
			}
		}
		if !fresh {
			break
		}
		l.scan()
	}
	for _, t := range l.living {
		l.send(t, syscall.SIGKILL)
	}
}

// send sends a signal that is meant to end the process.
func (l *Ladder) send(t *target, sig syscall.Signal) {
	switch err := t.handle.Signal(sig); err {
	case nil:
		t.denied = false
		if sig == syscall.SIGKILL || t.sent == 0 {
			t.sent = sig
		}
	case os.ErrProcessDone:
		// look will see it.
	default:
		t.denied, t.due = true, true
	}
}

// look finds out which targets are gone, and counts the others.
func (l *Ladder) look() (left int) {
	handles := make([]*Handle, len(l.living))
	for i, t := range l.living {
		handles[i] = t.handle
	}
	WaitGone(handles, time.Time{})
	l.living = slices.DeleteFunc(l.living, func(t *target) bool {
		if t.handle.ended {
			t.gone = true
			t.handle.Close()
			if l.byPID[t.info.PID] == t {
				delete(l.byPID, t.info.PID)
			}
			return true
		}
		if !t.denied {
			left++
		}
		return false
	})
	return left
}
