package trltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Shifted returns the path of a trl like that of Static, whose runner has a clock that differs by d from that
// of the machine. It is built with another file of package time, which takes a minute for the first time.
func Shifted(t testing.TB, d time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	if err := shifted(dir, strconv.Itoa(int(d.Seconds())), ""); err != nil {
		t.Fatalf("trltest: %s", err)
	}
	return filepath.Join(dir, "trl")
}

// Stepped is like Shifted, but the clock of the runner differs only once step has been called, as if it
// had been set then.
func Stepped(t testing.TB, d time.Duration) (path string, step func()) {
	t.Helper()
	dir := t.TempDir()
	stepped := filepath.Join(dir, "stepped")
	if err := shifted(dir, strconv.Itoa(int(d.Seconds())), stepped); err != nil {
		t.Fatalf("trltest: %s", err)
	}
	return filepath.Join(dir, "trl"), func() {
		t.Helper()
		if err := os.WriteFile(stepped, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shifted makes the programs in dir. The clock is shifted as soon as the file once exists; "" for always.
func shifted(dir, seconds, once string) error {
	path, err := Static()
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	overlay, err := clockOverlay()
	if err != nil {
		return err
	}
	flags := append([]string{"-overlay", overlay}, staticFlags...)
	flags[len(flags)-1] += " -X time.shift=" + seconds + " -X time.shiftOnce=" + once
	runner, err := buildIn(root, "shifted"+seconds, []string{"CGO_ENABLED=0"}, flags, "./cmd/trl-runner")
	if err != nil {
		return err
	}
	for name, from := range map[string]string{"trl": filepath.Dir(path), "trl-kube": filepath.Dir(path), "trl-runner": filepath.Dir(runner)} {
		if err := copyFile(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// clockOverlay returns a file for go build -overlay. The package time of it adds the seconds in its variable
// shift to the time of day and not to the monotonic reading, as soon as the file shiftOnce exists. The linker sets
// both.
var clockOverlay = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	original := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	const now = "sec, nsec, mono := runtimeNow()\n"
	if bytes.Count(text, []byte(now)) != 1 {
		return "", fmt.Errorf("%s: time.Now of %s is not as expected", original, runtime.Version())
	}
	text = bytes.Replace(text, []byte(now), []byte(now+"\tsec += shiftNow()\n"), 1)
	text = append(text, `
var (
	shift        string
	shiftOnce    string
	shiftSeconds = func() (n int64) {
		sign := int64(1)
		for _, c := range []byte(shift) {
			if c == '-' {
				sign = -1
			} else {
				n = 10*n + int64(c-'0')
			}
		}
		return sign * n
	}()
)

func shiftNow() int64 {
	if shiftOnce != "" {
		fd, err := open(shiftOnce)
		if err != nil {
			return 0
		}
		closefd(fd)
	}
	return shiftSeconds
}
`...)
	// The names are always the same: they are a part of what the go command compares with its cache.
	dir := filepath.Join(os.TempDir(), "trltest-"+strconv.Itoa(os.Getuid()), "clock")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	used := time.Now()
	_ = os.Chtimes(dir, used, used) // old directories are removed
	file, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: file}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, list, 0o600)
})
