package process

import (
	"os"
	"syscall"
	"time"
)

// Handle identifies one process by its id and start time, which is checked before each signal. It
// is not safe for concurrent use.
type Handle struct {
	info  Info
	ended bool // the process is known to have ended
}

// Open returns a Handle for a process. It returns false if the process has ended, even if another
// one has its id.
func Open(i Info) (*Handle, bool) {
	h := &Handle{info: i}
	return h, h.alive()
}

// Signal sends sig to the process. If the process has ended, the error is os.ErrProcessDone.
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

// Close does nothing on macOS.
func (h *Handle) Close() {}

// checkEvery is the time between two checks in WaitGone, which polls because macOS has no
// descriptors for processes.
const checkEvery = 10 * time.Millisecond

// WaitGone waits until all processes have ended, whether reaped or not. It returns false if some
// have not ended by the deadline; a deadline in the past only checks.
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
