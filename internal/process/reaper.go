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

// Reaper starts children and reaps everything that ends below this process: the
// children it started, and the orphans that a subreaper adopts. There is at most
// one per OS process, and nothing else there may wait for children (os/exec
// does), because it waits for any child.
//
// It owns one goroutine, which ends with Close. Its methods may be called from
// any goroutine.
type Reaper struct {
	sigs chan os.Signal // SIGCHLD; many may come as one, so each means "look until nothing is left"
	quit chan struct{}
	done chan struct{} // closed by the goroutine at its end

	// mu is held over fork and registration, and over wait and removal. So a child
	// is known before it can be reaped, and a known process id is never stale.
	mu       sync.Mutex
	closed   bool
	children map[int]*Process
	orphan   func(pid int, e Exit)
}

// NewReaper starts to reap.
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
	// Children that ended before Notify raised no signal that we could see.
	r.reap()
	for {
		select {
		case <-r.sigs:
			r.reap()
		case <-r.quit:
			r.reap()
			return
		}
	}
}

// reap collects every child that has ended.
func (r *Reaper) reap() {
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
// On Linux the kernel lists a child under the thread that forked it. A ChildWatch
// on this process sees it only if that is the main thread: a caller that uses one
// calls Start from a goroutine locked to the main thread (runtime.LockOSThread in
// an init function). Children and Descendants look at all threads.
func (r *Reaper) Start(spec Spec) (*Process, error) {
	fds := make([]uintptr, len(spec.Files))
	for i, f := range spec.Files {
		if f == nil {
			return nil, errors.New("start " + spec.Path + ": file " + strconv.Itoa(i) + " is nil")
		}
		// Fd puts the file into blocking mode, which is what a child expects.
		fds[i] = f.Fd()
	}
	attr := &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: fds, Sys: sysProcAttr(spec)}
	p := &Process{reaper: r, done: make(chan struct{})}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("start " + spec.Path + ": the reaper is closed")
	}
	pid, err := syscall.ForkExec(spec.Path, spec.Args, attr)
	runtime.KeepAlive(spec.Files)
	if err != nil {
		return nil, startError(spec, err)
	}
	p.PID = pid
	r.children[pid] = p
	return p, nil
}

// startError names the directory when that is what could not be entered: the
// child reports the number of the error only, not the step.
func startError(spec Spec, err error) error {
	if spec.Dir != "" && errors.Is(enterError(spec.Dir), err) {
		return &os.PathError{Op: "chdir", Path: spec.Dir, Err: err}
	}
	if err == syscall.EAGAIN {
		err = ErrLimit
	}
	return &os.PathError{Op: "start", Path: spec.Path, Err: err}
}

func enterError(dir string) error {
	if st, err := os.Stat(dir); err != nil {
		return err
	} else if !st.IsDir() {
		return syscall.ENOTDIR
	}
	return unix.Access(dir, unix.X_OK)
}

// OnOrphan sets what is called for every reaped process that Start did not make.
// The call comes from the reaper's goroutine: nothing is reaped until it returns.
func (r *Reaper) OnOrphan(call func(pid int, e Exit)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphan = call
}

// Close stops reaping and waits for the goroutine, so it must not be called from
// OnOrphan's function. Children that are still alive stay so; their Done is not
// closed any more. A second Close does nothing.
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
