package cases_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/cases"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestRuntimeDirDeleted lets a command delete the session's private directory,
// which no case can name. The session and its state must not notice.
func TestRuntimeDirDeleted(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", *grace))
	service := daemon.Client(t)
	links := t.TempDir()
	for _, name := range cases.Tested {
		t.Run(name, func(t *testing.T) {
			shell, err := cases.FindShell(name, links)
			if err != nil {
				t.Skip(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			info, err := service.SessionCreate(ctx, api.SessionCreateParams{Shell: shell.Path})
			if err != nil {
				t.Fatal(err)
			}
			dir := privateDir(t, daemon.RuntimeDir, info.SessionID)
			set := "K=kept"
			if name == "fish" {
				set = "set -g K kept"
			}
			if r := testkit.Must(service.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Command: set + "; cd /tmp; rm -rf " + dir}))(t); r.ExitCode != 0 {
				t.Fatalf("rm: %d %q", r.ExitCode, r.Stderr)
			}
			if _, err := os.Stat(filepath.Join(dir, "link.sock")); err == nil {
				t.Fatalf("%s was not deleted", dir)
			}
			check := func(after string) {
				t.Helper()
				r := testkit.Must(service.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Command: "echo $K; pwd; cat", Stdin: new("in")}))(t)
				if r.Stdout != "kept\n/tmp\nin" || r.ExitCode != 0 {
					t.Errorf("after %s: stdout %q, stderr %q, exit_code %d", after, r.Stdout, r.Stderr, r.ExitCode)
				}
			}
			check("rm")
			testkit.Must(service.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Command: "rm -rf " + dir + "; sleep 60", TimeoutS: new(0.5)}))(t)
			check("rm and timeout")
			testkit.Must(service.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Command: "rm -rf " + dir + "; exit 3"}))(t)
			check("rm and exit")
		})
	}
}

// privateDir finds the directory of a session by its name.
func privateDir(t *testing.T, runtimeDir, sessionID string) string {
	t.Helper()
	var found string
	_ = filepath.WalkDir(runtimeDir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.Contains(e.Name(), strings.TrimPrefix(sessionID, "s-")) {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if found == "" {
		t.Fatalf("session %s has no directory below %s", sessionID, runtimeDir)
	}
	return found
}

// TestLoadRefuses shows that a mistake in a case does not pass unseen.
func TestLoadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"unknown field":   `{"id":"a","shells":["sh"],"steps":[{"command":"true","expect":{"exitcode":0}}]}`,
		"unknown shell":   `{"id":"a","shells":["csh"],"steps":[{"command":"true"}]}`,
		"no step":         `{"id":"a","shells":["sh"],"steps":[]}`,
		"nothing to do":   `{"id":"a","shells":["sh"],"steps":[{"expect":{}}]}`,
		"bad expression":  `{"id":"a","shells":["sh"],"steps":[{"command":"true","expect":{"stdout_regex":"("}}]}`,
		"the same id":     `{"id":"a","shells":["sh"],"steps":[{"command":"true"}]}` + "\n" + `{"id":"a","shells":["sh"],"steps":[{"command":"true"}]}`,
		"not JSON at all": `hello`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.jsonl")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if list, err := cases.Load(path, ""); err == nil {
				t.Errorf("loaded %d cases", len(list))
			}
		})
	}
}
