package shell

import (
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// channel carries messages from the shell to this process: a pipe that the shell opens by path.
// The pipe has no name but the one in /proc, so no command can break it by deleting files. This
// process holds it open for writing too, so reading never meets an end of file.
type channel struct {
	read  int
	write int
	path  string
}

// open returns c, or an open channel if c is nil: on Linux a channel never has to be replaced. With
// named, it is a FIFO at path, for a shell that may not look into this process.
func (c *channel) open(path string, named bool) (*channel, error) {
	if c != nil {
		return c, nil
	}
	if named {
		r, w, err := openFIFO(path)
		if err != nil {
			return nil, err
		}
		return &channel{read: r, write: w, path: path}, nil
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

// openFIFO makes a FIFO and opens both ends, the reading one non-blocking.
func openFIFO(path string) (r, w int, err error) {
	_ = os.Remove(path)
	if err = unix.Mkfifo(path, 0o600); err != nil {
		return -1, -1, &os.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	if r, err = unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
		if w, err = unix.Open(path, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			return r, w, nil
		}
		unix.Close(r)
	}
	return -1, -1, &os.PathError{Op: "open", Path: path, Err: err}
}

// stdioOf names the files behind a process's stdout and stderr.
func stdioOf(pid int) string {
	fd := "/proc/" + strconv.Itoa(pid) + "/fd/"
	out, _ := os.Readlink(fd + "1")
	err, _ := os.Readlink(fd + "2")
	return out + " " + err
}

// stdioNamed returns what stdioOf returns for a process whose stdout and stderr are the writing
// ends of the pipes out and err, or a terminal.
func stdioNamed(out, err int, terminal string) string {
	if terminal != "" {
		return terminal + " " + terminal
	}
	name := func(fd int) string { return "pipe:[" + strconv.FormatUint(process.FileIDOf(fd).Ino, 10) + "]" }
	return name(out) + " " + name(err)
}

// usePackets makes a FIFO one of packets: one read never returns more than one write has written. It
// reports whether it could, which gVisor cannot.
func usePackets(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK|unix.O_DIRECT)
	return err == nil
}

// unread reports whether the shell has not read all the control text in its FIFO.
func unread(control int) bool {
	n, err := unix.IoctlGetInt(control, unix.TIOCINQ)
	return err == nil && n > 0
}

// softFiles returns the soft limit of open files of a process.
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
