package shell

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// watchesPipes says that the Go runtime can wait for a pipe.
const watchesPipes = true

// A feeder gives data to a shell that opens a path: a command's stdin, or the
// state for a new shell. Nothing of it touches a disk. Its goroutine ends when
// everything is written or nobody reads any more.
//
// It is an anonymous pipe, opened through /proc: unlike a FIFO it can be opened
// again (cat /dev/stdin) when its writer is gone.
type feeder struct {
	path string
	read int
}

func newFeeder(_ string, data []byte) (*feeder, error) {
	r, w, err := pipe(false, false)
	if err != nil {
		return nil, err
	}
	go feed(w, [][]byte{data})
	return &feeder{path: "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(r), read: r}, nil
}

// release is called when the command has ended: our end is closed. A job in the
// background that reads the pipe keeps it alive.
func (f *feeder) release() { unix.Close(f.read) }

// inputPipe is the pipe of an Input, guarded by its mu.
type inputPipe struct {
	path  string
	id    process.FileID
	read  int // ours, so that there is a reader until the shell is one; then -1
	write int // non-blocking; -1 once it is closed
}

func newInputPipe(string, func()) (*inputPipe, error) {
	r, w, err := pipe(false, true)
	if err != nil {
		return nil, err
	}
	return &inputPipe{path: "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(r), id: process.FileIDOf(r), read: r, write: w}, nil
}

// fedPipe is that of a Feed, whose program has the reading end from its start.
func fedPipe(write int) *inputPipe {
	return &inputPipe{id: process.FileIDOf(write), read: -1, write: write}
}

// take returns the writing end, -1 when there is none.
func (p *inputPipe) take() int { return p.write }

// empty reports whether everything in the pipe has been read.
func (p *inputPipe) empty() bool {
	n, err := unix.IoctlGetInt(p.write, unix.TIOCINQ)
	return err == nil && n == 0
}

// opened gives up our reading end when the command has begun, so that the kernel tells
// when it, and everybody it gave it to, has closed its stdin. Shells open stdin before
// stdout, which is out; one of them is still there unless the command has closed both.
func (p *inputPipe) opened(shell int, out string) {
	if p.read < 0 {
		return
	}
	stdin := "pipe:[" + strconv.FormatUint(p.id.Ino, 10) + "]"
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

func (p *inputPipe) closeWrite() {
	unix.Close(p.write)
	p.write = -1
}

// release gives up both ends. Where somebody still reads, it gets the rest first.
func (p *inputPipe) release(rest [][]byte) {
	if p.read >= 0 {
		unix.Close(p.read)
	}
	switch {
	case p.write < 0:
	case len(rest) > 0:
		go feed(p.write, rest)
	default:
		unix.Close(p.write)
	}
}
