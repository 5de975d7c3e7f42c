package repo_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestWorkflowsPinActions: a tag of an action can be moved to other code, a commit cannot.
func TestWorkflowsPinActions(t *testing.T) {
	pinned := regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40} # v[0-9.]+$`)
	found := 0
	sourceFiles(t, func(file string) {
		if !strings.HasPrefix(file, ".github/workflows/") {
			return
		}
		text := read(t, file)
		if !strings.Contains(text, "\npermissions:\n  contents: read\n") {
			t.Errorf("%s: does not begin with the right to read alone", file)
		}
		for i, line := range strings.Split(text, "\n") {
			if _, action, ok := strings.Cut(line, "uses: "); ok {
				found++
				if !pinned.MatchString(action) {
					t.Errorf("%s:%d: %s: name the commit, and its version in a comment", file, i+1, action)
				}
			}
		}
	})
	if found == 0 {
		t.Error(".github/workflows: uses no action")
	}
}

// TestPackagesHaveTheLicence: registries take it from the directory of a package.
func TestPackagesHaveTheLicence(t *testing.T) {
	for _, dir := range []string{"sdk/python", "sdk/typescript"} {
		if read(t, path.Join(dir, "LICENSE")) != read(t, "LICENSE") {
			t.Errorf("%s/LICENSE: differs from LICENSE", dir)
		}
	}
}
