package shell

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// Errors of Input.Write.
var (
	ErrInputClosed = errors.New("the input is closed")
	ErrInputFull   = errors.New("too much input waits to be read")
	ErrInputUnread = errors.New("no process reads the input")
)

// Input is the stdin of a command, written while the command runs. It queues the data that does
// not fit into the pipe, so that Write never blocks. It is safe for concurrent use; only the
// goroutine that runs the command watches and closes the pipe.
type Input struct {
	limit int64 // most bytes in the queue; 0: no limit

	mu      sync.Mutex
	queue   [][]byte   // guarded by mu; data that is not in the pipe yet
	pending int64      // guarded by mu; bytes in queue
	taken   int64      // guarded by mu; bytes accepted in total
	closed  bool       // guarded by mu; an end of file follows the queue
	ended   bool       // guarded by mu; no process can read the pipe any more
	pipe    *inputPipe // guarded by mu; nil while the command does not run
}

// NewInput makes an Input that queues at most limit bytes and begins with first.
func NewInput(limit int64, first []byte) *Input {
	in := &Input{limit: limit, pending: int64(len(first)), taken: int64(len(first))}
	if len(first) > 0 {
		in.queue = [][]byte{first}
	}
	return in
}

// Write accepts data, and with end the end of the input. The caller must not change data
// afterwards. taken counts the bytes accepted in total, and pending those in the queue. If wake
// is true, the caller must call Wake on the Shell or Feed, which has more to write or to close.
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
	in.flushLocked()
	if in.ended {
		return in.taken, 0, true, ErrInputUnread
	}
	return in.taken, in.pending, in.pipe != nil && (in.closed || len(in.queue) > 0), nil
}

// Open reports whether Write accepts data.
func (in *Input) Open() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return !in.closed && !in.ended
}

// Discard drops the queue; Write accepts nothing any more. It is for a command that does not run.
func (in *Input) Discard() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.dropLocked()
}

// Drained returns the pipe if all accepted data has been read, else a zero FileID: only then can
// a process be waiting for more. taken counts the bytes accepted.
func (in *Input) Drained() (pipe process.FileID, taken int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.pipe != nil && !in.closed && !in.ended && len(in.queue) == 0 && in.pipe.empty() {
		pipe = in.pipe.id
	}
	return pipe, in.taken
}

// flushLocked moves as much of the queue as possible into the pipe.
func (in *Input) flushLocked() {
	for len(in.queue) > 0 && in.pipe != nil && in.pipe.write >= 0 && !in.ended {
		n, err := unix.Write(in.pipe.write, in.queue[0])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return
		case err != nil: // EPIPE
			in.dropLocked()
			return
		}
		in.pending -= int64(n)
		if in.queue[0] = in.queue[0][n:]; len(in.queue[0]) == 0 {
			in.queue[0] = nil
			in.queue = in.queue[1:]
		}
	}
}

// dropLocked drops the queue, because no process can read it any more.
func (in *Input) dropLocked() { in.ended, in.queue, in.pending = true, nil, 0 }

// attachInput makes the pipe for a command that is about to run.
func (s *Shell) attachInput(in *Input) (path string, err error) {
	p, err := newInputPipe(s.dir.stdin(), s.Wake, s.cfg.Isolated)
	if err != nil {
		return "", err
	}
	in.mu.Lock()
	in.pipe = p
	in.mu.Unlock()
	s.input = in
	return p.path, nil
}

// watchInput moves as much input as possible into the pipe of the running command, and returns
// the descriptor and the events to wait for before the next call. It closes a pipe that has all
// of the input or has no reader.
func (s *Shell) watchInput() (fd int, events int16) {
	in := s.input
	in.mu.Lock()
	defer in.mu.Unlock()
	fd = in.pipe.writeEnd()
	in.flushLocked()
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

// begun is called from time to time while the command runs in a process shell, with out as its
// stdout; see inputPipe.opened.
func (in *Input) begun(shell int, out string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.pipe.opened(shell, out)
}

// inputFailed is called when the kernel reports that the pipe has no reader any more.
func (s *Shell) inputFailed() {
	s.input.mu.Lock()
	defer s.input.mu.Unlock()
	s.input.dropLocked()
}

// detachInput ends the input of a command that has ended. A background process that reads the
// pipe still gets the queue, which is empty as a rule, and then the end of file.
func (s *Shell) detachInput() {
	in := s.input
	if in == nil {
		return
	}
	s.input = nil
	in.mu.Lock()
	defer in.mu.Unlock()
	if fd := in.pipe.writeEnd(); fd >= 0 {
		s.poller.forget(fd)
	}
	in.pipe.release(in.queue)
	in.pipe = nil
	in.dropLocked()
}
