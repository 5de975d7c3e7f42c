package wire

import (
	"os"

	"golang.org/x/sys/unix"
)

// WatchFile calls gone when nobody can read any more what is written to f: a pipe or a
// terminal whose other end is closed. The returned function ends the watch and waits for
// it. The files of stdio are not in the runtime's poller, so a thread waits here.
func WatchFile(f *os.File, gone func()) (stop func()) {
	r, w, err := os.Pipe()
	if err != nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fds := []unix.PollFd{{Fd: int32(f.Fd())}, {Fd: int32(r.Fd())}} // POLLHUP and POLLERR need not be asked for
		for {
			_, err := unix.Poll(fds, -1)
			switch {
			case err == unix.EINTR:
				continue
			case err != nil || fds[1].Revents != 0:
				return
			}
			gone()
			return
		}
	}()
	return func() {
		w.Close()
		<-done
		r.Close()
	}
}
