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

	"github.com/trl-dev/trl/internal/place"
)

// ErrRunning is what Listen answers when another daemon listens at the path.
var ErrRunning = errors.New("already running")

// Listener is a unix socket for one user, and the lock that makes sure of one
// instance per path. It is safe for concurrent use.
//
// Goroutines: that of Watch, which ends with Close.
type Listener struct {
	closing chan struct{}  // closed by Close
	watches sync.WaitGroup // one for each Watch

	mu     sync.Mutex
	path   string            // guarded by mu; another one after move
	socket *net.UnixListener // guarded by mu; another one after restore
	lock   *os.File          // guarded by mu; nil for a socket of a service manager
	inode  fs.FileInfo       // guarded by mu; of the socket, so that no other socket is ever removed
	keep   bool              // guarded by mu; the socket stays when the listener is closed
	closed bool              // guarded by mu
}

// Listen makes a socket at the path that only this user can reach: mode 0600 in a directory of
// this user that other users cannot write to, which Listen makes with mode 0700 if it is missing;
// or in a sticky directory such as /tmp, where other users cannot replace the socket, and both
// ends ask the kernel for the user of the other end. The lock is the file <path>.lock, which
// stays. Listen replaces the socket of a crashed daemon; if a daemon runs, the error is ErrRunning.
//
// A daemon that was killed while it started a runner may still hold both for a
// moment, in a child that has not yet become the runner. So Listen calls a daemon that seems to
// run, and waits a while for the end of one that does not answer.
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
	l := &Listener{path: path, lock: lock, closing: make(chan struct{})}
	if err := l.bindLocked(); err != nil {
		lock.Close()
		return nil, err
	}
	return l, nil
}

// privateDir makes a directory, or checks that only this user and root can replace this user's
// files in it.
func privateDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Lstat, because any user could have made a link in a place like /tmp. A link of root is part
	// of the system: /tmp itself is a link on macOS.
	info, err := os.Lstat(dir)
	if err == nil && info.Mode().Type() == fs.ModeSymlink && place.Owner(info) == 0 && os.Geteuid() != 0 {
		info, err = os.Stat(dir)
	}
	if err != nil {
		return err
	}
	owner, mode := place.Owner(info), info.Mode()
	switch {
	case !info.IsDir():
		return fmt.Errorf("directory %s: is not a directory", dir)
	case mode&fs.ModeSticky != 0 && (owner == 0 || owner == os.Geteuid()):
		return nil
	case owner != os.Geteuid():
		return fmt.Errorf("directory %s: belongs to uid %d, not to %d", dir, owner, os.Geteuid())
	case mode.Perm()&0o022 != 0:
		return fmt.Errorf("directory %s: others may write to it (mode %04o); use a directory that only you can write to, with mode 0700", dir, mode.Perm())
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
	info, err := f.Stat()
	if err == nil && place.Owner(info) != os.Geteuid() { // in a sticky directory another user may have made it
		err = place.ErrStranger
	}
	if err == nil {
		err = flock(f)
	}
	if err != nil {
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

// bindLocked makes the socket. The caller has the lock of the path too. A new Listener needs no mu.
func (l *Listener) bindLocked() error {
	if err := removeStale(l.path); err != nil {
		return err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: l.path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("socket %s: %w", l.path, err)
	}
	ln.SetUnlinkOnClose(false) // Close does it, if the file is still ours
	err = os.Chmod(l.path, 0o600)
	var inode fs.FileInfo
	if err == nil {
		inode, err = os.Lstat(l.path)
	}
	if err != nil {
		ln.Close()
		os.Remove(l.path)
		return fmt.Errorf("socket %s: %w", l.path, err)
	}
	if l.socket != nil {
		l.socket.Close() // Accept goes on with the new one
	}
	l.socket, l.inode = ln, inode
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &net.UnixAddr{Name: l.path, Net: "unix"}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		socket := l.current()
		nc, err := socket.Accept()
		if err == nil || socket == l.current() {
			return nc, err
		}
	}
}

func (l *Listener) current() *net.UnixListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.socket
}

// removeStale removes a socket on which no daemon listens. Its lock was free, but the lock file
// may have been removed while its daemon runs, so removeStale tries to connect first.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("socket %s: the file is not a socket; remove it or choose another path", path)
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
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return net.ErrClosed
	}
	l.closed = true
	close(l.closing)
	if info, err := os.Lstat(l.path); !l.keep && err == nil && os.SameFile(info, l.inode) {
		os.Remove(l.path)
	}
	err := l.socket.Close()
	if l.lock != nil {
		l.lock.Close()
	}
	l.mu.Unlock()
	l.watches.Wait()
	return err
}
