// Package shell drives one persistent shell. The shell reads short bookkeeping
// lines on its stdin; every command gets separate FIFOs for stdout and stderr, and its
// text is in a private file. Completion, exit status and directory come back on a
// private FIFO: never as a prompt or a marker in the output.
//
// A Shell survives its process: when a command ends the shell (exit, exec, kill),
// the Shell starts a new one with the state of the old.
package shell

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/trl-dev/trl/api"
)

// Family is a group of shells that are driven the same way.
type Family string

// The families TRL knows.
const (
	Dash Family = "dash"
	Ash  Family = "ash" // busybox
	Bash Family = "bash"
	Zsh  Family = "zsh"
	Fish Family = "fish"
)

// Program is a shell that was found.
type Program struct {
	Path   string // absolute, as asked for
	Real   string // Path without symbolic links
	Argv0  string // what busybox needs to know that it is a shell
	Family Family
}

// Find looks up a shell by path, or by name in path (a PATH value). cwd resolves
// a relative path.
func Find(name, path, cwd string) (Program, error) {
	if name == "" {
		name = "/bin/sh"
	}
	// "busybox ash" and "ash" without such a program both mean busybox.
	applet := ""
	if rest, ok := strings.CutPrefix(name, "busybox "); ok && (rest == "ash" || rest == "sh") {
		name, applet = "busybox", "ash"
	}
	file, err := lookup(name, path, cwd)
	if err != nil && name == "ash" {
		if busybox, err2 := lookup("busybox", path, cwd); err2 == nil {
			file, applet, err = busybox, "ash", nil
		}
	}
	if err != nil {
		return Program{}, api.Errorf(api.CodeShellNotFound, "shell %q: %s", file, err)
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		real = file
	}
	p := Program{Path: file, Real: real, Argv0: filepath.Base(file), Family: familyOf(filepath.Base(real))}
	if filepath.Base(real) == "sh" { // macOS
		p.Family = selected(selector)
	}
	if filepath.Base(real) == "busybox" {
		p.Family, p.Argv0 = Ash, "ash"
		if applet == "" && filepath.Base(file) != "busybox" && familyOf(filepath.Base(file)) == "" && filepath.Base(file) != "sh" {
			p.Family = "" // some other applet
		}
	}
	if p.Family == "" {
		return Program{}, api.Errorf(api.CodeShellFailed, "shell %q: TRL cannot drive this shell (it supports sh, dash, ash, bash, zsh and fish)", name)
	}
	return p, nil
}

// selector names the shell that /bin/sh of macOS becomes: bash, dash or zsh. See sh(1).
const selector = "/private/var/select/sh"

// selected is the family of the shell that a selector names; bash when it names none.
func selected(link string) Family {
	to, err := filepath.EvalSymlinks(link)
	if err != nil {
		return Bash
	}
	if f := familyOf(filepath.Base(to)); f != "" {
		return f
	}
	return Bash
}

func familyOf(base string) Family {
	base = strings.TrimPrefix(base, "r")
	for _, f := range []Family{Dash, Ash, Bash, Zsh, Fish} {
		// zsh5, bash-5.2, fish3.6: a version may follow
		if rest, ok := strings.CutPrefix(base, string(f)); ok && strings.Trim(rest, "-.0123456789") == "" {
			return f
		}
	}
	return ""
}

// FindProgram looks up any program, in the same way.
func FindProgram(name, path, cwd string) (string, error) {
	file, err := lookup(name, path, cwd)
	switch {
	case errors.Is(err, errNotInPath), errors.Is(err, errNoFile):
		return "", api.Errorf(api.CodeShellNotFound, "program %q: not found", name).Because(api.ReasonProgram)
	case err != nil:
		return "", api.Errorf(api.CodeShellFailed, "program %q: %s", name, err).Because(api.ReasonProgram)
	}
	return file, nil
}

// Why lookup finds nothing.
var (
	errNotInPath     = errors.New("not found in PATH")
	errNoFile        = errors.New("no such file")
	errNotExecutable = errors.New("not an executable file")
)

// lookup returns the file, also when it cannot be used.
func lookup(name, path, cwd string) (file string, err error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(cwd, name)
		}
		return name, executable(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = cwd
		}
		if file := filepath.Join(dir, name); filepath.IsAbs(file) && executable(file) == nil {
			return file, nil
		}
	}
	return name, errNotInPath
}

func executable(file string) error {
	fi, err := os.Stat(file)
	switch {
	case os.IsNotExist(err):
		return errNoFile
	case err != nil:
		return err
	case fi.IsDir() || fi.Mode()&0o111 == 0:
		return errNotExecutable
	}
	return nil
}
