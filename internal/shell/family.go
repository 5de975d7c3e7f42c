package shell

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/trl-dev/trl/api"
)

// Family is a group of shells that TRL drives in the same way.
type Family string

// The supported families.
const (
	Dash Family = "dash"
	Ash  Family = "ash" // busybox
	Bash Family = "bash"
	Zsh  Family = "zsh"
	Fish Family = "fish"
)

// Program is an installed shell.
type Program struct {
	Path   string // absolute; symbolic links are not resolved
	Real   string // Path with symbolic links resolved
	Argv0  string // tells busybox which of its programs to be
	Family Family
}

// Find looks up a shell by its file name, or by its name in path, a PATH value. A relative
// file name is relative to cwd.
func Find(name, path, cwd string) (Program, error) {
	if name == "" {
		name = "/bin/sh"
	}
	// "busybox ash" means busybox, and so does "ash" if PATH has no program of that name.
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
	if filepath.Base(real) == "sh" { // macOS, where sh is no link
		p.Family = selected(selector)
	}
	if filepath.Base(real) == "busybox" {
		p.Family, p.Argv0 = Ash, "ash"
		if applet == "" && filepath.Base(file) != "busybox" && familyOf(filepath.Base(file)) == "" && filepath.Base(file) != "sh" {
			p.Family = "" // a link to another busybox program
		}
	}
	if p.Family == "" {
		return Program{}, api.Errorf(api.CodeShellFailed, "shell %q: TRL cannot drive this shell (it supports sh, dash, ash, bash, zsh and fish)", name)
	}
	return p, nil
}

// selector is a link to the shell that /bin/sh executes on macOS: bash, dash or zsh. See sh(1).
const selector = "/private/var/select/sh"

// selected returns the family of the shell that link points to; bash if it is of no family.
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

// familyOf returns the family of a shell by its file name, "" for none.
func familyOf(base string) Family {
	base = strings.TrimPrefix(base, "r") // rbash: the restricted shell
	for _, f := range []Family{Dash, Ash, Bash, Zsh, Fish} {
		// A version may follow: zsh5, bash-5.2, fish3.6.
		if rest, ok := strings.CutPrefix(base, string(f)); ok && strings.Trim(rest, "-.0123456789") == "" {
			return f
		}
	}
	return ""
}

// FindProgram looks up any program, as Find does for shells.
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

// Reasons why lookup finds no program.
var (
	errNotInPath     = errors.New("not found in PATH")
	errNoFile        = errors.New("no such file")
	errNotExecutable = errors.New("not an executable file")
)

// lookup returns the file of a program. With an error, the file is the one that cannot be used.
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

// executable returns an error if file is not an executable file.
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
