package process

import (
	"slices"

	"golang.org/x/sys/unix"
)

// PipesOf describes the pipes and FIFOs that a process has open: whether one of the named ones is
// among them, and whether another one is unfinished. A process that has ended has none.
func PipesOf(pid int, named ...FileID) (p Pipes) {
	dir, err := openFile(procPath(pid, "fd"))
	if err != nil {
		_, alive := Stat(pid)
		return Pipes{Holds: alive, Unseen: alive}
	}
	defer unix.Close(dir)
	names, err := readNames(dir)
	if err != nil {
		return Pipes{}
	}
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, 0) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			continue
		}
		if slices.Contains(named, FileID{Dev: uint64(st.Dev), Ino: st.Ino}) {
			p.Holds = true
		} else if !p.Unfinished {
			p.Unfinished = hasNews(dir, name)
		}
	}
	return p
}

// hasNews reports whether a pipe has unread data, or its other side is closed. name is the entry of
// the pipe in dir, the process's directory of descriptors; the permissions of the entry show which
// end of the pipe the process has.
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
		return err == unix.ENXIO // the pipe has no reader
	}
	return false
}

// readable reports whether a read would return at once, with data or with the end of file. It
// copies the data with tee(2), which leaves it in the pipe. poll(2) would not report an end of file
// that is older than our opening of the pipe.
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
