package process

import (
	"bytes"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
	fionread   = 0x4004667f // FIONREAD of sys/filio.h
)

// unlockSlave allows opening the slave, and returns its path.
func unlockSlave(master int) (path string, err error) {
	var name [128]byte
	for _, req := range []struct {
		op  uintptr
		arg unsafe.Pointer
	}{{unix.TIOCPTYGRANT, nil}, {unix.TIOCPTYUNLK, nil}, {unix.TIOCPTYGNAME, unsafe.Pointer(&name[0])}} {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), req.op, uintptr(req.arg)); errno != 0 {
			return "", &os.PathError{Op: "unlock", Path: "/dev/ptmx", Err: errno}
		}
	}
	return string(name[:max(bytes.IndexByte(name[:], 0), 0)]), nil
}
