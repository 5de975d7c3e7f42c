package shell

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// What Input.Write refuses with.
var (
	ErrInputClosed = errors.New("the input is closed")
	ErrInputFull   = errors.New("too much input waits to be read")
	ErrInputUnread = errors.New("no process reads the input")
)

// Input is the stdin of a command that is written while it runs. What the command
// has not read yet waits here, so that nobody who writes ever waits for it. It is safe
// for concurrent use; only the goroutine that runs the command watches and closes the pipe.
type Input struct {
	limit int64 // of what may wait; 0: none

	mu      sync.Mutex
	queue   [][]byte   // guarded by mu; what is not in the pipe yet
	pending int64      // guarded by mu; bytes in queue
	taken   int64      // guarded by mu; bytes accepted in all
	closed  bool       // guarded by mu; an end of file follows the queue
	ended   bool       // guarded by mu; nobody can read what would be written
	pipe    *inputPipe // guarded by mu; nil while the command does not run
}

// NewInput makes an Input in which at most limit bytes wait. It begins with first.
func NewInput(limit int64, first []byte) *Input {
	in := &Input{limit: limit, pending: int64(len(first)), taken: int64(len(first))}
	if len(first) > 0 {
		in.queue = [][]byte{first}
	}
	return in
}

// Write accepts data, which it keeps, and with end the end of the input. It returns
// how many bytes have been accepted in all and how many wait. With wake the running
// command's shell must be woken, because there is something left to do.
func (in *Input) Write(data []byte, end bool) (taken, pending int64, wake bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.ended:
		err = ErrInputUnread
	case in.closed:
		err = ErrInputClosed
	case in.limit > 0 && in.pending+int64(len(data)) > in.limit:
		err = ErrInputFull
	}
	if err != nil {
		return in.taken, in.pending, false, err
	}
	if len(data) > 0 {
		in.queue = append(in.queue, data)
		in.pending += int64(len(data))
		in.taken += int64(len(data))
	}
	in.closed = end
	in.flush()
	if in.ended {
		return in.taken, 0, true, ErrInputUnread
	}
	return in.taken, in.pending, in.pipe != nil && (in.closed || len(in.queue) > 0), nil
}

// Open reports whether Write would accept something.
func (in *Input) Open() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return !in.closed && !in.ended
}

// Discard forgets what waits; nothing is accepted any more. It is for a command that
// does not run.
func (in *Input) Discard() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.drop()
}

// Drained names the pipe when everything that was accepted has been read, and tells
// how much that is: only then can somebody be waiting for more.
func (in *Input) Drained() (pipe process.FileID, taken int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.pipe != nil && !in.closed && !in.ended && len(in.queue) == 0 && in.pipe.empty() {
		pipe = in.pipe.id
	}
	return pipe, in.taken
}

// flush moves what it can into the pipe. Call with mu held.
func (in *Input) flush() {
	for len(in.queue) > 0 && in.pipe != nil && in.pipe.write >= 0 && !in.ended {
		n, err := unix.Write(in.pipe.write, in.queue[0])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return
		case err != nil: // EPIPE
			in.drop()
			return
		}
		in.pending -= int64(n)
		if in.queue[0] = in.queue[0][n:]; len(in.queue[0]) == 0 {
			in.queue[0] = nil
			in.queue = in.queue[1:]
		}
	}
}

// drop forgets what nobody can read. Call with mu held.
func (in *Input) drop() { in.ended, in.queue, in.pending = true, nil, 0 }

// attach makes the pipe for a command that is about to run.
func (s *Shell) attach(in *Input) (path string, err error) {
	p, err := newInputPipe(s.dir.stdin(), s.Wake)
	if err != nil {
		return "", err
	}
	in.mu.Lock()
	in.pipe = p
	in.mu.Unlock()
	s.input = in
	return p.path, nil
}

// watchInput moves what it can into the pipe of the running command and tells what to
// wait for before the next time. It closes a pipe that has got everything, or that
// nobody reads.
func (s *Shell) watchInput() (fd int, events int16) {
	in := s.input
	in.mu.Lock()
	defer in.mu.Unlock()
	fd = in.pipe.take()
	in.flush()
	switch {
	case fd < 0:
	case in.ended, in.closed && len(in.queue) == 0:
		s.poller.forget(fd)
		in.pipe.closeWrite()
		return -1, 0
	case len(in.queue) > 0:
		events = unix.POLLOUT
	}
	return fd, events
}

// begun is called from time to time while the command runs in a shell whose stdout is out.
func (in *Input) begun(shell int, out string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.pipe.opened(shell, out)
}

// inputFailed is called when the kernel says that nobody reads the pipe any more.
func (s *Shell) inputFailed() {
	s.input.mu.Lock()
	defer s.input.mu.Unlock()
	s.input.drop()
}

// detach ends the input of a command that has ended. What was accepted is still given
// to whoever in the background reads it; then, at once as a rule, it sees the end.
func (s *Shell) detach() {
	in := s.input
	if in == nil {
		return
	}
	s.input = nil
	in.mu.Lock()
	defer in.mu.Unlock()
	if fd := in.pipe.take(); fd >= 0 {
		s.poller.forget(fd)
	}
	in.pipe.release(in.queue)
	in.pipe = nil
	in.drop()
}
