package doctor

import (
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
)

// platform reports how the kernel can end processes reliably. enforcement is that of a real
// session, if there was one; info is that of the daemon.
func (f *Findings) platform(enforcement string, info api.SystemInfoResult) {
	const section = "Kill"
	switch enforcement {
	case "":
	case "scan":
		f.Add(section, "enforced by", api.VerdictNote, "scan: TRL searches the process table for descendants, and may miss a process that detached itself")
	default:
		f.Add(section, "enforced by", api.VerdictOK, enforcement)
	}
	f.subreaper(section)
	if fd, err := unix.PidfdOpen(os.Getpid(), 0); err != nil {
		f.Add(section, "pidfd", api.VerdictNote, "not available: "+err.Error())
	} else {
		_ = unix.Close(fd)
		f.Add(section, "pidfd", api.VerdictOK, "signals cannot hit a reused process id")
	}
	switch {
	case info.PID == 0: // no daemon to ask
	case slices.Contains(info.Capabilities, "cgroup.kill"):
		f.Add(section, "cgroup", api.VerdictOK, "a whole session can be killed at once")
	default:
		f.Add(section, "cgroup", api.VerdictNote, "no cgroup v2 tree that the daemon may write to; sessions are killed process by process")
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
