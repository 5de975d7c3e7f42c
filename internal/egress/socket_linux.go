package egress

import "golang.org/x/sys/unix"

// socket opens a socket, ready for the poller and closed in children.
func socket(family, kind int) (int, error) {
	return unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

// accept takes the next connection, ready for the poller and closed in children.
func accept(listener int) (int, error) {
	fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	return fd, err
}
