package process

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reaper starts children and reaps every child of this process that ends: those that it started,
// and the orphans that a subreaper adopts. It waits for any child, so a process can have only one
// Reaper, and nothing else in it may wait for children, as os/exec does.
//
// It has one goroutine, which ends with Close. Its methods may be called from any goroutine.
type Reaper struct {
	sigs chan os.Signal // SIGCHLD; one may stand for several children
	quit chan struct{}
	done chan struct{} // closed when the goroutine ends

	// Start holds mu during fork and registration, and reapOne during wait and removal. So a
	// child is registered before it can be reaped, and a registered process id is never stale.
	mu       sync.Mutex
	closed   bool
	children map[int]*Process
	orphan   func(pid int, e Exit)
}

// NewReaper makes a Reaper and starts its goroutine.
func NewReaper() *Reaper {
	r := &Reaper{
		sigs:     make(chan os.Signal, 1),
		quit:     make(chan struct{}),
		done:     make(chan struct{}),
		children: make(map[int]*Process),
	}
	signal.Notify(r.sigs, syscall.SIGCHLD)
	go r.loop()
	return r
}

func (r *Reaper) loop() {
	defer close(r.done)
	// The signals of children that ended before Notify were lost.
	r.Reap()
	for {
		select {
		case <-r.sigs:
			r.Reap()
		case <-r.quit:
			r.Reap()
			return
		}
	}
}

// Reap reaps every child that has ended. The goroutine does that too, at each SIGCHLD; a caller
// that learns of an end in another way need not wait for it.
func (r *Reaper) Reap() {
	for r.reapOne() {
	}
}

func (r *Reaper) reapOne() bool {
	var ws syscall.WaitStatus
	var ru syscall.Rusage

	r.mu.Lock()
	pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, &ru)
	for err == syscall.EINTR {
		pid, err = syscall.Wait4(-1, &ws, syscall.WNOHANG, &ru)
	}
	if err != nil || pid <= 0 {
		r.mu.Unlock()
		return false
	}
	p := r.children[pid]
	if p != nil {
		p.reaped = true
		delete(r.children, pid)
	}
	orphan := r.orphan
	r.mu.Unlock()

	switch exit := exitOf(ws, &ru); {
	case p != nil:
		p.exit = exit
		close(p.done)
	case orphan != nil:
		orphan(pid, exit)
	}
	return true
}

// Start starts a child. It returns when the program runs, or could not be run.
//
// On Linux the kernel lists a child under the thread that forked it, and a ChildWatch on this
// process reads only the list of the main thread. A caller that uses a ChildWatch must therefore
// call Start from a goroutine that is locked to the main thread (runtime.LockOSThread in an init
// function). Children and Descendants read the lists of all threads.
func (r *Reaper) Start(spec Spec) (*Process, error) {
	fds := make([]uintptr, len(spec.Files))
	for i, f := range spec.Files {
		if f == nil {
			return nil, errors.New("start " + spec.Path + ": file " + strconv.Itoa(i) + " is nil")
		}
		// Fd puts the file into blocking mode, as a child expects.
		fds[i] = f.Fd()
	}
	p := &Process{reaper: r, done: make(chan struct{})}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("start " + spec.Path + ": the reaper is closed")
	}
	var pid int
	var err error
	if len(spec.Calls) > 0 {
		pid, err = forkExec(spec, fds)
	} else {
		pid, err = syscall.ForkExec(spec.Path, spec.Args, &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: fds, Sys: sysProcAttr(spec)})
	}
	runtime.KeepAlive(spec.Files)
	if err != nil {
		return nil, startError(spec, err)
	}
	p.PID = pid
	r.children[pid] = p
	return p, nil
}

// startError returns the error of a failed start. It names the working directory if that cannot be
// entered: the kernel reports the error of the child, but not which step failed.
func startError(spec Spec, err error) error {
	if _, ok := err.(*os.PathError); ok {
		return err // of a call
	}
	if spec.Dir != "" && errors.Is(enterError(spec.Dir), err) {
		return &os.PathError{Op: "chdir", Path: spec.Dir, Err: err}
	}
	if err == syscall.EAGAIN {
		err = ErrLimit
	}
	return &os.PathError{Op: "start", Path: spec.Path, Err: err}
}

// enterError returns the reason why dir cannot be a working directory, nil if it can.
func enterError(dir string) error {
	if st, err := os.Stat(dir); err != nil {
		return err
	} else if !st.IsDir() {
		return syscall.ENOTDIR
	}
	return unix.Access(dir, unix.X_OK)
}

// OnOrphan sets the function that is called for every reaped process that Start did not start. The
// Reaper's goroutine calls it and reaps nothing until it returns.
func (r *Reaper) OnOrphan(call func(pid int, e Exit)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphan = call
}

// Close stops reaping and waits for the goroutine, so it must not be called from the function of
// OnOrphan. It does not end children; the Done of those that are still alive is never closed. A
// second Close does nothing.
func (r *Reaper) Close() {
	r.mu.Lock()
	closed := r.closed
	r.closed = true
	r.mu.Unlock()
	if !closed {
		signal.Stop(r.sigs)
		close(r.quit)
	}
	<-r.done
}
