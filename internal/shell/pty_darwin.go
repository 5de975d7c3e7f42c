package shell

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal: the master, non-blocking, and the slave.
func openTerminal() (master int, slave *os.File, err error) {
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	var name [128]byte
	for _, req := range []struct {
		op  uintptr
		arg uintptr
	}{{unix.TIOCPTYGRANT, 0}, {unix.TIOCPTYUNLK, 0}, {unix.TIOCPTYGNAME, uintptr(unsafe.Pointer(&name[0]))}} {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), req.op, req.arg); errno != 0 {
			err = errno
			break
		}
	}
	if err == nil {
		end := max(bytes.IndexByte(name[:], 0), 0)
		slave, err = os.OpenFile(string(name[:end]), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		unix.Close(master)
		return -1, nil, fmt.Errorf("pseudo-terminal: %w", err)
	}
	return master, slave, nil
}
