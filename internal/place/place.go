// Package place says where the daemon of a user is. The answer depends on the user id and
// on the machine, not on variables: callers with different environments (a desktop, cron,
// su, an MCP client) must find the same daemon.
//
// The lock of the state directory is the second way to find a daemon: the daemon that holds
// it writes its process id and its socket into it.
package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// runtimeRoot holds a directory in memory for each user who is logged in; see pam_systemd(8).
const runtimeRoot = "/run/user"

// RuntimeDirs are the directories in which a user's daemon may keep sockets and private
// files, best first. The ones in memory come first. They may not exist yet, but their
// parents do. They are unusable when another user made them first.
func RuntimeDirs() []string {
	uid := strconv.Itoa(os.Getuid())
	var dirs []string
	if root := filepath.Join(runtimeRoot, uid); ownedDir(root) {
		dirs = append(dirs, filepath.Join(root, "trl"))
	}
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		dirs = append(dirs, "/dev/shm/trl-"+uid)
	}
	return append(dirs, "/tmp/trl-"+uid)
}

// Sockets are the places where the user's daemon listens unless it was told otherwise, best
// first. A daemon takes the first. Clients try all: the directory below /run/user appears
// with the first login and disappears with the last logout, and a daemon may live longer.
func Sockets() []string {
	uid := strconv.Itoa(os.Getuid())
	var paths []string
	if root := filepath.Join(runtimeRoot, uid); ownedDir(root) {
		paths = append(paths, filepath.Join(root, "trl", "trl.sock"))
	}
	return append(paths, "/tmp/trl-"+uid+"/trl.sock")
}

// Find lists where a client looks for the user's daemon: at each of Sockets, and where the
// holder of the state directory's lock says that it listens.
func Find(stateDir string) []string {
	paths := Sockets()
	if h, ok := ReadHolder(stateDir); ok && h.Socket != "" && !slices.Contains(paths, h.Socket) {
		paths = append(paths, h.Socket)
	}
	return paths
}

// StateDir is the default state directory for an environment: trl in $XDG_STATE_HOME, else
// .local/state/trl in the user's home directory, else state in /tmp/trl-<uid>.
func StateDir(getenv func(string) string) string {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "trl")
	}
	if home := Home(getenv); home != "" {
		return filepath.Join(home, ".local", "state", "trl")
	}
	return filepath.Join("/tmp", "trl-"+strconv.Itoa(os.Getuid()), "state")
}

// Home is the home directory of the user, "" if there is none that can be used: $HOME, or the
// one in the user database where the variable is missing or names somebody else's, as after sudo.
func Home(getenv func(string) string) string {
	if home := getenv("HOME"); usableHome(home) {
		return home
	}
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil && usableHome(u.HomeDir) {
		return u.HomeDir
	}
	return ""
}

// usableHome reports whether the user may keep files in a home directory. Root may write
// anywhere, so for root only its own counts.
func usableHome(dir string) bool {
	info, err := os.Stat(dir)
	if !filepath.IsAbs(dir) || err != nil || !info.IsDir() {
		return false
	}
	return Owner(info) == os.Getuid() || os.Getuid() != 0 && unix.Access(dir, unix.W_OK|unix.X_OK) == nil
}

func ownedDir(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && Owner(info) == os.Getuid() && info.Mode().Perm()&0o022 == 0
}

// Owner is the user id that a file belongs to.
func Owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// ErrStranger is a socket of another user.
var ErrStranger = errors.New("belongs to another user")

// CheckOwner refuses the owner of a socket, or the process behind it, unless it is this user.
// Root is trusted too: a service manager that runs as root makes sockets for its users.
func CheckOwner(uid int) error {
	if uid == os.Getuid() || uid == 0 {
		return nil
	}
	return fmt.Errorf("%w: to uid %d, and you are uid %d", ErrStranger, uid, os.Getuid())
}

// CheckSocket refuses a socket of another user before anything is sent to it. A path without
// a socket is no error here: connecting reports that better.
func CheckSocket(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return CheckOwner(Owner(info))
}
