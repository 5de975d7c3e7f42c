//go:build linux

package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestPlatform(t *testing.T) {
	for text, want := range map[string]string{"Linux x86_64\n": "linux/amd64", "Linux aarch64": "linux/arm64", "Darwin arm64": "darwin/arm64", "Linux s390x": "linux/s390x"} {
		if goos, goarch, err := platform(text); err != nil || goos+"/"+goarch != want {
			t.Errorf("%q: %s/%s, %v", text, goos, goarch, err)
		}
	}
	for _, text := range []string{"", "Linux", "\n"} {
		_, _, err := platform(text)
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, "the system of the pod is unknown")
	}
}

// TestCopyScript: a copy that is not intact leaves nothing, not even the directory.
func TestCopyScript(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trl-runner")
	run := func(content, sum string) (string, error) {
		cmd := exec.Command("/bin/sh", "-c", copyScript, "trl-runner-1", sum, "/proc/none", dir)
		cmd.Stdin = strings.NewReader(content)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	const program = "#!/bin/sh\n[ \"$1 $2\" = 'check good' ]\n"
	if out, err := run(program, "bad"); err == nil {
		t.Errorf("printed %q", out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory is left")
	}
	if out, err := run(program, "good"); err != nil || out != dir+"/trl-runner-1" {
		t.Errorf("printed %q, %v", out, err)
	}
	if out, err := run(program, "bad"); err == nil {
		t.Errorf("printed %q", out)
	}
	if _, err := os.Stat(dir + "/trl-runner-1"); err != nil {
		t.Error(err)
	}
}
