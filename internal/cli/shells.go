package cli

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// preferredShell is that of sessions for which nobody chose another: what people and models
// write is mostly bash. The daemon takes it where it exists and no default_shell is set.
const preferredShell = "bash"

// shellNames are the shells that people ask for by name.
var shellNames = []string{"sh", "bash", "dash", "ash", "zsh", "fish"}

// A foundShell is a shell that is installed here.
type foundShell struct{ name, path string }

// findShells looks for the shells on PATH. Busybox is an ash under another name.
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

// version asks the shell for its version. Dash has no way to tell.
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
	// Only the name and the number: what follows in brackets is about the build.
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

// shellFlag makes a shell given by a relative path one of the caller's directory,
// not of the session's.
func shellFlag(s string) (string, error) {
	if strings.Contains(s, "/") && !strings.HasPrefix(s, "busybox ") {
		return filepath.Abs(s)
	}
	return s, nil
}
