package trltest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// protocol5 is the last commit whose runners speak protocol 5.
const protocol5 = "4658d775e777d87fa068e64634f7c13d894a2aac"

// Older returns the path of a trl of the version before, built like Static: its runners speak the protocol
// before that of this tree. It skips the test where the history is not there.
func Older(t testing.TB) string {
	t.Helper()
	path, err := older()
	if errors.Is(err, errNoHistory) {
		fmt.Fprintln(os.Stderr, "SKIPPED: the history is not there; runners of the version before are not tested")
		t.SkipNow()
	}
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	return path
}

var errNoHistory = errors.New("the history is not there")

var older = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if exec.Command("git", "-C", root, "cat-file", "-e", protocol5+"^{commit}").Run() != nil {
		return "", errNoHistory
	}
	src, err := os.MkdirTemp("", "trltest-older")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(src)
	if out, err := exec.Command("sh", "-c", `git -C "$0" archive "$1" | tar x -C "$2"`, root, protocol5, src).CombinedOutput(); err != nil {
		return "", fmt.Errorf("git archive: %w\n%s", err, out)
	}
	return buildIn(src, "older-"+protocol5[:8], []string{"CGO_ENABLED=0"}, staticFlags, staticPrograms...)
})
