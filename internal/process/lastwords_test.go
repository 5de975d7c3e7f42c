package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/process"
)

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
		if got, _ := process.LastWords(path); got != want {
			t.Errorf("%.40q: got %q, want %q", text, got, want)
		}
	}
	if got, _ := process.LastWords("/nonexistent/log"); got != "" {
		t.Errorf("no log: %q", got)
	}
}
