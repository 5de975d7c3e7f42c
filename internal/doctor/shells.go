package doctor

import (
	"os"
	"path/filepath"
	"strings"
)

// shellNames are the shells that are looked for.
var shellNames = []string{"sh", "bash", "dash", "ash", "zsh", "fish"}

// Shell is an installed shell.
type Shell struct{ Name, Path string }

// Shells looks for shells on the PATH. Busybox counts as ash.
func Shells() []Shell {
	var list []Shell
	for _, name := range shellNames {
		path := lookPath(name)
		if path == "" && name == "ash" {
			path = lookPath("busybox")
		}
		if path != "" {
			list = append(list, Shell{name, path})
		}
	}
	return list
}

// lookPath returns the path of a program on the PATH, "" for none.
func lookPath(name string) string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// Version asks the shell for its version. Dash cannot report one. run runs a program and returns its
// output.
func (s Shell) Version(run func(argv []string) string) string {
	real, err := filepath.EvalSymlinks(s.Path)
	if err != nil {
		real = s.Path
	}
	argv := []string{real, "--version"}
	switch filepath.Base(real) {
	case "dash":
		return "dash"
	case "busybox":
		argv = []string{real, "ash", "--help"} // its first line
	}
	line, _, _ := strings.Cut(strings.TrimSpace(run(argv)), "\n")
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
