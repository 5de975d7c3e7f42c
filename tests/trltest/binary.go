package trltest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Binary returns the path of a trl built from this tree with the race detector;
// trl-runner stands beside it. $TRL_TEST_BIN names another one. It is built once
// per test process, which is quick when nothing changed.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	return path
}

var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("TRL_TEST_BIN"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("TRL_TEST_BIN: %w", err)
		}
		return filepath.Abs(path)
	}
	return build("build", nil, []string{"-race"}, "./cmd/trl", "./cmd/trl-runner")
})

// Plain returns the path of a trl built from this tree without the race detector, for tests
// that are about amounts. It is built once per test process.
var Plain = sync.OnceValues(func() (string, error) {
	return build("plain", nil, []string{"-race=false"}, "./cmd/trl", "./cmd/trl-runner")
})

// Static returns the path of a trl whose runner needs no libraries, so that it runs in any container;
// trl-kube stands beside both. The flags are those of `make build`, which has compiled the packages.
var Static = sync.OnceValues(func() (string, error) {
	return build("static", []string{"CGO_ENABLED=0"}, staticFlags, staticPrograms...)
})

var (
	staticFlags    = []string{"-buildvcs=false", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w"}
	staticPrograms = []string{"./cmd/trl", "./cmd/trl-runner", "./cmd/trl-kube"}
)

// build makes programs of this tree.
func build(set string, env, flags []string, packages ...string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if err := touch(root, "api", "client", "cmd", "docs", "internal", fakeAgentPackage, "go.mod", "go.sum"); err != nil {
		return "", err
	}
	return buildIn(root, fmt.Sprintf("%s-%x", set, sha256.Sum256([]byte(root)))[:20], env, flags, packages...)
}

// buildIn makes programs of a tree in the directory stage, and puts them into one named after their contents: those of
// a test that still runs are never overwritten. It returns the path of the first.
func buildIn(root, stage string, env, flags []string, packages ...string) (string, error) {
	base := filepath.Join(os.TempDir(), "trltest-"+strconv.Itoa(os.Getuid()))
	stage = filepath.Join(base, stage)
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
	removeOld(base)
	cmd := exec.Command("go", slices.Concat([]string{"build"}, flags, []string{"-o", stage + "/"}, packages)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", packages[0], err, out)
	}
	return keep(base, stage, packages)
}

// touch looks at every file of these directories but tests. The go command
// remembers what a test has looked at, and runs it again when that has changed;
// what its children, such as the compiler, read, it does not see.
func touch(root string, dirs ...string) error {
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && !strings.HasSuffix(path, "_test.go") {
				_, err = os.Stat(path)
			}
			if errors.Is(err, fs.ErrNotExist) { // a temporary file of an editor
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keep copies what was built, unless the same is there already, and returns the first.
func keep(base, stage string, packages []string) (string, error) {
	sum := sha256.New()
	for _, p := range packages {
		f, err := os.Open(filepath.Join(stage, filepath.Base(p)))
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return "", err
		}
	}
	dir := filepath.Join(base, fmt.Sprintf("%x", sum.Sum(nil)[:8]))
	first, done := filepath.Join(dir, filepath.Base(packages[0])), filepath.Join(dir, "complete")
	if _, err := os.Stat(done); err == nil {
		now := time.Now()
		return first, os.Chtimes(dir, now, now)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for _, p := range packages {
		if err := copyFile(filepath.Join(stage, filepath.Base(p)), filepath.Join(dir, filepath.Base(p))); err != nil {
			return "", err
		}
	}
	return first, os.WriteFile(done, nil, 0o600)
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		return err
	}
	return dst.Close()
}

// removeOld removes binaries that no test has used for a day.
func removeOld(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() && time.Since(info.ModTime()) > 24*time.Hour {
			os.RemoveAll(filepath.Join(base, e.Name()))
		}
	}
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = parent
	}
}
