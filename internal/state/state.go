// Package state is the state directory of a daemon. It survives the daemon:
//
//	lock                 held by the daemon that uses the directory, see package place
//	id                   a word that identifies the daemons of this directory to others
//	sessions/<id>.json   the record of a live session, by which a later daemon finds its runner
//
// Other packages keep their own files beside these.
package state

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/trl-dev/trl/internal/place"
)

// Config configures a Dir.
type Config struct {
	Path string
	// Socket is where the daemon listens, "" if it does not. Clients read it from the lock.
	Socket string
	Logger *slog.Logger
}

// Dir is a state directory that this daemon uses alone. It is safe for concurrent use and has no
// goroutines.
type Dir struct {
	path string
	lock *place.Lock
	log  *slog.Logger
}

// Open makes the directory if it does not exist, and takes its lock. The error is
// place.ErrInUse if another daemon has it.
func Open(c Config) (*Dir, error) {
	if err := makePrivate(c.Path); err != nil {
		return nil, fmt.Errorf("state_dir: %w", err)
	}
	lock, err := place.TakeLock(c.Path, c.Socket)
	if err != nil {
		return nil, fmt.Errorf("state_dir %s: %w", c.Path, err)
	}
	d := &Dir{path: c.Path, lock: lock, log: c.Logger}
	if err := os.Mkdir(d.recordDir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		lock.Release()
		return nil, fmt.Errorf("state_dir: %w", err)
	}
	return d, nil
}

// makePrivate makes a directory, or checks that no other user can write to it: programs are
// started from it.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if owner := place.Owner(info); owner != os.Getuid() {
		return fmt.Errorf("%s: belongs to uid %d, not to %d", dir, owner, os.Getuid())
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s: others may write to it (mode %04o)", dir, mode)
	}
	return nil
}

// Path returns the path of the directory.
func (d *Dir) Path() string { return d.path }

// ID returns a word that identifies the daemons of this directory, one after another: it labels what
// they make elsewhere.
func (d *Dir) ID() (string, error) {
	path := filepath.Join(d.path, "id")
	text, err := os.ReadFile(path)
	if err == nil && daemonID().Match(text) {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("state_dir: %w", err)
	}
	id := "d" + strings.ToLower(rand.Text())
	if err := ReplaceFile(path, strings.NewReader(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("state_dir: %w", err)
	}
	return id, nil
}

// daemonID is the form of an id. It is also a valid label of containers and pods.
var daemonID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^d[0-9a-z]{26}\n?$`) })

// Listens tells clients that the daemon listens at another path from now on.
func (d *Dir) Listens(socket string) { d.lock.Listens(socket) }

// Stopping tells a daemon that waits for the directory that it will be free soon.
func (d *Dir) Stopping() { d.lock.Stopping() }

// Close releases the lock.
func (d *Dir) Close() { d.lock.Release() }

// ReplaceFile replaces a file in one step: a reader sees the old content or all of the new one. A
// program can be started as soon as ReplaceFile has returned.
func ReplaceFile(path string, content io.Reader, mode fs.FileMode) error {
	if mode&0o111 != 0 {
		// A child that another goroutine forks now would inherit the file, open for writing. Until
		// the child executes its own program, starting this one fails with "text file busy".
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if chmodErr := f.Chmod(mode); err == nil {
		err = chmodErr
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
