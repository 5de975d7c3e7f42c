package shell

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

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
	go feed(w, data)
	return &feeder{path: "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(r), read: r}, nil
}

func feed(w int, data []byte) {
	defer unix.Close(w)
	for len(data) > 0 {
		n, err := unix.Write(w, data[:min(len(data), 64<<10)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return // EPIPE: nobody reads any more
		}
		data = data[n:]
	}
}

// release is called when the command has ended: our end is closed. A job in the
// background that reads the pipe keeps it alive.
func (f *feeder) release() { unix.Close(f.read) }
