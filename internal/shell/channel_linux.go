package shell

import (
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// channel is a way from the shell back to us: a pipe that the shell opens by path.
// On Linux it is anonymous and opened through /proc, so that nothing a command does
// to files can cut it. We are a writer too, so that it never ends.
type channel struct {
	read  int
	write int
	path  string
}

// open returns a channel that is ready; here one lasts for ever.
func (c *channel) open(string) (*channel, error) {
	if c != nil {
		return c, nil
	}
	r, w, err := pipe(true, false)
	if err != nil {
		return nil, err
	}
	return &channel{read: r, write: w, path: "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(w)}, nil
}

func (c *channel) close() {
	if c != nil {
		unix.Close(c.read)
		unix.Close(c.write)
	}
}

// stdioOf names the files behind a process's stdout and stderr.
func stdioOf(pid int) string {
	fd := "/proc/" + strconv.Itoa(pid) + "/fd/"
	out, _ := os.Readlink(fd + "1")
	err, _ := os.Readlink(fd + "2")
	return out + " " + err
}

// stdioNamed is what stdioOf says of a process that has the other ends of two pipes, or a
// terminal.
func stdioNamed(out, err int, terminal string) string {
	if terminal != "" {
		return terminal + " " + terminal
	}
	name := func(fd int) string { return "pipe:[" + strconv.FormatUint(process.FileIDOf(fd).Ino, 10) + "]" }
	return name(out) + " " + name(err)
}

// usePackets makes every write to a pipe a packet: one read never returns more. The
// writing end w becomes non-blocking.
func usePackets(w int) error {
	_, err := unix.FcntlInt(uintptr(w), unix.F_SETFL, unix.O_NONBLOCK|unix.O_DIRECT)
	return os.NewSyscallError("fcntl", err)
}

// softFiles is how many descriptors a process may have, by its soft limit.
func softFiles(pid int) uint64 {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit) != nil {
		return math.MaxUint64
	}
	return limit.Cur
}

// openExit returns a descriptor that becomes readable when a process has ended.
func openExit(pid int) (fd int, ok bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	return fd, err == nil
}
