package host

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse is what New answers when another daemon uses the state directory.
var ErrInUse = errors.New("in use by another daemon")

// lockPatience is how long a daemon that is about to end may still hold the lock.
const lockPatience = 30 * time.Second

// What the holder of a lock writes into it, with its pid behind.
const (
	wordRunning  = "running"
	wordStopping = "stopping"
)

// lock is a file that one process holds, until it ends at the latest. The file stays:
// if it were removed, two processes could hold locks of two files of that name.
type lock struct{ f *os.File }

// takeLock takes the lock at path. It waits for a holder that is about to end.
func takeLock(path string) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	l := &lock{f}
	err = flock(f, unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		err = l.await()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	l.say(wordRunning)
	return l, nil
}

// await waits for a holder that says that it is stopping.
func (l *lock) await() error {
	word, pid := l.holder()
	inUse := ErrInUse
	if pid > 0 {
		inUse = fmt.Errorf("%w (pid %d)", ErrInUse, pid)
	}
	if word != wordStopping {
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
		taken <- flock(other, 0)
	}()
	select {
	case err := <-taken:
		return err
	case <-time.After(lockPatience):
		return inUse
	}
}

// holder tells what the holder of the lock has written.
func (l *lock) holder() (word string, pid int) {
	var buf [64]byte
	n, _ := l.f.ReadAt(buf[:], 0)
	word, number, _ := strings.Cut(strings.TrimSpace(string(buf[:n])), " ")
	pid, _ = strconv.Atoi(number)
	return word, pid
}

// say writes into the lock. It is for others to read; if it cannot be written they
// are told less.
func (l *lock) say(word string) {
	_ = l.f.Truncate(0)
	_, _ = l.f.WriteAt([]byte(word+" "+strconv.Itoa(os.Getpid())+"\n"), 0)
}

func (l *lock) release() { l.f.Close() }

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|how); err != unix.EINTR {
			return err
		}
	}
}

// makeStateDir makes the directory, or makes sure that nobody else can write to it:
// programs are started from it.
func makeStateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%s: belongs to uid %d, not to %d", dir, st.Uid, os.Getuid())
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s: others may write to it (mode %04o)", dir, mode)
	}
	return nil
}
