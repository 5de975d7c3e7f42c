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
		return CleanPath(files[0])
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

// OtherPaths are the paths of a request whose subject does not name them all: its files, each once.
// It is nil if the subject is the only file. A directory that contains the files is a subject that no
// rule for one of them matches, so the policy compares each file too.
func OtherPaths(subject string, files []string) []string {
	var paths []string
	seen := map[string]bool{"": true}
	for _, f := range files {
		if f != "" {
			f = CleanPath(f)
		}
		if !seen[f] {
			seen[f], paths = true, append(paths, f)
		}
	}
	if len(paths) == 1 && paths[0] == subject {
		return nil
	}
	return paths
}

// CleanPath is path.Clean, but does not take the scheme of a file URL for a directory:
// file:///../etc/x is not etc/x.
func CleanPath(p string) string {
	clean := path.Clean(p)
	if scheme := "file:"; len(p) >= len(scheme) && strings.EqualFold(p[:len(scheme)], scheme) && !strings.HasPrefix(clean, p[:len(scheme)]) {
		return p
	}
	return clean
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
