package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrRunning is what Listen answers when another daemon listens at the path.
var ErrRunning = errors.New("already running")

// Listener is a unix socket for one user, and the lock that makes sure of one
// instance per path.
type Listener struct {
	*net.UnixListener
	path  string
	lock  *os.File    // nil for a socket of a service manager
	inode fs.FileInfo // of the socket, so that nobody else's is ever removed
	keep  bool        // the socket stays when the listener is closed
	close sync.Once
}

// Listen makes a socket at the path that only this user can reach: mode 0600 in a
// directory of this user that nobody else can write to, which is made with 0700 when
// it is missing. The lock is the file <path>.lock, which stays. What a crashed
// daemon left at the path is replaced; a daemon that lives is not disturbed, the
// error is then ErrRunning.
//
// A daemon that was killed while it started a runner may still hold both for a
// moment, in a child that has not yet become the runner. So a daemon that seems to
// live is asked, and one that does not answer is given the time to be gone.
func Listen(path string) (*Listener, error) {
	for deadline := time.Now().Add(goneTimeout); ; time.Sleep(goneTimeout / 100) {
		l, err := listen(path)
		if !errors.Is(err, ErrRunning) || answers(path) || time.Now().After(deadline) {
			return l, err
		}
	}
}

// goneTimeout is how long a daemon that does not answer may take to be gone.
const goneTimeout = 3 * time.Second

// answers reports whether a daemon at the path says anything.
func answers(path string) bool {
	conn, err := net.DialTimeout("unix", path, goneTimeout/10)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(goneTimeout / 10))
	if _, err := conn.Write([]byte("{\"id\":0,\"method\":\"system.ping\"}\n")); err != nil {
		return false
	}
	n, _ := conn.Read(make([]byte, 1))
	return n == 1
}

func listen(path string) (*Listener, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	// One byte of the address is for the NUL at its end; see unix(7).
	if limit := len(unix.RawSockaddrUnix{}.Path) - 1; len(path) > limit {
		return nil, fmt.Errorf("socket %s: the path has %d bytes, this system allows at most %d", path, len(path), limit)
	}
	if err := privateDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	lock, err := lockFile(path + ".lock")
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("daemon: %w on %s", ErrRunning, path)
	}
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l := &Listener{path: path, lock: lock}
	if err := l.bind(); err != nil {
		lock.Close()
		return nil, err
	}
	return l, nil
}

// privateDir makes sure of a directory that only this user can change.
func privateDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Lstat, because a link in a place like /tmp could be anybody's.
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("directory %s: is not a directory", dir)
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != os.Geteuid() {
		return fmt.Errorf("directory %s: belongs to uid %d, not to %d", dir, owner, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("directory %s: others may write to it (mode %04o); use a directory of your own, with mode 0700", dir, mode)
	}
	return nil
}

// lockFile takes the lock, which ends with the file: when it is closed, or its
// process dies. The file is never removed, because two processes could then hold
// locks of different files with the same name.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// bind makes the socket. The lock is held.
func (l *Listener) bind() error {
	if err := removeStale(l.path); err != nil {
		return err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: l.path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("socket %s: %w", l.path, err)
	}
	ln.SetUnlinkOnClose(false) // Close does it, if the file is still ours
	err = os.Chmod(l.path, 0o600)
	if err == nil {
		l.inode, err = os.Lstat(l.path)
	}
	if err != nil {
		ln.Close()
		os.Remove(l.path)
		return fmt.Errorf("socket %s: %w", l.path, err)
	}
	l.UnixListener = ln
	return nil
}

// removeStale removes a socket that nobody listens to. Its lock was free, but the
// lock file may have been removed under a daemon that lives, so the socket is asked.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("socket %s: something that is not a socket is there; it stays", path)
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("daemon: %w on %s", ErrRunning, path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("socket %s: stale: %w", path, err)
	}
	return nil
}

// Close stops listening, removes the socket and gives the lock back.
func (l *Listener) Close() error {
	err := net.ErrClosed
	l.close.Do(func() {
		if info, statErr := os.Lstat(l.path); !l.keep && statErr == nil && os.SameFile(info, l.inode) {
			os.Remove(l.path)
		}
		err = l.UnixListener.Close()
		if l.lock != nil {
			l.lock.Close()
		}
	})
	return err
}
