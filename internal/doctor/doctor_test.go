package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

func verdictOf(f Findings, name string) string {
	for _, one := range f {
		if one.Name == name {
			return one.Verdict
		}
	}
	return ""
}

func TestFilesOfOthersAreFound(t *testing.T) {
	dir := t.TempDir()
	files := Files{Socket: filepath.Join(dir, "s"), StateDir: filepath.Join(dir, "state"), RuntimeDir: filepath.Join(dir, "run")}
	run := func([]string) string { return "shell 1.2 (build)" }
	if f := Without(files, run); verdictOf(f, "socket") != api.VerdictOK || verdictOf(f, "state") != api.VerdictOK {
		t.Errorf("nothing is there yet: %+v", f)
	}
	if err := os.Mkdir(files.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(files.StateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := Without(files, run)
	if verdictOf(f, "socket") != api.VerdictBad || verdictOf(f, "state") != api.VerdictBad {
		t.Errorf("a file for a socket, and a directory for all: %+v", f)
	}
}

func TestShells(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"fish": 0o700, "zsh": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":relative:/nonexistent")
	list := Shells()
	if !slices.Equal(list, []Shell{{"fish", filepath.Join(dir, "fish")}}) {
		t.Fatalf("%+v", list)
	}
	var asked []string
	version := list[0].Version(func(argv []string) string {
		asked = argv
		return "fish, version 4.0.1 (x)\nmore"
	})
	if version != "fish 4.0.1" || !strings.HasSuffix(strings.Join(asked, " "), "/fish --version") {
		t.Errorf("%q, asked %q", version, asked)
	}
	if version := list[0].Version(func([]string) string { return "" }); version != "fish" {
		t.Errorf("%q", version)
	}
}
