package runner

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// accept takes the next connection, ready for the poller and closed in children.
func accept(listener int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, _, err := unix.Accept(listener)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	return fd, unix.SetNonblock(fd, true)
}

// ownPeer reports whether the other end belongs to our user, or to root.
func ownPeer(fd int) bool {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	return err == nil && (cred.Uid == uint32(os.Getuid()) || cred.Uid == 0)
}
