package process

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
)

// ReserveThreads creates n idle threads. The Go runtime never ends a thread, and aborts the process
// if it needs another one and the system refuses, at the limit of processes of the user or of the
// cgroup. A process that has created its threads at its start does not depend on the limit later.
// If there is no room for the threads, the process aborts now, when no other process depends on it
// yet.
func ReserveThreads(n int) {
	var ready sync.WaitGroup
	release := make(chan struct{})
	ready.Add(n)
	for range n {
		go func() {
			// Each goroutine occupies a thread until all of them do.
			runtime.LockOSThread()
			ready.Done()
			<-release
			runtime.UnlockOSThread()
		}()
	}
	ready.Wait()
	close(release)
}

// ErrLimit is the error of Start when the limit of processes of the user or of a cgroup is reached.
var ErrLimit error = limitError{}

type limitError struct{}

func (limitError) Error() string {
	return "the limit of processes is reached (ulimit -u, TasksMax of systemd, pids.max of the container)"
}

// Is makes ErrLimit match the error of the system call too.
func (limitError) Is(err error) bool { return err == syscall.EAGAIN }

// NoRoom reports whether an error means that the system has no room for another process or file
// now, but may have room later.
func NoRoom(err error) bool {
	for _, e := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
