package shell

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// channel is a way from the shell back to us: a FIFO in the private directory. We
// are a writer too, so that it never ends.
type channel struct {
	read int
	path string
}

// open makes the FIFO, again when it was deleted, and returns the open channel.
func (c *channel) open(path string) (*channel, error) {
	c.close()
	os.Remove(path)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
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

// stdioOf would name the files behind a process's stdout and stderr; here it is not known.
func stdioOf(int) string { return "" }

func stdioNamed(int, int, string) string { return "" }

// usePackets does nothing: macOS has no such pipes, and no busybox that needs them.
func usePackets(int) error { return nil }

// softFiles is not known of another process on macOS.
func softFiles(int) uint64 { return math.MaxUint64 }

// openExit has nothing to return: macOS knows no descriptor for another process.
func openExit(int) (fd int, ok bool) { return -1, false }
