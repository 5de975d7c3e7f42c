// Package programs finds the real agents for tests. They are not part of this repository:
// tests/setup.sh installs them into the cache directory of the user, at the versions below.
package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// The versions that the tests were written for. They are those of tests/setup.sh.
const (
	ClaudeVersion    = "2.1.325"
	ClaudeOldVersion = "2.1.197" // the oldest that is supported
	CodexVersion     = "0.166.0"
	ClaudeACPVersion = "0.16.2"
)

// Claude is the path of Claude Code: $TRL_TEST_CLAUDE, or where tests/setup.sh installs it. Without
// it the test is skipped, with a message on stderr.
func Claude(t testing.TB) string {
	t.Helper()
	return find(t, "TRL_TEST_CLAUDE", "Claude Code "+ClaudeVersion, "claude-"+ClaudeVersion, "claude")
}

// ClaudeOld is the path of the oldest Claude Code that is supported: $TRL_TEST_CLAUDE_OLD, or
// where tests/setup.sh installs it. Without it the test is skipped, with a message on stderr.
func ClaudeOld(t testing.TB) string {
	t.Helper()
	return find(t, "TRL_TEST_CLAUDE_OLD", "Claude Code "+ClaudeOldVersion, "claude-"+ClaudeOldVersion, "claude")
}

// Codex is the path of Codex: $TRL_TEST_CODEX, or where tests/setup.sh installs it. Without it the test
// is skipped, with a message on stderr.
func Codex(t testing.TB) string {
	t.Helper()
	return find(t, "TRL_TEST_CODEX", "Codex "+CodexVersion, "codex-"+CodexVersion, "bin", "codex")
}

// ClaudeACP is the path of claude-code-acp, which speaks the Agent Client Protocol for Claude Code:
// $TRL_TEST_CLAUDE_ACP, or where tests/setup.sh installs it. Without it the test is skipped, with a
// message on stderr.
func ClaudeACP(t testing.TB) string {
	t.Helper()
	return find(t, "TRL_TEST_CLAUDE_ACP", "claude-code-acp "+ClaudeACPVersion, "claude-acp-"+ClaudeACPVersion, "node_modules", ".bin", "claude-code-acp")
}

// Installed are the paths of Claude Code and of Codex, for a program that is no test. A path is empty
// if the agent is not here.
func Installed() (claude, codex string) {
	if path, ok := look("TRL_TEST_CLAUDE", "claude-"+ClaudeVersion, "claude"); ok {
		claude = path
	}
	if path, ok := look("TRL_TEST_CODEX", "codex-"+CodexVersion, "bin", "codex"); ok {
		codex = path
	}
	return claude, codex
}

// look returns where a program should be, and whether it is there.
func look(variable string, inCache ...string) (path string, ok bool) {
	path = os.Getenv(variable)
	if path == "" {
		if cache, err := os.UserCacheDir(); err == nil {
			path = filepath.Join(append([]string{cache, "trl-test"}, inCache...)...)
		}
	}
	info, err := os.Stat(path)
	return path, err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func find(t testing.TB, variable, what string, inCache ...string) string {
	t.Helper()
	path, ok := look(variable, inCache...)
	if ok {
		return path
	}
	if os.Getenv(variable) != "" {
		t.Fatalf("%s: %q is no program", variable, path)
	}
	fmt.Fprintf(os.Stderr, "SKIPPED: %s: %s is not here (%s/%s; tests/setup.sh installs it on linux/amd64, %s names another one)\n",
		t.Name(), what, runtime.GOOS, runtime.GOARCH, variable)
	t.SkipNow()
	return ""
}
