package runner

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
)

// outlet is our end of the pipe with one output of a program. One goroutine reads it.
type outlet struct {
	file   *os.File
	raw    syscall.RawConn
	pipe   process.FileID
	log    *output.Log
	stream output.Stream

	// The reader takes mu before bytes leave the pipe, until they are in the log: under mu every
	// byte is in one of them. On a busy machine a reader may pause for seconds between the two.
	mu    sync.Mutex
	taken int64 // guarded by mu; bytes that are in the log
}

func newOutlet(file *os.File, log *output.Log, stream output.Stream) (*outlet, error) {
	o := &outlet{file: file, log: log, stream: stream}
	var err error
	if o.raw, err = file.SyscallConn(); err != nil {
		return o, err
	}
	return o, o.raw.Control(func(fd uintptr) { o.pipe = process.FileIDOf(int(fd)) })
}

// take waits for output and moves some of it into the log. At its end it returns io.EOF.
func (o *outlet) take() error {
	var n int
	var err error
	wait := o.raw.Read(func(fd uintptr) (done bool) {
		n, err = o.tryTake(int(fd))
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case wait != nil:
		return wait
	case err == nil && n == 0:
		return io.EOF
	}
	return err
}

// tryTake is take without waiting: then it returns EAGAIN.
func (o *outlet) tryTake(fd int) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	buf := o.log.Reserve(o.stream)
	for err = unix.EINTR; err == unix.EINTR; {
		n, err = unix.Read(fd, buf)
	}
	n = max(n, 0) // -1 with an error
	o.log.Commit(o.stream, n)
	o.taken += int64(n)
	return n, err
}

// progress returns how many bytes are in the log, and how many were written to the pipe.
func (o *outlet) progress() (taken, written int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	written = o.taken
	_ = o.raw.Control(func(fd uintptr) { // it fails when the pipe is closed
		written += int64(process.Readable(int(fd)))
	})
	return o.taken, written
}
