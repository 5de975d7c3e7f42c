package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// accept takes the next connection, ready for the poller and closed in children.
func accept(listener int) (int, error) {
	fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	return fd, err
}

// ownPeer reports whether the process at the other end runs as the user of the runner, or as root.
func ownPeer(fd int) bool {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && (cred.Uid == uint32(os.Getuid()) || cred.Uid == 0)
}
