package place

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse is the error of TakeLock when another daemon uses the state directory.
var ErrInUse = errors.New("in use by another daemon")

// lockPatience is how long a daemon that is ending may still hold the lock.
const lockPatience = 30 * time.Second

// The first word that the holder writes into the lock.
const (
	wordRunning  = "running"
	wordStopping = "stopping"
)

// Holder is the daemon that holds the lock of a state directory.
type Holder struct {
	PID      int
	Socket   string // where it listens; "" if it does not
	Stopping bool   // it is about to end
}

// Lock is the lock of a state directory, which one process holds, until it ends at the
// latest. The file stays: if it were removed, two processes could hold locks of two files
// of that name.
type Lock struct {
	f *os.File

	mu     sync.Mutex
	word   string // guarded by mu
	socket string // guarded by mu
}

func lockPath(stateDir string) string { return filepath.Join(stateDir, "lock") }

// TakeLock takes the lock for a daemon that listens on the socket, "" for none. It waits for
// a holder that is ending.
func TakeLock(stateDir, socket string) (*Lock, error) {
	f, err := os.OpenFile(lockPath(stateDir), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Lock{f: f, word: wordRunning}
	// A client that looks whether the lock is held (FindHolder) has it for a moment.
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

// await waits for a holder that says that it is stopping.
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
	fd, err := unix.FcntlInt(l.f.Fd(), unix.F_DUPFD_CLOEXEC, 0) // the same lock, for as long as it is waited for
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

// Stopping tells others that the holder is about to end.
func (l *Lock) Stopping() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.word = wordStopping
	l.sayLocked()
}

// Listens tells others where the holder listens now.
func (l *Lock) Listens(socket string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.socket = socket
	l.sayLocked()
}

// sayLocked writes into the lock. Other processes read it; if it cannot be written, they learn less.
func (l *Lock) sayLocked() {
	text := l.word + " " + strconv.Itoa(os.Getpid())
	if l.socket != "" {
		text += " " + l.socket
	}
	// In this order a reader never finds it empty.
	n, _ := l.f.WriteAt([]byte(text+"\n"), 0)
	_ = l.f.Truncate(int64(n))
}

// Release gives the lock back.
func (l *Lock) Release() { l.f.Close() }

// ReadHolder reads who holds the lock of a state directory, or held it last: that a process
// holds it is not checked, because trying the lock could keep a starting daemon from it.
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

// FindHolder is ReadHolder for a lock that a process holds at this moment.
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

// parseHolder understands what say writes.
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
