package cli

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// errTimeout is the error of a wait that took too long.
var errTimeout = errors.New("timed out")

// watchProcess returns a function that waits until the process has ended. Call it once.
func watchProcess(pid int) (func(time.Duration) error, error) {
	kq, err := unix.Kqueue()
	if err != nil {
		return nil, err
	}
	change := unix.Kevent_t{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT}
	_, err = unix.Kevent(kq, []unix.Kevent_t{change}, nil, nil)
	if errors.Is(err, unix.ESRCH) {
		_ = unix.Close(kq)
		return func(time.Duration) error { return nil }, nil
	}
	if err != nil {
		_ = unix.Close(kq)
		return nil, err
	}
	return func(timeout time.Duration) error {
		defer unix.Close(kq)
		deadline := time.Now().Add(timeout)
		for {
			left := unix.NsecToTimespec(max(0, time.Until(deadline).Nanoseconds()))
			n, err := unix.Kevent(kq, nil, make([]unix.Kevent_t, 1), &left)
			switch {
			case errors.Is(err, unix.EINTR):
			case err != nil:
				return err
			case n == 0:
				return errTimeout
			default:
				return nil
			}
		}
	}, nil
}
