package early

import (
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/place"
	"github.com/trl-dev/trl/internal/wire"
)

const (
	// findPatience limits how long init waits for the daemon to find the session.
	findPatience = time.Second
	// patience limits how long init waits for the command. A longer one loses nothing: the rest of
	// the program starts while it runs.
	patience = 20 * time.Millisecond
	// mostReceived is about how much is kept for the usual path.
	mostReceived = 256 << 10
	// mostSent is the longest request. The send buffer of a new socket has room for it.
	mostSent = 64 << 10
	// pieceSize is how much a writable pipe takes without blocking (PIPE_BUF, see pipe(7)).
	pieceSize = 4 << 10
)

// The ids of the two requests.
const (
	idList   = 1
	idStream = 2
)

func idText(id uint64) string { return `"` + strconv.FormatUint(id, 10) + `"` }

var errGaveUp = errors.New("the usual path continues")

// conversation is a connection to the daemon, by system calls alone: package net is not initialised
// yet. Its requests follow each other. It waits only in poll, which a signal interrupts.
type conversation struct {
	fd       int
	reader   *wire.Reader // of the conversation itself
	received []byte       // all bytes since the last takeAll
	until    time.Time    // when the usual path continues
	signals  chan os.Signal
}

// dial connects to the first daemon that listens on one of the sockets, with the checks of package
// client. It returns nil on any error.
func dial(paths []string) *conversation {
	for _, path := range paths {
		if place.CheckSocket(path) != nil {
			return nil
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil
		}
		c := &conversation{fd: fd, until: time.Now().Add(findPatience)}
		c.reader = wire.NewReader(c, mostReceived, mostReceived, nil)
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		if err == nil {
			if peer, err := wire.PeerOfFD(fd); err == nil && place.CheckOwner(peer.UID) == nil {
				return c
			}
		}
		c.close()
		if err != unix.ENOENT && err != unix.ECONNREFUSED {
			return nil
		}
	}
	return nil
}

func (c *conversation) close() { _ = unix.Close(c.fd) }

// request returns the line of a request, and false if it is too long.
func (c *conversation) request(id uint64, method string, params any) ([]byte, bool) {
	e := wire.NewEncoder()
	e.Trace(os.Getenv("TRACEPARENT"))
	err := e.RawRequest(id, method, params)
	return e.Bytes(), err == nil && len(e.Bytes()) <= mostSent
}

// send sends a request. It returns false if the daemon cannot have read it. The part of a request
// that was sent is lost with its connection: the usual path sends all of it again, with the same
// run_id.
func (c *conversation) send(request []byte) bool {
	n, err := unix.Write(c.fd, request)
	if err != nil {
		return false
	}
	if n < len(request) {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
	}
	return true
}

// message reads the next line.
func (c *conversation) message() (m wire.Message, ok bool) {
	line, err := c.reader.Next()
	if err == nil {
		m, err = wire.ParseMessage(line)
	}
	return m, err == nil
}

// takeAll forgets what was received, and reports whether that was exactly one line.
func (c *conversation) takeAll() bool {
	whole := 0
	for _, b := range c.received {
		if b == '\n' {
			whole++
		}
	}
	ok := whole == 1 && c.received[len(c.received)-1] == '\n'
	c.received = nil
	return ok
}

// Read is for the reader of the conversation.
func (c *conversation) Read(p []byte) (int, error) {
	if len(c.received) > mostReceived || !c.wait() {
		return 0, errGaveUp
	}
	n, err := unix.Read(c.fd, p)
	if err != nil || n <= 0 {
		return 0, errGaveUp
	}
	c.received = append(c.received, p[:n]...)
	return n, nil
}

// wait waits until the daemon has sent something. It returns false after the time limit or a signal.
func (c *conversation) wait() bool {
	left := time.Until(c.until).Milliseconds() + 1
	if left <= 0 {
		return false
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, int(left))
	return err == nil && n > 0 && len(c.signals) == 0
}

// print writes output, unless that would block or fails, and returns how much it has written. It
// must not block, because only the usual path handles signals.
func (c *conversation) print(fd int, data []byte) (written int) {
	for written < len(data) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(fds, 0); err != nil || n == 0 {
			return written
		}
		n, err := unix.Write(fd, data[written:min(len(data), written+pieceSize)])
		if err != nil {
			return written
		}
		written += n
	}
	return written
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}
