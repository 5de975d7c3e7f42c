package shell

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// watchesPipes is false: the Go runtime cannot wait for the FIFOs that are used here.
const watchesPipes = false

// A feeder gives data to a shell that opens a path: a command's stdin, or the
// state for a new shell. Nothing of it touches a disk. Its goroutine ends
// when everything is written or nobody reads any more; release sees to it that
// it does not wait for a reader that never comes.
type feeder struct {
	path   string
	opened chan struct{} // there is, or was, a reader
}

func newFeeder(path string, data []byte) (*feeder, error) {
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
		feed(fd, [][]byte{data})
	}
}

// openWriter waits for a reader.
func openWriter(path string) (fd int, err error) {
	for {
		if fd, err = unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0); err != unix.EINTR {
			return fd, err
		}
	}
}

// release is called when the command has ended. A feeder that still waits for a
// reader meets ours; one that is read by a job in the background goes on.
func (f *feeder) release() {
	fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	os.Remove(f.path)
	if err != nil {
		return // the path is gone, so the feeder's open has failed or succeeded
	}
	<-f.opened
	unix.Close(fd)
}

// inputPipe is the pipe of an Input, guarded by its mu. Its goroutine ends when the
// shell has opened the other end, or release has.
type inputPipe struct {
	path   string
	id     process.FileID
	ready  chan int // gives the writing end, -1 when there is none
	waited bool     // ready has given it
	write  int      // non-blocking; -1 while the shell has not opened its end, or once it is closed
}

func newInputPipe(path string, wake func()) (*inputPipe, error) {
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

// fedPipe is that of a Feed, whose program has the reading end from its start.
func fedPipe(write int) *inputPipe { return &inputPipe{waited: true, write: write} }

// take returns the writing end, -1 when there is none.
func (p *inputPipe) take() int {
	if !p.waited {
		select {
		case p.write = <-p.ready:
			p.waited = true
		default:
		}
	}
	return p.write
}

// empty is not needed here: nobody can tell who reads.
func (p *inputPipe) empty() bool { return false }

// opened does nothing: here we are never a reader ourselves.
func (p *inputPipe) opened(int, string) {}

func (p *inputPipe) closeWrite() {
	unix.Close(p.write)
	p.write = -1
}

// release gives up the pipe. Where somebody still reads, it gets the rest first.
func (p *inputPipe) release(rest [][]byte) {
	fd, err := unix.Open(p.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	os.Remove(p.path)
	if err == nil {
		if !p.waited {
			p.write, p.waited = <-p.ready, true
		}
		unix.Close(fd)
	}
	switch {
	case p.take() < 0:
	case len(rest) > 0:
		go feed(p.write, rest)
	default:
		unix.Close(p.write)
	}
}
