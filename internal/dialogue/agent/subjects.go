package agent

import (
	"path"
	"strings"
)

// CommonPath is the subject of a tool call that touches files: the file itself, or the
// directory that contains all of them, with a slash at its end. So a rule that allows a
// directory never allows a file outside of it.
func CommonPath(files []string) string {
	switch len(files) {
	case 0:
		return ""
	case 1:
		return path.Clean(files[0])
	}
	dir := path.Dir(path.Clean(files[0]))
	for _, f := range files[1:] {
		f = path.Clean(f)
		for dir != "/" && dir != "." && !strings.HasPrefix(f, dir+"/") {
			dir = path.Dir(dir)
		}
	}
	return strings.TrimSuffix(dir, "/") + "/"
}

// SlashCommands are the names of commands as people type them, with a slash.
func SlashCommands(names []string) []string {
	var typed []string
	for _, name := range names {
		if name != "" {
			typed = append(typed, "/"+strings.TrimPrefix(name, "/"))
		}
	}
	return typed
}
