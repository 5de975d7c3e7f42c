package doctor

import (
	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
)

// platform reports how the system can end processes. enforcement is that of a real session, if
// there was one.
func (f *Findings) platform(enforcement string, _ api.SystemInfoResult) {
	const section = "Kill"
	if enforcement != "" {
		f.Add(section, "enforced by", api.VerdictOK, enforcement)
	}
	f.subreaper(section)
}

// inMemory reports false: macOS has no file system in memory by default.
func inMemory(string) bool { return false }

func processLimit() (uint64, error) {
	n, err := unix.SysctlUint32("kern.maxprocperuid")
	return uint64(n), err
}
