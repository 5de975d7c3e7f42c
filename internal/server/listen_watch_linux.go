package server

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fileWatch waits for the removal of a file, or of its directory, with inotify(7).
type fileWatch struct {
	events *os.File // nil when the system has no more of them
}

// newFileWatch makes a fileWatch whose wait ends when done is closed.
func newFileWatch(done <-chan struct{}) *fileWatch {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return &fileWatch{}
	}
	w := &fileWatch{os.NewFile(uintptr(fd), "inotify")}
	go func() {
		<-done
		w.events.Close()
	}()
	return w
}

// arm has the next wait return when the file is removed, replaced or renamed, or its directory is
// renamed: the kernel does not report that for the file. The daemon holds the socket open, so its
// removal shows as a change of the number of its links.
func (w *fileWatch) arm(path string) bool {
	if w.events == nil {
		return false
	}
	const (
		gone = unix.IN_MOVE_SELF | unix.IN_DELETE_SELF | unix.IN_ONESHOT
		file = gone | unix.IN_ATTRIB | unix.IN_DONT_FOLLOW
	)
	armed := false
	raw, err := w.events.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) {
			_, err := unix.InotifyAddWatch(int(fd), filepath.Dir(path), gone)
			if err == nil {
				_, err = unix.InotifyAddWatch(int(fd), path, file)
			}
			armed = err == nil
		})
	}
	return armed
}

func (w *fileWatch) wait() {
	var buf [unix.SizeofInotifyEvent + unix.NAME_MAX + 1]byte
	_, _ = w.events.Read(buf[:])
}

func (w *fileWatch) close() {
	if w.events != nil {
		w.events.Close()
	}
}
