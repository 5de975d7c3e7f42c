package mcp_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/mcp"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestIsolate: a model confines the sessions that it makes.
func TestIsolate(t *testing.T) {
	testkit.Long(t)
	outside := filepath.Join(t.TempDir(), "outside")
	write := "echo x > " + outside
	workspace := t.TempDir()
	service := trltest.Start(t).Client(t)
	p := serve(t, 0, service)
	p.does("run", map[string]any{"command": "true"}, `\[exit code 0 .*`)
	p.refuses("run", map[string]any{"command": "true", "isolate": "workspace"}, `does not have the isolation "workspace"; give session another name`)
	p.refuses("run", map[string]any{"command": "true", "session": "x", "isolate": "nothing"}, `there is no profile "nothing"`)
	p.refuses("run", map[string]any{"command": "true", "isolation": "workspace"}, `did you mean "isolate"?`)
	p.does("run", map[string]any{"command": "cd " + workspace}, `\[exit code 0 .*`)
	for _, tool := range []string{"start", "terminal_start"} { // in the directory of the default session
		args := map[string]any{"command": "sh -c '" + write + "; echo done; sleep 1000'", "isolate": "workspace"}
		id, _ := p.structured(tool, args)["exec_id"].(string)
		if tool == "start" {
			p.does("wait", map[string]any{"exec_id": id, "match": "done"}, `.*done.*`)
		} else {
			p.does("terminal_screen", map[string]any{"match": "done"}, `.*done.*`)
		}
		if _, err := os.Stat(outside); err == nil {
			t.Fatalf("%s: wrote outside", tool)
		}
	}

	confined := serveAs(t, service, mcp.Config{Isolate: "workspace", Dir: workspace})
	confined.does("run", map[string]any{"command": "echo in > here; cat here"}, `in\n.*`)
	confined.refuses("start", map[string]any{"command": "true", "isolate": "read-only"}, `every new session has the isolation "workspace" here; leave it out`)
	confined.refuses("dialogue_start", map[string]any{"isolate": "read-only"}, `every new session has the isolation "workspace" here; leave it out`)
	p.does("run", map[string]any{"command": "true", "session": "open"}, `.*exit code 0.*`)
	confined.refuses("run", map[string]any{"command": write, "session": "open"}, `does not have the isolation "workspace"`)
	open := p.structured("start", map[string]any{"command": "sh", "stdin": true})["exec_id"]
	confined.refuses("input", map[string]any{"exec_id": open, "text": write + "\n"}, `does not have the isolation "workspace"`)
	p.does("terminal_start", map[string]any{"command": "sh", "session": "screen"}, `.*`)
	confined.refuses("terminal_type", map[string]any{"session": "screen", "text": write + "\n"}, `does not have the isolation "workspace"`)
	if _, err := os.Stat(outside); err == nil {
		t.Error("wrote outside")
	}
}

// TestLimits: a model bounds what its commands use.
func TestLimits(t *testing.T) {
	testkit.Long(t)
	p := connect(t, 0)
	p.refuses("run", map[string]any{"command": "true", "memory_bytes": -1}, `memory_bytes`)
	p.refuses("start", map[string]any{"command": "true", "cpus": -1}, `cpus`)
	p.refuses("terminal_start", map[string]any{"command": "true", "pids": -1}, `pids`)
	p.refuses("run", map[string]any{"command": "true", "memory": 1}, `did you mean "memory_bytes"?`)
	text, failed, err := p.call(context.Background(), "run", map[string]any{"command": `perl -e '$x = "x" x (200 << 20)'`, "memory_bytes": 64 << 20})
	if failed && strings.HasPrefix(text, "LIMIT_UNAVAILABLE: limit memory_bytes cannot be enforced: ") {
		return
	}
	if err != nil || failed || !strings.Contains(text, "a process was killed at the memory limit of 67,108,864 bytes") {
		t.Errorf("%q, %v, %v", text, failed, err)
	}
	p.does("terminal_start", map[string]any{"command": "sleep 1000", "session": "few", "pids": 40}, `.*`)
	info, err := p.service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: "few"})
	if err != nil || info.Limits == nil || info.Limits.Pids != 40 {
		t.Errorf("%+v, %v", info.Limits, err)
	}
}
