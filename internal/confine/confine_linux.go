package confine

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// join enters the cgroups of the confinement. It returns what an error is about.
func (c *Confinement) join() (what string, err error) {
	if c.OOMScoreAdj != 0 {
		// A process without it is only a less likely victim, so an error is ignored.
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(c.OOMScoreAdj)), 0)
	}
	fds := make([]int, len(c.Join))
	for i, file := range c.Join {
		if fds[i], err = syscall.Open(file, syscall.O_WRONLY|syscall.O_CLOEXEC, 0); err != nil {
			return file, err
		}
	}
	self := []byte("0")
	for i, fd := range fds {
		// Direct system calls, because entering a group takes long enough for the Go runtime to
		// start another thread, which the group may refuse; the runtime would abort.
		if _, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&self[0])), 1); errno != 0 {
			return c.Join[i], errno
		}
	}
	return "", nil
}
