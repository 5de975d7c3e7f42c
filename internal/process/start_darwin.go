package process

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxRSSUnit is the unit, in bytes, in which wait4 returns the maximum resident size.
const maxRSSUnit = 1

func sysProcAttr(spec Spec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: spec.Setsid, Setctty: spec.Setctty, Ctty: 0}
}

// Call is for Linux: no Spec has one here.
type Call struct{}

func forkExec(Spec, []uintptr) (int, error) { return 0, syscall.ENOSYS }

// BecomeSubreaper returns false: on macOS, launchd adopts all orphans.
func BecomeSubreaper() bool { return false }

// SubreaperError returns the reason why BecomeSubreaper returns false.
func SubreaperError() error { return errors.New("macOS has none") }

func closeOnExecFrom3() {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd >= 3 {
			unix.CloseOnExec(fd)
		}
	}
}
