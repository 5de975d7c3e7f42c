package dialogue_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestPolicyOfThePage: the policy of docs/dialogues.md decides as its text says.
func TestPolicyOfThePage(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := fake()
	shown := trltest.OneSnippet(t, "docs/dialogues.md", "## Requests and policy", "json")
	if err := json.Unmarshal([]byte(shown), &p.Policy); err != nil {
		t.Fatal(err)
	}
	d := w.create(p)
	if d.Policy == nil || d.Policy.DenyAfterS == nil || *d.Policy.DenyAfterS != 600 {
		t.Errorf("the policy is %+v", d.Policy)
	}
	for _, c := range []struct{ ask, want string }{
		{"Read /src/prod.env", "deny"},
		{"Write /src/prod.env", "deny"},
		{"Write /src/.github/workflows/ci.yml", "ask"},
		{"Write /src/main.go", "allow"},
		{"Read /src/.github/workflows/ci.yml", "allow"},
		{"Bash git status --short", "allow"},
		{"Bash git push", "ask"},
		{"Read /etc/passwd", "ask"},
	} {
		f := w.follow(d.DialogueID, w.info(d.DialogueID).Seq)
		w.send(d.DialogueID, "ask "+c.ask)
		opened := f.until(api.DialogueEventRequestOpened).Request
		if c.want == "ask" {
			f.state(api.DialogueRequiresAction)
			if err := w.respond(d.DialogueID, opened.RequestID, "allow"); err != nil {
				t.Errorf("%s: %v", c.ask, err)
			}
		}
		closed := f.until(api.DialogueEventRequestClosed).Request
		f.until(api.DialogueEventTurnEnded)
		f.close()
		if policy := closed.By == "policy"; policy == (c.want == "ask") || policy && closed.Decision != c.want {
			t.Errorf("%s: %s by %s, want %s", c.ask, closed.Decision, closed.By, c.want)
		}
	}
	w.terminate(d.DialogueID)
}

// TestRemoteOfThePage creates the dialogue of docs/dialogues.md, on another daemon with a coding agent.
func TestRemoteOfThePage(t *testing.T) {
	t.Parallel()
	far := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0"), trltest.Env("PATH="+trltest.AgentPath(t)))
	token := filepath.Join(t.TempDir(), "box.token")
	if err := os.WriteFile(token, []byte(far.Token(t)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := trltest.OneSnippet(t, "docs/dialogues.md", "## Remote agents", "json")
	var p api.DialogueCreateParams
	if err := json.Unmarshal([]byte(strings.NewReplacer("grpcs://box.example:7331", far.GRPC(t), "/home/me/box.token", token).Replace(shown)), &p); err != nil {
		t.Fatal(err)
	}
	w := start(t)
	t.Cleanup(func() { w.daemon.Stop(t) }) // before the other one
	d := w.create(p)
	w.says(d.DialogueID, "say hello")
	items := w.transcript(d.DialogueID).Items
	if last := items[len(items)-1]; last.Parts[0].Text != "hello" {
		t.Errorf("%+v", last)
	}
	guest, err := far.Client(t).SessionInfo(w.ctx, api.SessionInfoParams{SessionID: d.SessionID})
	if err != nil || guest.Guest == nil {
		t.Errorf("the agent is not a guest of the other daemon: %+v, %v", guest, err)
	}
	w.terminate(d.DialogueID)
}
