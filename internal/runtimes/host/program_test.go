package host

import (
	"bytes"
	"compress/gzip"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func pack(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runners")
	content := "#!/bin/sh\n" + strings.Repeat("# one\n", 1000)
	packed := pack(t, content)
	check := func(when string) string {
		t.Helper()
		path, err := unpack(bytes.NewReader(packed), dir)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || string(text) != content {
			t.Errorf("%s: %d bytes, %v", when, len(text), err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", when, info.Mode(), err)
		}
		return path
	}
	path := check("first")
	if name := filepath.Base(path); !regexp.MustCompile(`^trl-runner-[0-9a-f]{8}-[0-9a-f]+$`).MatchString(name) {
		t.Errorf("name = %q", name)
	}
	before, _ := os.Stat(path)
	check("again")
	if after, _ := os.Stat(path); !os.SameFile(before, after) {
		t.Error("written again although it was intact")
	}
	for when, damage := range map[string]func() error{
		"cut off":   func() error { return os.Truncate(path, 10) },
		"changed":   func() error { return os.WriteFile(path, []byte(strings.Replace(content, "one", "two", 1)), 0o700) },
		"mode":      func() error { return os.Chmod(path, 0o600) },
		"gone":      func() error { return os.Remove(path) },
		"not ready": func() error { return os.WriteFile(path, nil, 0o700) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		check(when)
	}
	// A new version takes the place of the old.
	next, err := unpack(bytes.NewReader(pack(t, "#!/bin/sh\n# two\n")), dir)
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 || entries[0].Name() != filepath.Base(next) {
		t.Errorf("left: %v", entries)
	}
}

func TestFindProgram(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	p, err := findProgram("/some/runner", t.TempDir(), log)
	if err != nil || p.path != "/some/runner" || p.args[0] != "trl-runner" {
		t.Errorf("named: %+v, %v", p, err)
	}
	if embedded("plan9", "mips") != nil {
		t.Error("there is a runner for a platform that has none")
	}
}

func TestBaseEnv(t *testing.T) {
	got := baseEnv([]string{
		"A=1", "EMPTY=", "B=x=y", "TRL_STATE_DIR=/x", "TRL_SESSION_ID=s-1", "NOTIFY_SOCKET=/n", "LISTEN_FDS=1", "LISTEN_PID=2", "INVOCATION_ID=i",
		"JOURNAL_STREAM=j", "OLDPWD=/o", "PWD=/p", "SHLVL=2", "_=/bin/x", "TERM=xterm", "=odd", "nonsense",
	})
	want := map[string]string{"A": "1", "EMPTY": "", "B": "x=y", "TERM": "dumb", "PATH": defaultPath}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := runnerEnviron([]string{"A=1", "PATH=/bin", "HOME=/root", "SECRET=x", "GORACE=y"}); !reflect.DeepEqual(got, []string{"GOMAXPROCS=1", "PATH=/bin", "HOME=/root", "GORACE=y"}) {
		t.Errorf("runner: %v", got)
	}
}

func TestLastWords(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"one\ntwo\n\n": "two",
		"start\npanic: oh no\n\ngoroutine 1 [running]:\n": "panic: oh no",
		"fatal error: all goroutines are asleep\n\nx\n":   "fatal error: all goroutines are asleep",
		strings.Repeat("x", 400):                          strings.Repeat("x", 300) + "...",
		strings.Repeat("y\n", 100000) + "bytes \xff\n":    "bytes ?",
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _ := lastLine(path); got != want {
			t.Errorf("%.40q: got %q, want %q", text, got, want)
		}
	}
	if got, _ := lastLine("/nonexistent/log"); got != "" {
		t.Errorf("no log: %q", got)
	}
}
