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
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return func(time.Duration) error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	return func(timeout time.Duration) error {
		defer unix.Close(fd)
		deadline := time.Now().Add(timeout)
		for {
			// A pidfd becomes readable when its process ends: pidfd_open(2).
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(0, time.Until(deadline).Milliseconds())))
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
