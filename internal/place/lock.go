package place

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse is the error of TakeLock when another daemon uses the state directory.
var ErrInUse = errors.New("in use by another daemon")

// lockPatience limits how long TakeLock waits for a daemon that is stopping.
const lockPatience = 30 * time.Second

// The first word in the lock file: the state of its holder.
const (
	wordRunning  = "running"
	wordStopping = "stopping"
)

// Holder is the daemon that holds the lock of a state directory.
type Holder struct {
	PID      int
	Socket   string // on which it listens; "" for none
	Stopping bool   // it is about to end
}

// Lock is the lock of a state directory. One process holds it, at most until that process ends.
// The file is never removed: otherwise two processes could hold the locks of two files of the
// same name.
type Lock struct {
	f *os.File

	mu     sync.Mutex
	word   string // guarded by mu
	socket string // guarded by mu
}

func lockPath(stateDir string) string { return path.Join(stateDir, "lock") }

// TakeLock takes the lock for a daemon that listens on socket, "" for none. It waits for a holder
// that is stopping.
func TakeLock(stateDir, socket string) (*Lock, error) {
	f, err := os.OpenFile(lockPath(stateDir), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Lock{f: f, word: wordRunning}
	// FindHolder in a client takes the lock for a moment. A blocking flock could not be given
	// up if the holder is a daemon that stays, so the lock is tried again for a short time.
	for range 10 {
		if err = flock(f, unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err == unix.EWOULDBLOCK {
		err = l.await()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	l.Listens(socket)
	return l, nil
}

// await waits for the lock if its holder is stopping, else it returns ErrInUse.
func (l *Lock) await() error {
	h, _ := parseHolder(l.f)
	inUse := ErrInUse
	switch {
	case h.Socket != "":
		inUse = fmt.Errorf("%w (pid %d, socket %s)", ErrInUse, h.PID, h.Socket)
	case h.PID > 0:
		inUse = fmt.Errorf("%w (pid %d)", ErrInUse, h.PID)
	}
	if !h.Stopping {
		return inUse
	}
	taken := make(chan error, 1)
	fd, err := unix.FcntlInt(l.f.Fd(), unix.F_DUPFD_CLOEXEC, 0) // shares the lock, and stays open while the goroutine waits
	if err != nil {
		return err
	}
	go func() {
		other := os.NewFile(uintptr(fd), l.f.Name())
		defer other.Close()
		taken <- flock(other, unix.LOCK_EX)
	}()
	select {
	case err := <-taken:
		return err
	case <-time.After(lockPatience):
		return inUse
	}
}

// Stopping records in the lock that its holder is about to end.
func (l *Lock) Stopping() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.word = wordStopping
	l.writeLocked()
}

// Listens records in the lock on which socket its holder listens now.
func (l *Lock) Listens(socket string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.socket = socket
	l.writeLocked()
}

// writeLocked writes the state of the holder into the lock file, for other processes. It ignores
// errors: other processes then know less.
func (l *Lock) writeLocked() {
	text := l.word + " " + strconv.Itoa(os.Getpid())
	if l.socket != "" {
		text += " " + l.socket
	}
	// In this order, a reader never finds the file empty.
	n, _ := l.f.WriteAt([]byte(text+"\n"), 0)
	_ = l.f.Truncate(int64(n))
}

// Release gives the lock back.
func (l *Lock) Release() { l.f.Close() }

// ReadHolder returns the process that holds the lock of a state directory, or was the last to
// hold it. It does not check which, because trying the lock could make a starting daemon fail.
func ReadHolder(stateDir string) (Holder, bool) {
	f, err := os.OpenFile(lockPath(stateDir), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Holder{}, false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || Owner(info) != os.Getuid() {
		return Holder{}, false
	}
	return parseHolder(f)
}

// FindHolder is ReadHolder, but returns false unless a process holds the lock at this moment.
func FindHolder(stateDir string) (Holder, bool) {
	h, ok := ReadHolder(stateDir)
	if !ok {
		return h, false
	}
	f, err := os.Open(lockPath(stateDir))
	if err != nil {
		return h, false
	}
	defer f.Close()
	return h, flock(f, unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// parseHolder reads the text of writeLocked.
func parseHolder(f *os.File) (Holder, bool) {
	buf := make([]byte, 512)
	n, _ := f.ReadAt(buf, 0)
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	word, rest, _ := strings.Cut(line, " ")
	number, socket, _ := strings.Cut(rest, " ")
	pid, err := strconv.Atoi(number)
	if err != nil || pid <= 0 || word != wordRunning && word != wordStopping {
		return Holder{}, false
	}
	return Holder{PID: pid, Socket: socket, Stopping: word == wordStopping}, true
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
