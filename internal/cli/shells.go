package cli

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// preferredShell is the shell of sessions for which the user chose none: people and models
// mostly write bash. The daemon uses it if it is installed and default_shell is not set.
const preferredShell = "bash"

// shellNames are the shells that trl looks for.
var shellNames = []string{"sh", "bash", "dash", "ash", "zsh", "fish"}

// A foundShell is an installed shell.
type foundShell struct{ name, path string }

// findShells looks for shells on the PATH. Busybox counts as ash.
func findShells() []foundShell {
	var list []foundShell
	for _, name := range shellNames {
		path, err := exec.LookPath(name)
		if err != nil && name == "ash" {
			path, err = exec.LookPath("busybox")
		}
		if err == nil {
			list = append(list, foundShell{name, path})
		}
	}
	return list
}

// version asks the shell for its version. Dash cannot report one.
func (s foundShell) version() string {
	real, err := filepath.EvalSymlinks(s.path)
	if err != nil {
		real = s.path
	}
	args := []string{"--version"}
	switch filepath.Base(real) {
	case "dash":
		return "dash"
	case "busybox":
		args = []string{"ash", "--help"} // its first line
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, real, args...)
	cmd.WaitDelay = time.Second
	out, _ := cmd.CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	line = strings.NewReplacer("GNU bash, version ", "bash ", "fish, version ", "fish ", "BusyBox v", "busybox ").Replace(line)
	// Only the name and the number: the brackets after them are about the build.
	line, _, _ = strings.Cut(line, "(")
	words := strings.Fields(line)
	if len(words) > 2 {
		words = words[:2]
	}
	if len(words) == 0 {
		return filepath.Base(real)
	}
	return strings.Join(words, " ")
}

// shellFlag resolves a relative path of a shell against the caller's directory, not the
// session's.
func shellFlag(s string) (string, error) {
	if strings.Contains(s, "/") && !strings.HasPrefix(s, "busybox ") {
		return filepath.Abs(s)
	}
	return s, nil
}
