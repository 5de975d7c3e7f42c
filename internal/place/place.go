// Package place finds the daemon of a user. The result depends on the user id and the machine,
// not on environment variables: callers with different environments (a desktop, cron, su, an MCP
// client) must find the same daemon.
//
// The lock of the state directory is the second way to find a daemon: the daemon that holds the
// lock writes its process id and its socket into it.
//
// The package imports neither path/filepath nor, on Linux, os/user: internal/cli/early must be
// initialised before them.
package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// runtimeRoot has a directory in memory for each user who is logged in; see pam_systemd(8).
const runtimeRoot = "/run/user"

// RuntimeDirs returns the directories in which a user's daemon may keep sockets and private files,
// best first; those in memory come before the one on disk. A directory may not exist yet, but its
// parent does. It is unusable if another user has created it.
func RuntimeDirs() []string {
	uid := strconv.Itoa(os.Getuid())
	var dirs []string
	if root := path.Join(runtimeRoot, uid); ownedDir(root) {
		dirs = append(dirs, path.Join(root, "trl"))
	}
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		dirs = append(dirs, "/dev/shm/trl-"+uid)
	}
	return append(dirs, "/tmp/trl-"+uid)
}

// Sockets returns the sockets on which the user's daemon may listen by default, best first. A
// daemon uses the first. Clients try all, because the directory in /run/user appears with the
// first login and disappears with the last logout, and a daemon may run longer than that.
func Sockets() []string {
	uid := strconv.Itoa(os.Getuid())
	var paths []string
	if root := path.Join(runtimeRoot, uid); ownedDir(root) {
		paths = append(paths, path.Join(root, "trl", "trl.sock"))
	}
	return append(paths, "/tmp/trl-"+uid+"/trl.sock")
}

// Find returns the sockets on which a client looks for the user's daemon: each of Sockets, and the
// one that the state directory's lock names.
func Find(stateDir string) []string {
	paths := Sockets()
	if h, ok := ReadHolder(stateDir); ok && h.Socket != "" && !slices.Contains(paths, h.Socket) {
		paths = append(paths, h.Socket)
	}
	return paths
}

// StateDir returns the default state directory: .local/state/trl in the user's home directory, else
// state in /tmp/trl-<uid>. The home directory is that of the user database. The environment's counts
// only if that one cannot have a state directory, as in many containers.
func StateDir(getenv func(string) string) string {
	home := databaseHome()
	if !usableHome(home) || home == "/" || !creatable(stateIn(home)) {
		home = Home(getenv)
	}
	if home != "" {
		return stateIn(home)
	}
	return path.Join("/tmp", "trl-"+strconv.Itoa(os.Getuid()), "state")
}

// StateDirOfSelf returns the state directory of a daemon that has replaced itself with this program.
// Where this program would use dir by default, the one before may have used another: earlier versions
// used trl in $XDG_STATE_HOME, and preferred $HOME to the user database, which can change, too. The
// lock of the directory still names this process.
func StateDirOfSelf(dir string, getenv func(string) string) string {
	dirs := []string{dir}
	if state := getenv("XDG_STATE_HOME"); path.IsAbs(state) {
		dirs = append(dirs, path.Join(state, "trl"))
	}
	if home := Home(getenv); home != "" {
		dirs = append(dirs, stateIn(home))
	}
	for _, d := range dirs {
		if h, ok := ReadHolder(d); ok && h.PID == os.Getpid() {
			return d
		}
	}
	return dir
}

func stateIn(home string) string { return path.Join(home, ".local", "state", "trl") }

// creatable reports whether the user can write to a directory, or make it with its parents.
func creatable(dir string) bool {
	for ; ; dir = path.Dir(dir) {
		err := unix.Access(dir, unix.W_OK|unix.X_OK)
		if !errors.Is(err, unix.ENOENT) {
			return err == nil
		}
	}
}

// ConfigFile returns the default configuration file for an environment: trl/config.toml in
// $XDG_CONFIG_HOME, else in .config in the user's home directory; "" if there is none.
func ConfigFile(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); path.IsAbs(dir) {
		return path.Join(dir, "trl", "config.toml")
	}
	if home := Home(getenv); home != "" {
		return path.Join(home, ".config", "trl", "config.toml")
	}
	return ""
}

// Home returns the home directory of the user: $HOME, or the one in the user database if the
// variable is missing or names that of another user, as after sudo. It returns "" if neither is
// usable.
func Home(getenv func(string) string) string {
	if home := getenv("HOME"); usableHome(home) {
		return home
	}
	if home := databaseHome(); usableHome(home) {
		return home
	}
	return ""
}

// usableHome reports whether the user may keep files in a home directory. Root may write anywhere,
// so for root the directory must be its own.
func usableHome(dir string) bool {
	info, err := os.Stat(dir)
	if !path.IsAbs(dir) || err != nil || !info.IsDir() {
		return false
	}
	return Owner(info) == os.Getuid() || os.Getuid() != 0 && unix.Access(dir, unix.W_OK|unix.X_OK) == nil
}

// ownedDir reports whether only this user may write to dir.
func ownedDir(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && Owner(info) == os.Getuid() && info.Mode().Perm()&0o022 == 0
}

// Owner returns the user id of a file's owner.
func Owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// ErrStranger is the error for a socket of another user.
var ErrStranger = errors.New("belongs to another user")

// CheckOwner returns an error unless uid, the owner of a socket or of the process behind it, is
// this user or root. Root is trusted because a service manager that runs as root creates sockets
// for its users.
func CheckOwner(uid int) error {
	if uid == os.Getuid() || uid == 0 {
		return nil
	}
	return fmt.Errorf("%w: to uid %d, and you are uid %d", ErrStranger, uid, os.Getuid())
}

// CheckSocket returns an error for a socket of another user, before anything is sent to it. A path
// without a socket is not an error here, because connecting reports it better.
func CheckSocket(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return CheckOwner(Owner(info))
}
