package process

import (
	"os"
	"syscall"
	"time"
)

// Handle names one process by id and start time, which is checked before each
// signal. It is not safe for concurrent use.
type Handle struct {
	info  Info
	ended bool // seen to have ended
}

// Open takes hold of a process. It is false if that process has ended, also when
// its id lives on in another one.
func Open(i Info) (*Handle, bool) {
	h := &Handle{info: i}
	return h, h.alive()
}

// Signal sends sig to the process. One that has ended answers os.ErrProcessDone.
func (h *Handle) Signal(sig syscall.Signal) error {
	if !h.alive() {
		return os.ErrProcessDone
	}
	err := syscall.Kill(h.info.PID, sig)
	if err == syscall.ESRCH {
		return os.ErrProcessDone
	}
	return err
}

// Close lets go of the process.
func (h *Handle) Close() {}

// checkEvery is how often WaitGone looks.
const checkEvery = 10 * time.Millisecond

// WaitGone waits until all the processes have ended, whether reaped or not. It is
// false if some have not when the deadline passes; a deadline in the past only looks.
func WaitGone(hs []*Handle, deadline time.Time) bool {
	for {
		left := 0
		for _, h := range hs {
			if !h.ended {
				h.ended = !h.alive()
			}
			if !h.ended {
				left++
			}
		}
		wait := time.Until(deadline)
		if left == 0 || wait <= 0 {
			return left == 0
		}
		time.Sleep(min(wait, checkEvery))
	}
}
