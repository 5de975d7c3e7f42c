package cases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// ShellNames are the names a case may use. sh is dash where there is one, ash is busybox.
var ShellNames = []string{"sh", "bash", "zsh", "ash", "fish"}

// Shell is a shell of this machine.
type Shell struct {
	Name string
	// Path is what session.create is given.
	Path string
	// Script runs a text in the shell without TRL, without any rc file.
	Script []string
}

// FindShell finds a shell on PATH. dir is a directory for a link, because
// busybox is a shell only under the name of one.
func FindShell(name, dir string) (Shell, error) {
	program := map[string]string{"sh": "dash", "ash": "busybox"}[name]
	if program == "" || name == "sh" && runtime.GOOS == "darwin" {
		program = name
	}
	path, err := exec.LookPath(program)
	if err != nil && name == "sh" {
		path, err = exec.LookPath("sh")
	}
	if err != nil {
		return Shell{}, fmt.Errorf("shell %s: %w", name, err)
	}
	if name == "ash" {
		link := filepath.Join(dir, "ash")
		if err := os.Symlink(path, link); err != nil && !os.IsExist(err) {
			return Shell{}, err
		}
		path = link
	}
	script := map[string][]string{
		"bash": {"--norc", "--noprofile", "-c"},
		"zsh":  {"-f", "-c"},
		"fish": {"-N", "-c"},
	}[name]
	if script == nil {
		script = []string{"-c"}
	}
	return Shell{Name: name, Path: path, Script: append([]string{path}, script...)}, nil
}
