package server

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// watchEvery is how often Watch looks at the socket where the kernel does not report its
// removal, or where the socket could not be made again.
const watchEvery = 2 * time.Second

// WatchConfig is what Watch needs.
type WatchConfig struct {
	Logger *slog.Logger
	// Elsewhere is asked for another path when the socket cannot be made again where it was:
	// /run/user/<uid> goes with the last logout. Empty for none.
	Elsewhere func() string
	// Moved is called with the new path then.
	Moved func(path string)
}

// Watch makes the socket again, with its directory and its lock, when a cleaner of temporary
// files has removed it. It returns at once; Close ends the watching.
func (l *Listener) Watch(c WatchConfig) {
	l.watches.Go(func() {
		w := newFileWatch(l.closing)
		defer w.close()
		said := ""
		for {
			// Armed before the look, so that a removal in between is not missed.
			path := l.Addr().String()
			armed := w.arm(path)
			restored, err := l.restore()
			if err != nil && l.move(c.Elsewhere()) {
				c.Moved(l.Addr().String())
				restored = true
			}
			if restored {
				c.Logger.Warn("socket was removed; created it again", "socket", l.Addr())
				said = ""
				continue
			}
			if err != nil && err.Error() != said {
				said = err.Error()
				c.Logger.Error("socket was removed and cannot be created again; clients cannot reach the daemon", "error", err)
			}
			if err != nil || !armed {
				select {
				case <-time.After(watchEvery):
				case <-l.closing:
				}
			} else {
				w.wait()
			}
			select {
			case <-l.closing:
				return
			default:
			}
		}
	})
}

// move makes the socket at another path. It reports whether it did.
func (l *Listener) move(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if path == "" || path == l.path || l.closed || privateDir(filepath.Dir(path)) != nil {
		return false
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return false
	}
	before := l.path
	l.path = path
	if l.bindLocked() != nil {
		l.path = before
		lock.Close()
		return false
	}
	if l.lock != nil {
		l.lock.Close()
	}
	l.lock, l.keep = lock, false
	return true
}

// restore makes the socket again unless it is there. It reports whether it did.
func (l *Listener) restore() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.keep && l.lock != nil { // handed over to the next program
		return false, nil
	}
	info, err := os.Lstat(l.path)
	if err == nil && os.SameFile(info, l.inode) {
		return false, nil
	}
	if err := privateDir(filepath.Dir(l.path)); err != nil {
		return false, fmt.Errorf("socket %s: %w", l.path, err)
	}
	if err := l.relockLocked(); err != nil {
		return false, err
	}
	if err := l.bindLocked(); err != nil {
		return false, err
	}
	return true, nil
}

// relockLocked takes the lock of the path again if its file was removed too.
func (l *Listener) relockLocked() error {
	if l.lock == nil {
		return nil
	}
	held, err := l.lock.Stat()
	if err != nil {
		return err
	}
	if info, err := os.Lstat(l.path + ".lock"); err == nil && os.SameFile(info, held) {
		return nil
	}
	lock, err := lockFile(l.path + ".lock")
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("daemon: another is %w on %s", ErrRunning, l.path)
	}
	if err != nil {
		return fmt.Errorf("socket %s: %w", l.path, err)
	}
	l.lock.Close()
	l.lock = lock
	return nil
}
