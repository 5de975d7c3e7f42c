package runner

import "golang.org/x/sys/unix"

// joinBuffer is how many bytes pass at once.
const joinBuffer = 256 << 10

// join passes bytes from stdin to the socket and from the socket to stdout. The end of stdin is
// passed on. It returns when the socket ends, or stdout has no reader.
func join(socket int) {
	for _, fd := range []int{0, 1, socket} {
		_ = unix.SetNonblock(fd, false)
	}
	_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
	widen(0)
	widen(1)
	go func() {
		pass(0, socket)
		_ = unix.Shutdown(socket, unix.SHUT_WR)
	}()
	pass(socket, 1)
}

// pass copies bytes until one side ends.
func pass(from, to int) {
	buf := make([]byte, joinBuffer)
	for {
		n, err := unix.Read(from, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 || writeAll(to, buf[:n]) != nil {
			return
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
