package process

import "errors"

// ErrUnseen means that the system does not report what a process waits for.
var ErrUnseen = errors.New("the system does not report what a process waits for")

// FileID identifies a file while it is open; the zero value identifies none.
type FileID struct{ Dev, Ino uint64 }

// Reader is a thread that is blocked, waiting for input. If two calls return equal values, the
// thread has not run between them.
type Reader struct {
	PID      int
	thread   int
	call     string // the system call as the kernel prints it
	switches string // how often the thread has given up the processor
}
