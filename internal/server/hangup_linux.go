package server

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchHangup calls gone when the peer has closed both directions. The returned
// function ends the watch and waits for it. The connection must not be read until then.
//
// A unix socket whose peer has only shut down writing is readable (end of file)
// and has POLLRDHUP; POLLHUP comes when the peer is closed (unix_poll in the
// kernel). The event wakes the runtime's poller, so no thread waits here.
func watchHangup(conn net.Conn, sc syscall.Conn, gone func()) (stop func()) {
	raw, err := sc.SyscallConn()
	if err != nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if raw.Read(hungUp) == nil {
			gone()
		}
	}()
	return func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		<-done
		_ = conn.SetReadDeadline(time.Time{})
	}
}

func hungUp(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd)}} // POLLHUP and POLLERR need not be asked for
	for {
		n, err := unix.Poll(fds, 0)
		if err == unix.EINTR {
			continue
		}
		return n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
	}
}
