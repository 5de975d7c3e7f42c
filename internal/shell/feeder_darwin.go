package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

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
	fd, err := unix.Open(f.path, unix.O_WRONLY|unix.O_CLOEXEC, 0) // waits for a reader
	for err == unix.EINTR {
		fd, err = unix.Open(f.path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	}
	close(f.opened)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for len(data) > 0 {
		n, err := unix.Write(fd, data[:min(len(data), 64<<10)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return // EPIPE: nobody reads any more
		}
		data = data[n:]
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
