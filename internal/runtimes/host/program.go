package host

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/runtimes/runners"
)

// findProgram finds the program of the runner: the one that was named, the one embedded in this
// program, the one beside it, or this program itself.
func findProgram(named, stateDir string, log *slog.Logger) (string, error) {
	if named != "" {
		return named, nil
	}
	path, err := runners.Unpack(filepath.Join(stateDir, "runners"))
	if err == nil && path != "" {
		err = unix.Access(path, unix.X_OK) // fails where no programs may be started, as with noexec
	}
	if err == nil && path != "" {
		return path, nil
	}
	if err != nil {
		log.Warn("runner cannot be unpacked; using this program instead", "error", err)
	}
	self, err := runners.Self()
	if err != nil {
		return "", fmt.Errorf("runner: %w", err)
	}
	if beside := runners.Beside(self); beside != "" {
		return beside, nil
	}
	return self, nil
}
