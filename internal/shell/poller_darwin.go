package shell

import (
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for several descriptors at once, with poll(2): the Go runtime cannot
// watch FIFOs here.
type poller struct{}

func newPoller() (*poller, error) { return &poller{}, nil }

// wait fills in the Revents of fds. A negative descriptor is passed over; a zero
// deadline is none.
func (*poller) wait(fds []unix.PollFd, deadline time.Time) error {
	_, err := unix.Poll(fds, timeout(deadline))
	return err
}

// timeout is the time until deadline for poll, rounded up.
func timeout(deadline time.Time) int {
	if deadline.IsZero() {
		return -1
	}
	d := time.Until(deadline)
	if d <= 0 {
		return 0
	}
	return int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
}

func (*poller) forget(int) {}
func (*poller) close()     {}
