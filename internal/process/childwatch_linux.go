package process

import "golang.org/x/sys/unix"

// ChildWatch lists the direct children of one process repeatedly, each time with one system call.
//
// It reads the list of the main thread only, which is complete for a process with one thread, such
// as a shell. For a process with several threads, the list has the children that the main thread
// forked and, if the process is a subreaper, the orphans that it adopted: the kernel assigns
// orphans to the first living thread, which is the main thread as long as that lives. The list
// lacks the children that other threads forked.
//
// It is not safe for concurrent use.
type ChildWatch struct {
	pid int
	fd  int // of /proc/PID/task/PID/children; -1 where the kernel has no such file
	buf [512]byte
}

// WatchChildren opens the list of children of a process. If another process gets the id later,
// the list stays that of the first one, except where the kernel has no such lists.
func WatchChildren(pid int) *ChildWatch {
	w := &ChildWatch{pid: pid, fd: -1}
	if hasChildrenFiles() {
		if fd, err := openFile(childrenPath(pid)); err == nil {
			w.fd = fd
		}
	}
	return w
}

// List appends the ids of the children, including zombies, to buf[:0] and returns it. It does not
// allocate if buf is large enough. The list is empty when the process has ended.
func (w *ChildWatch) List(buf []int) []int {
	if w.fd >= 0 {
		return readChildren(w.fd, w.buf[:], buf[:0])
	}
	if hasChildrenFiles() {
		return buf[:0] // there was no such process, or Close was called
	}
	return append(buf[:0], Children(w.pid)...)
}

// Close closes the list.
func (w *ChildWatch) Close() {
	if w.fd >= 0 {
		unix.Close(w.fd)
		w.fd = -1
	}
}

// readChildren appends the numbers in a children file to list. It reads from offset 0, which makes
// the kernel generate the text again.
func readChildren(fd int, buf []byte, list []int) []int {
	// An entry is a number and a space. If a read leaves less room than this, there may be
	// more to read.
	const entry = 16
	var offset int64
	pid := 0 // outside the loop, because a number may be split between two reads
	for {
		n, err := unix.Pread(fd, buf, offset)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		for _, c := range buf[:n] {
			switch {
			case c >= '0' && c <= '9':
				pid = pid*10 + int(c-'0')
			case pid > 0:
				list, pid = append(list, pid), 0
			}
		}
		if n <= len(buf)-entry {
			break
		}
		offset += int64(n)
	}
	if pid > 0 {
		list = append(list, pid)
	}
	return list
}
