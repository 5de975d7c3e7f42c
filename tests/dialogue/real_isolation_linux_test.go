package dialogue_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/dialogue/model"
)

// TestIsolatedClaude: what Claude Code needs is in the isolation of its dialogue by itself.
func TestIsolatedClaude(t *testing.T) { isolated(t, claude, model.Bash) }

// TestIsolatedCodex: Codex too; its service is one of its own configuration, which the caller lists.
func TestIsolatedCodex(t *testing.T) { isolated(t, codex, model.Exec) }

// TestIsolatedACP: an agent that speaks the Agent Client Protocol too. It is not where programs of a
// home usually are, so the caller lists its directory.
func TestIsolatedACP(t *testing.T) { isolated(t, claudeACP, model.Bash) }

// isolated runs a turn of an agent that may use its workspace and its model alone. A command of it
// writes into the workspace, and gets neither at files nor at services outside.
func isolated(t *testing.T, a *realAgent, shell func(string) model.Tool) {
	r := a.use(t, behaviour{tools: a.shell})
	home := r.params.Env["HOME"]
	const key = "the-content-of-a-key"
	if err := os.WriteFile(filepath.Join(filepath.Dir(home), "key"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const outside = "/usr/trl-test-outside" // is visible to the agent, but not writable
	t.Cleanup(func() { os.Remove(outside) })
	command := fmt.Sprintf("echo in > inside.txt; (echo x > %s) 2>/dev/null || echo write-refused; cat %s; (echo x > /dev/tcp/127.0.0.1/%d) 2>/dev/null || echo connection-refused",
		outside, filepath.Join(filepath.Dir(home), "key"), other.Addr().(*net.TCPAddr).Port)
	r.model.Script("escape", model.Say("I will look around.").Call(shell(command)), model.Say("There is no way out."))

	r.params.Isolation = &api.Isolation{Profile: api.ProfileWorkspace, Network: api.NetworkAllow}
	switch a {
	case claudeACP:
		r.params.Isolation.Readable = []string{filepath.Dir(filepath.Dir(r.program))}
	case codex:
		r.params.Isolation.Allow = []string{strings.TrimPrefix(r.model.URL, "http://")}
		r.params.Isolation.Readable = filepath.SplitList(r.params.Env["PATH"])
	}
	r.open()
	if turn := r.talk("escape"); turn.Outcome != "completed" {
		t.Errorf("turn: %+v", turn)
	}
	if !r.exists("inside.txt") {
		t.Error("the agent could not write into its workspace")
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("the agent wrote outside of its workspace")
	}
	requests := r.model.Requests()
	last := requests[len(requests)-1]
	for _, text := range []string{"write-refused", "connection-refused"} {
		if !last.Says("tool", text) {
			t.Errorf("the command did not print %s", text)
		}
	}
	if last.Says("tool", key) {
		t.Error("the command read a file outside")
	}
	info, err := r.SessionInfo(r.ctx, api.SessionInfoParams{SessionID: r.session})
	if err != nil || info.Isolation == nil || info.Isolation.Connections == nil || info.Isolation.Connections.Allowed == 0 {
		t.Errorf("isolation: %+v, %v", info.Isolation, err)
	}
}
