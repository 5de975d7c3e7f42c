package process

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// resetLibrarySignals resets signals 32 and 33 to their default actions. glibc ignores them in the
// children of posix_spawn, and all descendants would inherit that.
func resetLibrarySignals() {
	type sigaction struct {
		handler  uintptr
		flags    uint64
		restorer uintptr
		mask     uint64
	}
	const ignored = 1 // SIG_IGN
	for sig := uintptr(32); sig <= 33; sig++ {
		var old, def sigaction
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&old)), 8, 0, 0)
		if errno == 0 && old.handler == ignored {
			unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&def)), 0, 8, 0, 0)
		}
	}
}
