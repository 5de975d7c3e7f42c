package shell

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// watchesPipes reports whether the Go runtime can wait for a pipe. On macOS it cannot wait for
// the FIFOs that are used here.
const watchesPipes = false

// A feeder writes data to a FIFO that the shell opens by path: a command's stdin, or the state
// for a new shell. The data never touches a disk. The feeder's goroutine ends when it has
// written everything or the FIFO has no reader any more. It would wait without a limit for a
// reader that never opens the FIFO; release prevents that.
type feeder struct {
	path   string
	opened chan struct{} // closed when the FIFO has, or had, a reader
}

func newFeeder(path string, data []byte, _ bool) (*feeder, error) {
	os.Remove(path) // an earlier reader may still hold the old one
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	f := &feeder{path: path, opened: make(chan struct{})}
	go f.feed(data)
	return f, nil
}

func (f *feeder) feed(data []byte) {
	fd, err := openWriter(f.path)
	close(f.opened)
	if err == nil {
		writeAndClose(fd, [][]byte{data})
	}
}

// openWriter opens a FIFO for writing, which waits for a reader.
func openWriter(path string) (fd int, err error) {
	for {
		if fd, err = unix.Open(path, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != unix.EINTR {
			return fd, err
		}
	}
}

// release is called when the command has ended. It opens the FIFO for reading for a moment, so
// that a feeder that still waits for a reader ends. A feeder that is read by a background job
// continues.
func (f *feeder) release() {
	fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	os.Remove(f.path)
	if err != nil {
		return // the path no longer exists, so the feeder's open has failed or succeeded
	}
	<-f.opened
	unix.Close(fd)
}

// inputPipe is the FIFO of an Input, whose mu guards it. Its goroutine ends when the shell, or
// release, has opened the other end.
type inputPipe struct {
	path   string
	id     process.FileID
	ready  chan int // receives the writing end once; -1 if it could not be opened
	waited bool     // ready has been received
	write  int      // non-blocking; -1 before the shell opens its end, and after closeWrite
}

func newInputPipe(path string, wake func(), _ bool) (*inputPipe, error) {
	os.Remove(path) // an earlier reader may still hold the old one
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	p := &inputPipe{path: path, ready: make(chan int, 1), write: -1}
	go func() {
		fd, err := openWriter(path)
		if err != nil {
			fd = -1
		} else {
			unix.SetNonblock(fd, true)
		}
		p.ready <- fd
		wake()
	}()
	return p, nil
}

// fedPipe returns the pipe of a Feed, whose program has the reading end from its start.
func fedPipe(write int) *inputPipe { return &inputPipe{waited: true, write: write} }

// writeEnd returns the writing end, -1 if it is not open.
func (p *inputPipe) writeEnd() int {
	if !p.waited {
		select {
		case p.write = <-p.ready:
			p.waited = true
		default:
		}
	}
	return p.write
}

// empty returns false: macOS does not report which process waits for input, so the answer is
// never needed.
func (p *inputPipe) empty() bool { return false }

// opened does nothing: on macOS this process does not hold a reading end.
func (p *inputPipe) opened(int, string) {}

func (p *inputPipe) closeWrite() {
	unix.Close(p.write)
	p.write = -1
}

// release gives up the FIFO. A background process that still reads it gets the rest first.
func (p *inputPipe) release(rest [][]byte) {
	fd, err := unix.Open(p.path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	os.Remove(p.path)
	if err == nil {
		if !p.waited {
			p.write, p.waited = <-p.ready, true
		}
		unix.Close(fd)
	}
	switch {
	case p.writeEnd() < 0:
	case len(rest) > 0:
		go writeAndClose(p.write, rest)
	default:
		unix.Close(p.write)
	}
}
