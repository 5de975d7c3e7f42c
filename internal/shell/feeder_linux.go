package shell

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// watchesPipes reports whether the Go runtime can wait for a pipe.
const watchesPipes = true

// A feeder writes data to a pipe that the shell opens by path: a command's stdin, or the state
// for a new shell. The data never touches a disk. The feeder's goroutine ends when it has
// written everything or the pipe has no reader any more.
//
// The pipe has no name but the one in /proc. Unlike a FIFO, it can be opened again (cat
// /dev/stdin) after its writer has closed it.
//
// For an isolated shell it is a file instead, as the text of commands always is: a FIFO whose writer
// has closed it could not be opened again.
type feeder struct {
	path string
	read int // -1 for a file
}

func newFeeder(path string, data []byte, isolated bool) (*feeder, error) {
	if isolated {
		_ = os.Remove(path) // an earlier reader may still hold the old one
		return &feeder{path: path, read: -1}, writeFile(path, data)
	}
	r, w, err := pipe(false, false)
	if err != nil {
		return nil, err
	}
	go writeAndClose(w, [][]byte{data})
	return &feeder{path: "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(r), read: r}, nil
}

// release is called when the command has ended. It closes our reading end; a background job that
// reads the pipe keeps it alive.
func (f *feeder) release() {
	if f.read < 0 {
		_ = os.Remove(f.path)
		return
	}
	unix.Close(f.read)
}

// inputPipe is the pipe of an Input, whose mu guards it.
type inputPipe struct {
	path string
	fifo bool // path is a FIFO, which release removes
	// closed is set by closeWrite if it waits for the shell to open the FIFO, and closed then.
	closed chan struct{}
	id     process.FileID
	read   int // keeps the pipe readable until the shell has opened it; then -1
	write  int // non-blocking; -1 after closeWrite
}

func newInputPipe(path string, _ func(), isolated bool) (*inputPipe, error) {
	if isolated {
		r, w, err := openFIFO(path)
		if err != nil {
			return nil, err
		}
		unix.SetNonblock(w, true)
		return &inputPipe{path: path, fifo: true, id: process.FileIDOf(r), read: r, write: w}, nil
	}
	r, w, err := pipe(false, true)
	if err != nil {
		return nil, err
	}
	return &inputPipe{path: "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(r), id: process.FileIDOf(r), read: r, write: w}, nil
}

// fedPipe returns the pipe of a Feed, whose program has the reading end from its start.
func fedPipe(write int) *inputPipe {
	return &inputPipe{id: process.FileIDOf(write), read: -1, write: write}
}

// writeEnd returns the writing end, -1 if it is closed.
func (p *inputPipe) writeEnd() int { return p.write }

// empty reports whether everything in the pipe has been read.
func (p *inputPipe) empty() bool {
	n, err := unix.IoctlGetInt(p.write, unix.TIOCINQ)
	return err == nil && n == 0
}

// opened closes our reading end if the command has begun. Then the kernel reports when the
// command, and every process that inherited its stdin, has closed it. The command has begun if
// the shell has the pipe or out, the command's stdout, open: shells open stdin before stdout, and
// one of the two is still open unless the command has closed both.
func (p *inputPipe) opened(shell int, out string) {
	if p.read < 0 {
		return
	}
	stdin := "pipe:[" + strconv.FormatUint(p.id.Ino, 10) + "]"
	if p.fifo {
		stdin = p.path
	}
	dir := "/proc/" + strconv.Itoa(shell) + "/fd"
	names, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, n := range names {
		if to, err := os.Readlink(dir + "/" + n.Name()); err == nil && (to == stdin || to == out) {
			unix.Close(p.read)
			p.read = -1
			return
		}
	}
}

// closeWrite closes the writing end. A FIFO whose writer has closed it cannot be opened, so it waits
// for the shell to open a FIFO first: opening a writing end waits for a reader.
func (p *inputPipe) closeWrite() {
	w := p.write
	p.write = -1
	if !p.fifo || p.read < 0 {
		unix.Close(w)
		return
	}
	unix.Close(p.read)
	p.read, p.closed = -1, make(chan struct{})
	go func() {
		defer close(p.closed)
		fd, err := unix.Open(p.path, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		for err == unix.EINTR {
			fd, err = unix.Open(p.path, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
		if err == nil {
			unix.Close(fd)
		}
		unix.Close(w)
	}()
}

// release gives up both ends. A background process that still reads gets the rest first.
func (p *inputPipe) release(rest [][]byte) {
	if p.closed != nil { // the shell has perhaps not opened the FIFO
		if fd, err := unix.Open(p.path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			<-p.closed
			unix.Close(fd)
		}
	}
	if p.fifo {
		_ = os.Remove(p.path)
	}
	if p.read >= 0 {
		unix.Close(p.read)
	}
	switch {
	case p.write < 0:
	case len(rest) > 0:
		go writeAndClose(p.write, rest)
	default:
		unix.Close(p.write)
	}
}
