package egress

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// conn is a socket. It is an os.File, which waits with the poller of the Go runtime as package net
// does; package net itself would add 467 KB to the runner.
type conn struct{ *os.File }

// closeWrite tells the other side that nothing more comes.
func (c conn) closeWrite() {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
}

func sockaddr(a Addr, port int) (family int, sa unix.Sockaddr) {
	if a.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte(a[12:])}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: a}
}

// dial connects to an address. kind is SOCK_STREAM or SOCK_DGRAM.
func dial(kind int, a Addr, port int, deadline time.Time) (conn, error) {
	family, sa := sockaddr(a, port)
	fd, err := socket(family, kind)
	if err != nil {
		return conn{}, err
	}
	if kind == unix.SOCK_STREAM {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1) // finds peers that vanished
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	err = unix.Connect(fd, sa)
	if err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return conn{}, err
	}
	c := conn{os.NewFile(uintptr(fd), "socket")}
	if err == nil {
		return c, nil
	}
	_ = c.SetDeadline(deadline)
	if err = c.connected(); err != nil {
		c.Close()
		return conn{}, err
	}
	_ = c.SetDeadline(time.Time{})
	return c, nil
}

// isOwn reports whether an address is one of this machine: then it is also the address from which the
// kernel would reach it.
func isOwn(a Addr) bool {
	family, sa := sockaddr(a, 9) // nothing is sent to it
	fd, err := socket(family, unix.SOCK_DGRAM)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if unix.Connect(fd, sa) != nil {
		return false
	}
	switch from, _ := unix.Getsockname(fd); from := from.(type) {
	case *unix.SockaddrInet4:
		return addr4(from.Addr) == a
	case *unix.SockaddrInet6:
		return Addr(from.Addr) == a
	}
	return false
}

// connected waits until a socket that connects has connected.
func (c conn) connected() error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	result := error(nil)
	err = raw.Write(func(fd uintptr) bool {
		number, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case err != nil:
			result = err
		case number != 0:
			result = unix.Errno(number)
		default:
			_, err := unix.Getpeername(int(fd))
			return err == nil // else it still connects
		}
		return true
	})
	return errors.Join(err, result)
}

// Listen opens a listener on the loopback of this process's network, at a port that is free. The
// caller passes it to Serve.
func Listen() (listener *os.File, port int, err error) {
	family, sa := sockaddr(loopback4, 0)
	fd, err := socket(family, unix.SOCK_STREAM)
	if err != nil {
		return nil, 0, err
	}
	if err = unix.Bind(fd, sa); err == nil {
		err = unix.Listen(fd, 128)
	}
	if err == nil {
		port, err = portOf(fd)
	}
	if err != nil {
		unix.Close(fd)
		return nil, 0, os.NewSyscallError("listen on the loopback", err)
	}
	return os.NewFile(uintptr(fd), "proxy"), port, nil
}

// portOf returns the port of a socket.
func portOf(fd int) (int, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	if sa4, ok := sa.(*unix.SockaddrInet4); ok {
		return sa4.Port, nil
	}
	return 0, unix.EAFNOSUPPORT
}
