package cases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// ShellNames are the names a case may use. sh is dash where there is one, ash is busybox.
var ShellNames = []string{"sh", "bash", "zsh", "ash", "fish"}

// ashStatic is the ash of Debian's busybox-static, see Shell.Applets. It runs the cases of
// ash; tests/setup.sh gets it.
const ashStatic = "ash-static"

// Tested are the shells that cases run in.
var Tested = append(ShellNames[:len(ShellNames):len(ShellNames)], ashStatic)

// Base is the name under which a case asks for the shell.
func Base(name string) string { return strings.TrimSuffix(name, "-static") }

// Shell is a shell of this machine.
type Shell struct {
	Name string
	// Path is the shell for session.create.
	Path string
	// Script runs a text in the shell without TRL, without any rc file.
	Script []string
	// Applets is set for a busybox that runs its applets itself, without exec: they are no
	// programs with a path or a name.
	Applets bool
}

// FindShell finds a shell on PATH. dir is a directory for a link, because
// busybox is a shell only under the name of one.
func FindShell(name, dir string) (Shell, error) {
	program := map[string]string{"sh": "dash", "ash": "busybox", ashStatic: busyboxStatic()}[name]
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
	if Base(name) == "ash" {
		link := filepath.Join(dir, name, "ash")
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			return Shell{}, err
		}
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
	shell := Shell{Name: name, Path: path, Script: append([]string{path}, script...)}
	if Base(name) == "ash" {
		shell.Applets = exec.Command(path, "-c", "PATH=/nowhere; cat /dev/null").Run() == nil
	}
	return shell, nil
}

// busyboxStatic is where tests/setup.sh puts the program.
func busyboxStatic() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "trl-test", "busybox-static", "bin", "busybox")
}
