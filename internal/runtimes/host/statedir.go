package host

import (
	"fmt"
	"os"

	"github.com/trl-dev/trl/internal/place"
)

// makeStateDir makes the directory, or makes sure that nobody else can write to it:
// programs are started from it.
func makeStateDir(dir string) error {
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
