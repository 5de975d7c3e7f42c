package process

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
)

// ReserveThreads makes sure that this process has n idle threads. The Go runtime keeps
// a thread for ever once it has it, and aborts the process when it needs another one
// and the system refuses: at the user's limit of processes, or that of the cgroup. A
// process that made its threads at its start does not depend on the limit later. Where
// there is no room for them, the process aborts now, when nobody depends on it yet.
func ReserveThreads(n int) {
	var ready sync.WaitGroup
	release := make(chan struct{})
	ready.Add(n)
	for range n {
		go func() {
			// Each of them holds a thread, until all of them do.
			runtime.LockOSThread()
			ready.Done()
			<-release
			runtime.UnlockOSThread()
		}()
	}
	ready.Wait()
	close(release)
}

// ErrLimit is why a process could not be started when there are too many: the limit of
// the user, or of a cgroup.
var ErrLimit error = limitError{}

type limitError struct{}

func (limitError) Error() string {
	return "the limit of processes is reached (ulimit -u, TasksMax of systemd, pids.max of the container)"
}

// Is makes it the error of the system call, too.
func (limitError) Is(err error) bool { return err == syscall.EAGAIN }

// NoRoom reports whether an error says that the system has no room for another process
// or file now, and may have it later.
func NoRoom(err error) bool {
	for _, e := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
