package wire

import (
	"os"

	"golang.org/x/sys/unix"
)

// WatchFile calls closed when f, a pipe or a terminal, has no reader any more. The returned
// function ends the watch and waits for its goroutine. The Go runtime cannot watch the files of
// stdio, so the goroutine blocks a thread.
func WatchFile(f *os.File, closed func()) (stop func()) {
	r, w, err := os.Pipe()
	if err != nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fds := []unix.PollFd{{Fd: int32(f.Fd())}, {Fd: int32(r.Fd())}} // poll always reports POLLHUP and POLLERR
		for {
			_, err := unix.Poll(fds, -1)
			switch {
			case err == unix.EINTR:
				continue
			case err != nil || fds[1].Revents != 0:
				return
			}
			closed()
			return
		}
	}()
	return func() {
		w.Close()
		<-done
		r.Close()
	}
}
