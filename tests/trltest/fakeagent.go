package trltest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// FakeAgent returns the path of the fake coding agent (tests/dialogue/fakeagent), which
// speaks as Claude does; it is named claude, so that it is found on a PATH. It is built
// once per test process.
func FakeAgent(t testing.TB) string {
	t.Helper()
	path, err := fakeAgent()
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	return path
}

var fakeAgent = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	base := filepath.Join(os.TempDir(), "trltest-"+strconv.Itoa(os.Getuid()))
	stage := filepath.Join(base, fmt.Sprintf("agent-%x", sha256.Sum256([]byte(root)))[:20])
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(base, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	built := filepath.Join(stage, "fakeagent")
	cmd := exec.Command("go", "build", "-o", built, "./tests/dialogue/fakeagent")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the fake agent: %w\n%s", err, out)
	}
	// One that runs is never overwritten.
	data, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, fmt.Sprintf("agent-%x", sha256.Sum256(data))[:22])
	path := filepath.Join(dir, "claude")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := copyFile(built, path+".new"); err != nil {
		return "", err
	}
	return path, os.Rename(path+".new", path)
})

// AgentPath returns a PATH on which the fake agent is found before a real one.
func AgentPath(t testing.TB) string {
	t.Helper()
	return filepath.Dir(FakeAgent(t)) + ":" + os.Getenv("PATH")
}
