package process

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// maxKillPasses limits the second phase: a process that SIGKILL has not ended after so
	// many passes is stuck in the kernel.
	maxKillPasses = 50
	// rescanEvery limits how long a new child goes unnoticed.
	rescanEvery = 20 * time.Millisecond
	// firstUrgePause is the time between the first two urge signals. Later pauses double.
	firstUrgePause = 100 * time.Millisecond
)

// Killed is a line of the receipt: a process that was sent a signal and has ended.
type Killed struct {
	PID     int
	Name    string         // of the program, as the kernel reported it before the kill
	Command string         // CommandLine before the kill
	Signal  syscall.Signal // the strongest signal that was sent
}

// KillTree ends all descendants of root for which skip is not true: it sends the first signal,
// waits up to grace for the processes to end, then sends SIGKILL. It returns when all have ended,
// or when the rest cannot be killed.
func KillTree(root int, first syscall.Signal, grace time.Duration, skip func(Info) bool) []Killed {
	l := NewLadder(root, first, grace, skip)
	defer l.Close()
	return l.run()
}

// KillAll is KillTree for the given processes and their descendants.
func KillAll(infos []Info, first syscall.Signal, grace time.Duration) []Killed {
	l := NewLadder(0, first, grace, nil)
	defer l.Close()
	l.Add(infos...)
	return l.run()
}

// Ladder ends a tree of processes step by step.
//
// In its first phase, it sends every process the first signal, and SIGCONT because a stopped
// process could not act on the signal. Processes that appear later get both as soon as they are
// found. The second phase begins when the grace time is over: the Ladder stops the processes, so
// that no child escapes while they are listed, and kills them.
//
// A Ladder never signals this process, and does not search below it unless it is the root. A Ladder
// is not safe for concurrent use.
type Ladder struct {
	root     Info // only PID and StartTime; PID 0 for none
	self     int
	first    syscall.Signal
	urge     syscall.Signal // for processes that ignore the first signal
	last     int            // the process that gets the first signal after the others; 0 for none
	deadline time.Time      // end of the first phase
	skip     func(Info) bool

	targets []*target       // all processes that were found, in this order
	living  []*target       // the targets that are not known to have ended
	byPID   map[int]*target // the living targets
	groups  map[int]int     // process groups that targets lead or led → their session
	search  func() []Info   // finds processes that have left the tree; may be nil
	scans   int             // made so far
	passes  int             // made in the second phase
}

// target is a process that a Ladder has to end.
type target struct {
	info    Info
	handle  *Handle
	command string
	sent    syscall.Signal // the strongest signal that was sent; 0 for none
	due     bool           // the first signal must be sent, perhaps again
	ignored bool           // the process ignored the first signal when that was sent
	urging  time.Duration  // until urgeAt; 0 if the process has not ignored the first signal
	urgeAt  time.Time      // when the urge signal is sent again
	stopped bool           // SIGSTOP was sent
	denied  bool           // we may not signal it: it belongs to another user
	gone    bool           // it has ended
}

// NewLadder makes a Ladder for all descendants of root for which skip is not true; the descendants
// of a skipped process are skipped too. The grace time starts now. With a grace of 0, or SIGKILL as
// the first signal, there is only the second phase.
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

// Add adds processes and their descendants to the tree: orphans that were found in another way.
func (l *Ladder) Add(infos ...Info) {
	for _, i := range infos {
		if i.PID != l.self {
			l.found(i)
		}
	}
}

// Search sets a function that finds processes of the tree that have left it, for systems where this
// process does not adopt orphans. The function may be expensive, so it is called only in the first
// pass and when no other process is left.
func (l *Ladder) Search(find func() []Info) { l.search = find }

// HangUp makes processes that ignore the first signal get SIGHUP instead of SIGTERM: an interactive
// shell ignores SIGTERM, and exits when its terminal is closed.
func (l *Ladder) HangUp() { l.urge = syscall.SIGHUP }

// Last makes one process the last to get the first signal. A shell that gets it earlier may end its
// jobs itself, and the receipt would lack them.
func (l *Ladder) Last(pid int) { l.last = pid }

// Force begins the second phase now.
func (l *Ladder) Force() { l.deadline = time.Time{} }

// Step makes one pass and returns the number of processes that are still alive, without those that
// may not be signalled. 0 is exact: two looks in a row found the same tree with no living process.
// If the tree keeps changing although no living process is found in it, Step returns 1.
func (l *Ladder) Step() (left int) {
	killing := !time.Now().Before(l.deadline)
	if killing {
		if l.GivenUp() {
			return l.look()
		}
		l.passes++
	}
	// The kernel's list of children can lack one while others are removed from it, and a process
	// can fork a child after the walk has passed it. Neither has happened if two looks find
	// exactly the same processes.
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
			time.Sleep(time.Millisecond) // zombies are being reaped, which the kernel does not report here
		}
	}
	return 1
}

// Wait waits until all known processes have ended, at most for d. Only Step finds new ones.
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

// GivenUp reports whether the second phase has made all its passes. Then Step sends no more
// signals.
func (l *Ladder) GivenUp() bool { return l.passes >= maxKillPasses }

// Killed returns the receipt so far, in the order in which the processes were found.
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

// Close closes the handles of the remaining processes.
func (l *Ladder) Close() {
	for _, t := range l.living {
		t.handle.Close()
	}
	l.living = nil
}

// run calls Step until no process is left or it has given up.
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

// scan finds new targets and updates the known ones. It returns the ids of all processes of the
// tree, including zombies.
func (l *Ladder) scan() []int {
	w := newWalk(func(i Info) bool {
		return i.PID == l.self || l.skip != nil && l.skip(i)
	})
	if now, ok := Stat(l.root.PID); l.root.PID != 0 && ok && now.same(l.root) {
		w.below(l.root.PID)
	}
	// A target whose parents have ended may have been adopted by a process outside the tree.
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

// found adds or updates a process of the tree.
func (l *Ladder) found(i Info) {
	if i.PGID == i.PID {
		l.groups[i.PGID] = i.SID
	}
	if t := l.byPID[i.PID]; t != nil && t.info.same(i) {
		if t.info.Name != i.Name {
			// The process runs another program now, which has not received the signal.
			t.due, t.command = true, CommandLine(i.PID)
		} else if strings.HasPrefix(t.command, "[") {
			// During exec, a process has its new name but no arguments yet.
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

// askOne sends a target the signals that it needs in this pass.
func (l *Ladder) askOne(t *target) {
	if t.ignored && !t.due {
		// Between fork and exec, a child of an interactive shell ignores the signal as the shell
		// does. If it no longer ignores the signal, it has missed it and gets it again. A
		// process that caught the signal does not: it may be busy with cleaning up.
		t.due = !ignores(t.info.PID, l.first)
		if !t.due && l.first != l.urge {
			l.urgeOne(t)
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

// urgeOne sends the urge signal to a target that ignores the first signal: a background job never
// stops ignoring SIGINT. The signal is repeated after longer and longer pauses, because bash does
// not notice one that arrives just before it begins to wait for input.
func (l *Ladder) urgeOne(t *target) {
	now := time.Now()
	if now.Before(t.urgeAt) {
		return
	}
	if t.urging == 0 {
		t.sent = 0 // the first signal had no effect, so the receipt names this one
	}
	t.urging = max(firstUrgePause, 2*t.urging)
	t.urgeAt = now.Add(t.urging)
	l.send(t, l.urge)
}

// kill is a pass of the second phase.
func (l *Ladder) kill() {
	const rounds = 10
	for range rounds {
		fresh := false
		for _, t := range l.living {
			// A child of a process that is not killed is not stopped: a shell with job control
			// would take the stop for its user's ^Z and print a message.
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

// send sends a signal that should end the process.
func (l *Ladder) send(t *target, sig syscall.Signal) {
	switch err := t.handle.Signal(sig); err {
	case nil:
		t.denied = false
		if sig == syscall.SIGKILL || t.sent == 0 {
			t.sent = sig
		}
	case os.ErrProcessDone:
		// look notices that the process has ended.
	default:
		t.denied, t.due = true, true
	}
}

// look finds out which targets have ended, and counts the others.
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
