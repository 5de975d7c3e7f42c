package runners

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
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
		path, err := unpack(Name, bytes.NewReader(packed), dir)
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
	next, err := unpack(Name, bytes.NewReader(pack(t, "#!/bin/sh\n# two\n")), dir)
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 || entries[0].Name() != filepath.Base(next) {
		t.Errorf("left: %v", entries)
	}
}
