package server

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// watchHangup calls gone when the peer has closed both directions. The returned
// function ends the watch and waits for it. The connection must not be read until then.
//
// EVFILT_WRITE has EV_EOF when the peer can read no more, which is not so while it
// has only shut down writing (kqueue(2)). The kqueue is our own, because that of the
// Go runtime does not distinguish the two.
func watchHangup(_ net.Conn, sc syscall.Conn, gone func()) (stop func()) {
	none := func() {}
	raw, err := sc.SyscallConn()
	if err != nil {
		return none
	}
	own := -1
	if err := raw.Control(func(fd uintptr) { own, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || own < 0 {
		return none
	}
	kq, err := unix.Kqueue()
	if err != nil {
		unix.Close(own)
		return none
	}
	unix.CloseOnExec(kq)
	const wake = 1
	changes := make([]unix.Kevent_t, 2)
	unix.SetKevent(&changes[0], own, unix.EVFILT_WRITE, unix.EV_ADD|unix.EV_CLEAR)
	unix.SetKevent(&changes[1], wake, unix.EVFILT_USER, unix.EV_ADD|unix.EV_CLEAR)
	if _, err := unix.Kevent(kq, changes, nil, nil); err != nil {
		unix.Close(kq)
		unix.Close(own)
		return none
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		events := make([]unix.Kevent_t, 2)
		for {
			n, err := unix.Kevent(kq, nil, events, nil)
			if err != nil && err != unix.EINTR {
				return
			}
			for _, ev := range events[:max(n, 0)] {
				if ev.Filter == unix.EVFILT_USER {
					return
				}
				if ev.Flags&unix.EV_EOF != 0 {
					gone()
					return
				}
			}
		}
	}()
	return func() {
		var trigger [1]unix.Kevent_t
		unix.SetKevent(&trigger[0], wake, unix.EVFILT_USER, 0)
		trigger[0].Fflags = unix.NOTE_TRIGGER
		_, _ = unix.Kevent(kq, trigger[:], nil, nil)
		<-done
		unix.Close(kq)
		unix.Close(own)
	}
}
