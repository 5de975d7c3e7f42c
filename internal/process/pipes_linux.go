package process

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// PipesOf looks at the pipes and FIFOs that a process has open: whether one of those named
// is among them, and whether another one has news for the process. A process that is
// gone has none.
func PipesOf(pid int, named ...FileID) (p Pipes) {
	dir, err := os.Open(procPath(pid, "fd"))
	if err != nil {
		_, alive := Stat(pid)
		return Pipes{Holds: alive, Unseen: alive}
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return Pipes{}
	}
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), name, &st, 0) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			continue
		}
		if slices.Contains(named, FileID{Dev: uint64(st.Dev), Ino: st.Ino}) {
			p.Holds = true
		} else if !p.Unfinished {
			p.Unfinished = hasNews(int(dir.Fd()), name)
		}
	}
	return p
}

// hasNews reports whether a pipe has data that is not read, or has lost its other side. The
// process's end of it is given as an entry of its directory of descriptors, whose
// permissions tell which end it is.
func hasNews(dir int, name string) bool {
	var link unix.Stat_t
	if unix.Fstatat(dir, name, &link, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	const read, write = 0o400, 0o200
	switch link.Mode & (read | write) {
	case read:
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		defer unix.Close(fd)
		return readable(fd)
	case write:
		fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err == unix.ENXIO // nobody reads it
	}
	return false
}

// readable reports whether a read would return at once, with data or with the end. It copies
// the data, which stays where it is: poll(2) sees no end that came before the pipe was
// opened.
func readable(pipe int) bool {
	var copy [2]int
	if unix.Pipe2(copy[:], unix.O_CLOEXEC) != nil {
		return false
	}
	defer unix.Close(copy[0])
	defer unix.Close(copy[1])
	_, err := unix.Tee(pipe, copy[1], 1, unix.SPLICE_F_NONBLOCK)
	return err == nil
}
