package dialogue

import (
	"os"
	"path/filepath"
	"testing"
)

// Programs on the PATH are found; a file without the right to execute and a program of another name are not.
func TestInstalled(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if found := Installed(); found != nil {
		t.Errorf("an empty directory has %+v", found)
	}
	for name, mode := range map[string]os.FileMode{"codex": 0o600, "claude": 0o755, "gemini": 0o755, "claude2": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	found := Installed()
	if len(found) != 2 || found[0].Agent != "claude" || found[0].Path != filepath.Join(dir, "claude") || found[1].Agent != "acp" || found[1].Argv[1] != "--acp" {
		t.Errorf("found %+v", found)
	}
	for _, a := range known {
		if agents[a.Agent] == nil {
			t.Errorf("there is no agent %q", a.Agent)
		}
	}
}
