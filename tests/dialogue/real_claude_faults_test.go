package dialogue_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestClaudeFaults: what goes wrong at the model is told, the retries too.
func TestClaudeFaults(t *testing.T) {
	r := useClaude(t)
	r.params.Env = maps.Clone(r.params.Env)
	r.params.Env["CLAUDE_CODE_MAX_RETRIES"] = "2"
	r.open()

	f := r.ask("busy")
	if turn := f.rest(); turn.Outcome != "completed" || turn.Text != "Answered after two refusals." {
		t.Errorf("busy: %+v", turn)
	}
	var retries []api.DialogueRetry
	for _, ev := range f.events {
		if ev.Type == api.DialogueEventRetry {
			retries = append(retries, *ev.Retry)
		}
	}
	if len(retries) != 2 || retries[0].Attempt != 1 || retries[1].Attempt != 2 || retries[0].Most != 2 || !strings.Contains(retries[0].Cause, "529") {
		t.Errorf("retries: %+v", retries)
	}

	if turn := r.talk("cut"); turn.Outcome != "completed" {
		t.Errorf("cut: %+v", turn)
	}
	for _, script := range []string{"err400", "err401", "err529"} {
		if turn := r.talk(script); turn.Outcome != "failed" || turn.Text == "" {
			t.Errorf("%s: %+v", script, turn)
		}
	}
	if turn := r.talk("turn1"); turn.Outcome != "completed" {
		t.Errorf("after the faults: %+v", turn)
	}
	r.looks(`
		user: [[busy]]
		agent: Answered after two refusals.
		user: [[cut]]
		agent: The connection is cut in the middle of this sentence.
		user: [[err400]]
		program: API Error: 400 scripted 400
		user: [[err401]]
		program: Failed to authenticate. API Error: 401 scripted 401
		user: [[err529]]
		program: (long)
		user: [[turn1]]
		agent: Answer to turn one.
		turn by user: completed
		turn by user: completed
		turn by user: failed
		turn by user: failed
		turn by user: failed
		turn by user: completed
	`)
	r.same()
}

// TestClaudeHuge: answers of 2 MiB and 20 MiB come whole, each in one line of the program.
func TestClaudeHuge(t *testing.T) {
	r := useClaude(t)
	r.world = start(t, trltest.Use(plain()))
	r.open()
	r.hugeAnswer("giant", 20<<20)
	r.hugeAnswer("huge", 2<<20)
}

// hugeAnswer asks for an answer of that size.
func (r *real) hugeAnswer(script string, size int) {
	r.Helper()
	f := r.ask(script)
	defer f.close()
	if turn := f.rest(); turn.Outcome != "completed" {
		r.Errorf("%s: %s", script, turn.Outcome)
	}
	want := strings.Repeat("0123456789abcdef", size/16)
	for _, ev := range f.events {
		if ev.Type == api.DialogueEventItem && ev.Item.Kind == "agent" && ev.Item.Status == "final" {
			if len(ev.Item.Parts) == 1 && ev.Item.Parts[0].Text == want {
				return
			}
			r.Errorf("%s: the answer is not what the model said", script)
		}
	}
	r.Errorf("%s: there is no answer of %d bytes", script, size)
}

// TestClaudeDoesNotStart: what keeps the program from starting is told, and nothing is left.
func TestClaudeDoesNotStart(t *testing.T) {
	r := useClaude(t)
	fails := func(name string, code api.Code, text string, change func(p *api.DialogueCreateParams)) {
		t.Helper()
		p := r.params
		p.Name = name
		change(&p)
		_, err := r.DialogueCreate(r.ctx, p)
		testkit.WantError(t, err, code, text)
	}
	fails("flag", api.CodeAgentFailed, "unknown option '--no-such-flag'", func(p *api.DialogueCreateParams) {
		p.Argv = append(p.Argv[:1:1], "--no-such-flag")
	})
	if os.Geteuid() == 0 {
		fails("root", api.CodeAgentFailed, "root", func(p *api.DialogueCreateParams) {
			p.Argv = append(p.Argv[:1:1], "--dangerously-skip-permissions")
		})
	}
	fails("missing", api.CodeAgentFailed, "no-such-program", func(p *api.DialogueCreateParams) {
		p.Argv = []string{filepath.Join(r.dir, "no-such-program")}
	})
	fails("resume", api.CodeAgentFailed, "No conversation found", func(p *api.DialogueCreateParams) {
		p.Resume = "00000000-0000-4000-8000-000000000000"
	})

	const session = "11111111-2222-4333-8444-555555555555"
	used := r.params
	used.Argv = append(used.Argv[:1:1], "--session-id", session)
	info := r.create(used)
	r.id, r.session = info.DialogueID, info.SessionID
	r.talk("turn1")
	r.terminate(r.id)
	fails("used", api.CodeAgentFailed, "already in use", func(p *api.DialogueCreateParams) {
		p.Argv = append(p.Argv[:1:1], "--session-id", session)
	})

	for _, s := range testkit.Must(r.SessionList(r.ctx, api.SessionListParams{}))(r.world).Sessions {
		if s.State != api.SessionTerminated {
			t.Errorf("session left: %+v", s)
		}
	}
	if list := testkit.Must(r.DialogueList(r.ctx, api.DialogueListParams{}))(r.world).Dialogues; len(list) != 1 || list[0].DialogueID != r.id {
		t.Errorf("dialogues: %+v", list)
	}
	testkit.Eventually(t, "no process of the agent is left", func() bool { return len(carriers("HOME="+r.params.Env["HOME"])) == 0 })
}
