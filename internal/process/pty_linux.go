package process

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
	fionread   = unix.TIOCINQ
)

// unlockSlave allows opening the slave, and returns its path.
func unlockSlave(master int) (path string, err error) {
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return "", &os.PathError{Op: "unlock", Path: "/dev/ptmx", Err: err}
	}
	return "/dev/pts/" + strconv.Itoa(n), nil
}
