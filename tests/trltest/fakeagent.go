package trltest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

const fakeAgentPackage = "tests/dialogue/fakeagent"

// FakeAgentPath is the path of the fake coding agent, which speaks as Claude does. It is
// built once per test process.
var FakeAgentPath = sync.OnceValues(func() (string, error) {
	return build("agent", nil, []string{"-race=false"}, "./"+fakeAgentPackage)
})

// FakeAgent returns the path of the fake agent by the name claude, so that it is found on a
// PATH.
func FakeAgent(t testing.TB) string {
	t.Helper()
	path, err := FakeAgentPath()
	named := filepath.Join(filepath.Dir(path), "claude")
	if err == nil {
		err = os.Symlink(filepath.Base(path), named)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatalf("trltest: %s", err)
	}
	return named
}

// AgentPath returns a PATH on which the fake agent is found before a real one.
func AgentPath(t testing.TB) string {
	t.Helper()
	return filepath.Dir(FakeAgent(t)) + ":" + os.Getenv("PATH")
}
