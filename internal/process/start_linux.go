package process

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxRSSUnit is the unit, in bytes, in which wait4 returns the maximum resident size.
const maxRSSUnit = 1024

func sysProcAttr(spec Spec) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: spec.Setsid, Setctty: spec.Setctty, Ctty: 0}
	if spec.CgroupFD > 0 {
		attr.UseCgroupFD, attr.CgroupFD = true, spec.CgroupFD
	}
	if attr.Cloneflags = spec.Cloneflags; attr.Cloneflags&unix.CLONE_NEWUSER != 0 {
		uid, gid := os.Geteuid(), os.Getegid()
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = spec.AmbientCaps
	}
	return attr
}

// BecomeSubreaper makes this process the parent of every orphan among its descendants, even of one
// that has forked twice and left its session. It returns false if the system does not support
// that.
func BecomeSubreaper() bool {
	return !scanOnly() && unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
}

// SubreaperError returns nil if BecomeSubreaper would succeed, else the reason why not.
func SubreaperError() error {
	if scanOnly() {
		return errors.New(ScanVariable + " is set")
	}
	var is int32 // reading the flag shows whether the kernel has it
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0))
}

func closeOnExecFrom3() {
	// Since Linux 5.11. It does not miss descriptors that other threads open at the same time.
	if unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	dir, err := os.Open("/proc/self/fd")
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
