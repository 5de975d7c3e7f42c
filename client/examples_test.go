package client_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/trl-dev/trl/tests/trltest"
)

// examples are the functions of example_test.go, with what they print.
var examples = map[string]struct {
	run  func()
	want string
}{
	"ExampleConnect":              {ExampleConnect, "0 \"\"\n3 \"hello world from /usr\\n\"\n"},
	"ExampleClient_ExecStream":    {ExampleClient_ExecStream, "one\ntwo\nexit 4\n"},
	"ExampleClient_ExecStart":     {ExampleClient_ExecStart, "ready\ngot it\ncancelled: true\n"},
	"ExampleClient_SessionScreen": {ExampleClient_SessionScreen, "name? Ada\nhello Ada\n"},
	"ExampleClient_errors":        {ExampleClient_errors, "SESSION_NOT_FOUND session \"nobody\": not found\n"},
}

// TestExamples runs the examples with a real daemon.
func TestExamples(t *testing.T) {
	t.Setenv("TRL_SOCKET_PATH", trltest.Start(t).Socket)
	for name, example := range examples {
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

// TestReadme: each piece of Go in the README is in an example, line after line, and TestExamples runs it.
func TestReadme(t *testing.T) {
	for _, s := range trltest.AllSnippets(t, "client/README.md", "go") {
		name := trltest.FunctionWith(t, "example_test.go", s.Code)
		if _, runs := examples[name]; name != "" && !runs {
			t.Errorf("README.md:%d: TestExamples does not run %s", s.Line, name)
		}
	}
}
