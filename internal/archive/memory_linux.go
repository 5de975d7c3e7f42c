package archive

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// inMemory reports whether files in dir, which may not exist yet, are in memory.
func inMemory(dir string) bool {
	var fs unix.Statfs_t
	for unix.Statfs(dir, &fs) != nil {
		parent := filepath.Dir(dir)
		if parent == dir {
			return false
		}
		dir = parent
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC
}
