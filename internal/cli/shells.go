package cli

import (
	"path/filepath"
	"strings"
)

// preferredShell is the shell of sessions for which the user chose none: people and models
// mostly write bash. The daemon uses it if it is installed and default_shell is not set.
const preferredShell = "bash"

// shellFlag resolves a relative path of a shell against the caller's directory, not the
// session's.
func shellFlag(s string) (string, error) {
	if strings.Contains(s, "/") && !strings.HasPrefix(s, "busybox ") {
		return filepath.Abs(s)
	}
	return s, nil
}
