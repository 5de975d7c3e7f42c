package process

import "errors"

// ErrUnseen says that this system does not tell what a process waits for.
var ErrUnseen = errors.New("the system does not report what a process waits for")

// FileID names a file for as long as it is open; the zero value names none.
type FileID struct{ Dev, Ino uint64 }

// Reader is a thread that was seen to be blocked, waiting for input. Two looks that
// give equal values saw a thread that has not moved in between.
type Reader struct {
	PID      int
	thread   int
	call     string // the system call as the kernel writes it down
	switches string
}
