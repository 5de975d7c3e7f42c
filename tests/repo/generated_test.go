package repo_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestGeneratedFilesAreFresh runs the generator without letting it write. It fails
// when a file does not match package api and its comments, and when a released name in
// docs/surface.txt was removed or changed.
func TestGeneratedFilesAreFresh(t *testing.T) {
	// The generator runs in a child, whose reading the test cache does not see.
	sourceFiles(t, func(file string) {
		for _, part := range []string{"api/", "internal/gen/", "internal/config/", "docs/api.md", "docs/surface.txt", "sdk/typescript/src/types.ts", "sdk/python/src/trl_client/types.py"} {
			if strings.HasPrefix(file, part) {
				read(t, file)
			}
		}
	})
	cmd := exec.Command("go", "run", "./internal/gen", "-check")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s\n%s", err, out)
	}
}
