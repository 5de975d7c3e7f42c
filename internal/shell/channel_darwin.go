package shell

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// channel carries messages from the shell to this process: a FIFO in the private directory. This
// process holds it open for writing too, so reading never meets an end of file.
type channel struct {
	read int
	path string
}

// open makes the FIFO, also when a command has deleted it, and returns the open channel.
func (c *channel) open(path string, _ bool) (*channel, error) {
	c.close()
	os.Remove(path)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &channel{read: fd, path: path}, nil
}

func (c *channel) close() {
	if c != nil {
		unix.Close(c.read)
	}
}

// stdioOf returns "": macOS does not report the files behind another process's stdout and stderr.
func stdioOf(int) string { return "" }

// stdioNamed returns "", to equal stdioOf.
func stdioNamed(int, int, string) string { return "" }

// usePackets returns false: macOS has no packets.
func usePackets(int) bool { return false }

// unread returns false: there is no busybox on macOS whose lines would have to wait.
func unread(int) bool { return false }

// softFiles returns no limit: macOS does not report that of another process.
func softFiles(int) uint64 { return math.MaxUint64 }

// openExit returns false: macOS has no descriptors for processes.
func openExit(int) (fd int, ok bool) { return -1, false }
