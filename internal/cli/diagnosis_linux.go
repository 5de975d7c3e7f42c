package cli

import (
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
)

// platform reports how the kernel can end processes reliably. enforcement is that of a real
// session, if there was one; info is that of the daemon.
func (d *diagnosis) platform(enforcement string, info api.SystemInfoResult) {
	const section = "Kill"
	switch enforcement {
	case "":
	case "scan":
		d.add(section, "enforced by", verdictNote, "scan: descendants are looked for; one that hides well may be missed")
	default:
		d.add(section, "enforced by", verdictOK, enforcement)
	}
	// Setting the flag to its current value, off, shows whether the kernel has it.
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	d.check(section, "subreaper", "what a session starts cannot leave it", err)
	if fd, err := unix.PidfdOpen(os.Getpid(), 0); err != nil {
		d.add(section, "pidfd", verdictNote, "not available: "+err.Error())
	} else {
		_ = unix.Close(fd)
		d.add(section, "pidfd", verdictOK, "signals cannot hit a reused process id")
	}
	switch {
	case info.PID == 0: // no daemon to ask
	case slices.Contains(info.Capabilities, "cgroup.kill"):
		d.add(section, "cgroup", verdictOK, "a whole session can be killed at once")
	default:
		d.add(section, "cgroup", verdictNote, "no cgroup v2 tree that the daemon may write to; sessions are killed process by process")
	}
}

// inMemory reports whether dir, or its nearest existing parent, is on a file system in memory.
func inMemory(dir string) bool {
	var fs unix.Statfs_t
	for unix.Statfs(dir, &fs) != nil {
		if dir == "/" {
			return false
		}
		dir = filepath.Dir(dir)
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC
}

func processLimit() (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NPROC, &l)
	return l.Cur, err
}
