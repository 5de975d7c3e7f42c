package daemon

import (
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/place"
)

// given returns a limit that is configured; nil for none.
func given[T int64 | float64](v T) *T {
	if v == 0 {
		return nil
	}
	return &v
}

func defaultLimits(c config.Config) api.Limits {
	return api.Limits{
		CPUs: given(c.LimitCPUs), MemoryBytes: given(c.LimitMemoryBytes), Pids: given(c.LimitPids), OpenFiles: given(c.LimitOpenFiles),
		FileBytes: given(c.LimitFileBytes), OutputBytes: given(c.LimitOutputBytes),
	}
}

func maxLimits(c config.Config) api.Limits {
	return api.Limits{
		CPUs: given(c.MaxLimitCPUs), MemoryBytes: given(c.MaxLimitMemoryBytes), Pids: given(c.MaxLimitPids), OpenFiles: given(c.MaxLimitOpenFiles),
		FileBytes: given(c.MaxLimitFileBytes), OutputBytes: given(c.MaxLimitOutputBytes), LifetimeS: given(c.MaxLimitLifetimeS), Commands: given(c.MaxLimitCommands),
	}
}

// The causes of pressure, in details.reason.
const (
	pressureMemory    = "memory"
	pressureProcesses = "processes"
	pressureDisk      = "disk"
)

// pressure returns an error while the machine has no room for another session.
func (d *daemon) pressure() error {
	c := d.config
	for _, p := range []struct {
		reason, setting string
		least           int64
		free            func() (int64, bool)
		text            string
	}{
		{pressureMemory, "min_free_memory_bytes", c.MinFreeMemoryBytes, freeMemory, "%d bytes of memory are available on the machine of the daemon, and a new session needs %d (%s)"},
		{pressureProcesses, "min_free_processes", c.MinFreeProcesses, freeProcesses, "the system of the daemon allows %d more processes, and a new session needs %d (%s)"},
		{pressureDisk, "min_free_disk_bytes", c.MinFreeDiskBytes, d.freeDisk, "%d bytes are free in the daemon's state directory, and a new session needs %d (%s)"},
	} {
		if p.least <= 0 {
			continue
		}
		if free, ok := p.free(); ok && free < p.least {
			return api.Errorf(api.CodeResourcePressure, p.text, free, p.least, p.setting).Because(p.reason)
		}
	}
	return nil
}

// freeDisk returns the bytes that this user may still write to the state directory.
func (d *daemon) freeDisk() (int64, bool) {
	var fs unix.Statfs_t
	if unix.Statfs(filepath.Clean(d.state.Path()), &fs) != nil {
		return 0, false
	}
	return int64(fs.Bavail) * int64(fs.Bsize), true
}

// secrets returns the files and directories of the daemon that isolated sessions must not reach.
func secrets(c config.Config) []string {
	list := []string{c.StateDir, c.RuntimeDir, c.Socket}
	if c.SpillDir != "" {
		list = append(list, link.PrivateRoot(c.SpillDir)) // the output there is in files without a name
	}
	if slices.Contains(place.Sockets(), c.Socket) {
		list = append(list, filepath.Dir(c.Socket)) // is the daemon's own, and stays when the socket is made anew
	}
	for _, file := range []string{c.File(), c.TokenFile, c.TLSKey, c.OnRequestKeyFile} {
		if file != "" {
			list = append(list, file)
		}
	}
	return slices.DeleteFunc(list, func(path string) bool { return path == "" })
}
