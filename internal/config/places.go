package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/place"
)

// longestSessionFile is the longest path below runtime_dir that must fit into the
// address of a unix socket.
const longestSessionFile = "/s-0123456789/link.sock"

// setPlaces fills the defaults that depend on the user and the machine.
func (c *Config) setPlaces(env map[string]string) {
	c.Socket = place.Sockets()[0]
	c.StateDir = place.StateDir(func(name string) string { return env[name] })
	candidates := place.RuntimeDirs()
	c.RuntimeDir = candidates[len(candidates)-1]
	for _, dir := range candidates {
		if usable(dir) {
			c.RuntimeDir = dir
			break
		}
	}
}

// usable reports whether dir is a good private directory, or could be made one.
func usable(dir string) bool {
	if checkRuntimeDir(dir) != nil {
		return false
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return os.IsNotExist(err) && unix.Access(filepath.Dir(dir), unix.W_OK|unix.X_OK) == nil
	}
	return checkPrivate(dir, info) == nil
}

// MakePrivate makes dir with its parents, for this user alone. An existing dir must belong to
// this user, and other users must not be able to enter it.
func MakePrivate(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	return checkPrivate(dir, info)
}

func checkPrivate(dir string, info fs.FileInfo) error {
	if !info.IsDir() {
		return fmt.Errorf("%s: is not a directory", dir)
	}
	if owner := place.Owner(info); owner != os.Getuid() {
		return fmt.Errorf("%s: belongs to uid %d, not to %d", dir, owner, os.Getuid())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 || mode&0o700 != 0o700 {
		return fmt.Errorf("%s: has mode %04o, must be 0700", dir, mode)
	}
	return nil
}

// check looks at what one value alone does not show.
func (c *Config) check() error {
	if err := checkSocketPath(c.Socket); err != nil {
		return fmt.Errorf("socket: %q: %w (%s)", c.Socket, err, c.Origin("socket"))
	}
	if err := checkRuntimeDir(c.RuntimeDir); err != nil {
		return fmt.Errorf("runtime_dir: %q: %w (%s)", c.RuntimeDir, err, c.Origin("runtime_dir"))
	}
	if err := c.checkRuntimes(); err != nil {
		return err
	}
	return c.checkHTTP()
}

// checkRuntimeDir refuses what cannot stand in a shell script without quotes:
// paths below it are written into the shells' private channel.
func checkRuntimeDir(dir string) error {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_.-"
	if rest := strings.TrimLeft(dir, letters); rest != "" {
		return fmt.Errorf("may contain only A-Z a-z 0-9 / _ . -")
	}
	return checkSocketPath(dir + longestSessionFile)
}

func checkSocketPath(path string) error {
	var address unix.RawSockaddrUnix
	// One byte is for the NUL at the end; see unix(7).
	if most := len(address.Path) - 1; len(path) > most {
		return fmt.Errorf("%d bytes too long for the address of a unix socket", len(path)-most)
	}
	return nil
}
