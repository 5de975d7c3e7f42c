package process

import "golang.org/x/sys/unix"

// ChildWatch lists the direct children of one process again and again at the
// price of one system call.
//
// It reads the list of the main thread only. That is all there is for a process
// with one thread, as shells are. Of a process with several threads it shows what
// the main thread forked and, if the process is a subreaper, what it adopted: the
// kernel hands orphans to the first living thread, which is the main thread while
// that lives. What another thread forked is listed under that thread and not
// seen here.
//
// It is not safe for concurrent use.
type ChildWatch struct {
	pid int
	fd  int // of /proc/PID/task/PID/children; -1 where there is none
	buf [512]byte
}

// WatchChildren opens the list of children of a process. The list belongs to
// that very process: when the id is given away later, List does not follow it.
// (Where the kernel has no such lists, it goes by the id.)
func WatchChildren(pid int) *ChildWatch {
	w := &ChildWatch{pid: pid, fd: -1}
	if hasChildrenFiles() {
		if fd, err := openFile(childrenPath(pid)); err == nil {
			w.fd = fd
		}
	}
	return w
}

// List appends the ids of the children to buf[:0], zombies included, and returns
// it. With enough room in buf it does not allocate. It is empty when the process
// is gone.
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

// readChildren appends the numbers in a children file to list. An offset of 0
// makes the kernel build the text anew.
func readChildren(fd int, buf []byte, list []int) []int {
	// An entry is a number and a space. Less than this much room left in a read
	// means that it may have been cut short for lack of room.
	const entry = 16
	var offset int64
	pid := 0 // carried over, because a number may be split between two reads
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
