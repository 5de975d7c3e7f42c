package client_test

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/trl-dev/trl/tests/trltest"
)

// TestExamples runs the examples with a real daemon.
func TestExamples(t *testing.T) {
	t.Setenv("TRL_SOCKET_PATH", trltest.Start(t).Socket)
	for name, example := range map[string]struct {
		run  func()
		want string
	}{
		"Connect":    {ExampleConnect, "0 \"\"\n3 \"hello world from /usr\\n\"\n"},
		"ExecStream": {ExampleClient_ExecStream, "one\ntwo\nexit 4\n"},
		"ExecStart":  {ExampleClient_ExecStart, "ready\ngot it\ncancelled: true\n"},
		"Screen":     {ExampleClient_SessionScreen, "\"name?\\n"},
		"errors":     {ExampleClient_errors, "SESSION_NOT_FOUND session \"nobody\": not found\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := printed(t, example.run); !strings.HasPrefix(got, example.want) {
				t.Errorf("printed\n%s\nwant\n%s", got, example.want)
			}
		})
	}
}

// printed is what f writes to stdout.
func printed(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stdout := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	f()
	_ = w.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadme: what the README shows is in the examples, which are run.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(string(examples)) {
		lines[strings.TrimSpace(line)] = true
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) < 4 {
		t.Errorf("%d pieces of Go", len(blocks))
	}
	for _, block := range blocks {
		for line := range strings.Lines(string(block[1])) {
			if line = strings.TrimSpace(line); line != "" && !lines[line] {
				t.Errorf("README.md shows what no example does: %s", line)
			}
		}
	}
}
