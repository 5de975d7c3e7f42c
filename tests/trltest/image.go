package trltest

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Image makes the image of the daemon for this machine, as a release does, and returns its tar file.
func Image(t testing.TB) string {
	t.Helper()
	root, err := moduleRoot()
	if err == nil {
		err = touch(root, "api", "client", "cmd", "docs", "internal", "tools", "web/dist", "go.mod", "go.sum")
	}
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	out := filepath.Join(t.TempDir(), "release")
	cmd := exec.Command("go", "-C", "tools", "run", "./release", "-root", "..", "-out", out, "-images",
		"-only", "linux/"+runtime.GOARCH, "-version", "0-test")
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("trltest: the image of the daemon (offline, run go -C tools mod download first): %s\n%s", err, text)
	}
	return filepath.Join(out, "trl_0-test_oci.tar")
}
