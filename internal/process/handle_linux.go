package process

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Handle identifies one process, so that a signal cannot reach another one that got the same id.
// It is not safe for concurrent use.
type Handle struct {
	info  Info
	fd    int  // pidfd; -1 if there is none: then the start time is checked before each use
	ended bool // the process is known to have ended
}

// Open returns a Handle for a process. It returns false if the process has ended, even if another
// one has its id.
func Open(i Info) (*Handle, bool) {
	h := &Handle{info: i, fd: -1}
	if pidfdWorks() {
		fd, err := unix.PidfdOpen(i.PID, 0)
		if err == unix.ESRCH {
			return nil, false
		}
		if err == nil {
			h.fd = fd // with any other error, such as too many open files, the start time is used
		}
	}
	// The start time is checked after the descriptor was opened. If it is still the expected
	// one, the descriptor refers to the right process.
	if !h.alive() {
		h.Close()
		return nil, false
	}
	return h, true
}

// pidfdWorks reports whether pidfds can be opened and used to send signals: since Linux 5.3, and
// unless a system call filter refuses them.
var pidfdWorks = sync.OnceValue(func() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, 0, nil, 0) == nil
})

// Signal sends sig to the process. If the process has ended, the error is os.ErrProcessDone.
func (h *Handle) Signal(sig syscall.Signal) error {
	var err error
	switch {
	case h.fd >= 0:
		err = unix.PidfdSendSignal(h.fd, sig, nil, 0)
	case h.alive():
		err = unix.Kill(h.info.PID, sig)
	default:
		err = unix.ESRCH
	}
	if err == unix.ESRCH {
		return os.ErrProcessDone
	}
	return err
}

// Close closes the descriptor.
func (h *Handle) Close() {
	if h.fd >= 0 {
		unix.Close(h.fd)
		h.fd = -1
	}
}

// checkEvery is the time between two checks of a process without a pidfd. The kernel cannot
// report its end, so WaitGone polls.
const checkEvery = 10 * time.Millisecond

// WaitGone waits until all processes have ended, whether reaped or not. It returns false if some
// have not ended by the deadline; a deadline in the past only checks.
func WaitGone(hs []*Handle, deadline time.Time) bool {
	polled := make([]unix.PollFd, 0, len(hs))
	waiting := make([]*Handle, 0, len(hs)) // waiting[i] belongs to polled[i]
	for {
		polled, waiting = polled[:0], waiting[:0]
		left := 0
		for _, h := range hs {
			if h.ended {
				continue
			}
			if h.fd < 0 {
				h.ended = !h.alive()
			} else {
				polled = append(polled, unix.PollFd{Fd: int32(h.fd), Events: unix.POLLIN})
				waiting = append(waiting, h)
			}
			if !h.ended {
				left++
			}
		}
		if left == 0 {
			return true
		}
		timeout := min(time.Until(deadline), time.Minute) // poll takes 32 bits
		if left > len(polled) {
			timeout = min(timeout, checkEvery)
		}
		// Rounded up, so that the last wait does not turn into a busy loop.
		n, err := unix.Poll(polled, int(max(0, (timeout+time.Millisecond-1)/time.Millisecond)))
		if err != nil && err != unix.EINTR {
			time.Sleep(min(max(timeout, 0), checkEvery)) // out of memory: try again later
		}
		for i := range polled {
			if n > 0 && polled[i].Revents != 0 {
				waiting[i].ended = true
				left--
			}
		}
		if left == 0 {
			return true
		}
		if !time.Now().Before(deadline) {
			return false
		}
	}
}
