package runner

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// joinBuffer is how many bytes pass at once.
const joinBuffer = 256 << 10

// join passes bytes from stdin to the socket and from the socket to stdout. The end of stdin is
// passed on. It returns when the socket ends, or stdout has no reader, and reports whether the runner has
// ended the socket by itself.
func join(socket int) bool {
	for _, fd := range []int{0, 1, socket} {
		_ = unix.SetNonblock(fd, false)
	}
	_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
	widen(0)
	widen(1)
	var left atomic.Bool
	go func() {
		pass(0, socket)
		left.Store(true) // the runner closes its side too
		_ = unix.Shutdown(socket, unix.SHUT_WR)
	}()
	return pass(socket, 1) && !left.Load()
}

// pass copies bytes until one side ends. It reports whether that was the side from which it reads.
func pass(from, to int) bool {
	buf := make([]byte, joinBuffer)
	for {
		n, err := unix.Read(from, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return true
		}
		if writeAll(to, buf[:n]) != nil {
			return false
		}
	}
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
