package dialogue_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestClaudeBackgroundShell: the same with a command.
func TestClaudeBackgroundShell(t *testing.T) {
	r := useClaude(t, "Bash").open()
	f := r.ask("bgbash")
	f.until(api.DialogueEventTurnEnded)
	if tr := r.transcript(r.id); len(tr.Tasks) != 1 || tr.Tasks[0].Status != "running" || tr.Tasks[0].Kind != "shell" {
		t.Errorf("tasks: %+v", tr.Tasks)
	}
	r.touch("go")
	f.until(api.DialogueEventTurnEnded)
	r.looks(`
		user: [[bgbash]]
		agent: A command in the background.
		tool_call Bash completed "until [ -e go ]; do sleep 0.05; done; echo bg-done": (long)
		agent: It is in the background.
		agent: The command in the background has ended.
		turn by user: completed
		turn by agent: completed
		task shell "waits" in the background: completed
	`)
	r.same()
}

// TestClaudeClear: the conversation begins anew under another id of the agent's; the dialogue goes on.
func TestClaudeClear(t *testing.T) { claudeClears(useClaude(t, "").open()) }

func claudeClears(r *real) {
	t := r.T
	r.talk("turn1")
	before := r.info(r.id).NativeSession
	f := r.follow(r.id, r.send(r.id, "/clear").Seq)
	reset := f.until(api.DialogueEventReset)
	f.rest()
	if turn := r.talk("turn2"); turn.Outcome != "completed" {
		t.Errorf("after /clear: %+v", turn)
	}
	info := r.info(r.id)
	if after := info.NativeSession; before == after || reset.Opened.NativeSession != after || reset.Opened.Why != "cleared" {
		t.Errorf("the conversation had the id %s, has %s, and was told: %+v", before, after, reset.Opened)
	}
	if info.Usage.InputTokens != 20 || info.Usage.OutputTokens != 40 {
		t.Errorf("two answers used %+v", info.Usage)
	}
	requests := r.model.Requests()
	if requests[len(requests)-1].Says("user", "[[turn1]]") {
		t.Error("the model was told what was cleared")
	}
	if tr := r.transcript(r.id); !strings.Contains(outline(tr), "Answer to turn one.") {
		t.Errorf("what was before is not in the transcript:\n%s", outline(tr))
	}
	r.same()
}

// TestClaudeCompacts: the agent shortens what it remembers; the transcript keeps all of it.
func TestClaudeCompacts(t *testing.T) {
	r := useClaude(t, "").open()
	r.talk("turn1")
	f := r.follow(r.id, r.send(r.id, "/compact").Seq)
	f.until(api.DialogueEventCompacted)
	f.rest()
	if turn := r.talk("turn2"); turn.Outcome != "completed" {
		t.Errorf("after /compact: %+v", turn)
	}
	if text := outlineOf(r.transcript(r.id)); !strings.HasPrefix(text, "user: [[turn1]]\nagent: Answer to turn one.\n") || !strings.HasSuffix(text, "user: [[turn2]]\nagent: Answer to turn two.\n") {
		t.Errorf("after /compact:\n%s", text)
	}
	r.same()
}

// TestClaudeSubagentAsks: a request of a subagent names its task.
func TestClaudeSubagentAsks(t *testing.T) {
	r := useClaude(t, "").open()
	f := r.ask("agent_touch")
	q := f.request()
	if tr := r.transcript(r.id); len(tr.Tasks) != 1 || q.TaskID != tr.Tasks[0].TaskID {
		t.Errorf("request %+v, tasks %+v", q, tr.Tasks)
	}
	if err := r.answers(q, api.DialogueRespondParams{Decision: "allow"}); err != nil {
		t.Fatal(err)
	}
	if turn := f.rest(); turn.Outcome != "completed" || !r.exists("allowed.txt") {
		t.Errorf("it was allowed: %+v", turn)
	}
	r.same()
}

// TestClaudePlan: a plan is approved, and the agent leaves the mode.
func TestClaudePlan(t *testing.T) {
	r := useClaude(t, "")
	r.params.PermissionMode = "plan"
	r.open()
	f := r.ask("plan")
	q := f.request()
	if q.Kind != "plan" || !strings.Contains(string(q.Input), "Do it") {
		t.Errorf("request: %+v", q)
	}
	if err := r.answers(q, api.DialogueRespondParams{Decision: "allow"}); err != nil {
		t.Fatal(err)
	}
	if turn := f.rest(); turn.Outcome != "completed" {
		t.Errorf("after the plan: %+v", turn)
	}
	r.same()
}

// TestClaudePolicy: rules answer without a client.
func TestClaudePolicy(t *testing.T) {
	r := useClaude(t, "")
	r.params.Policy = &api.DialoguePolicy{Rules: []api.DialogueRule{
		{Tool: "Bash", Pattern: "touch *", Action: "allow"},
		{Tool: "*", Action: "deny", Message: "Nothing else."},
	}}
	r.open()
	r.talk("touch")
	r.talk("long")
	if !r.exists("allowed.txt") {
		t.Error("the rule did not allow it")
	}
	tr := r.transcript(r.id)
	if len(tr.Requests) != 2 || tr.Requests[0].By != "policy" || tr.Requests[0].Decision != "allow" || tr.Requests[1].By != "policy" || tr.Requests[1].Decision != "deny" {
		t.Errorf("requests: %+v", tr.Requests)
	}
	requests := r.model.Requests()
	if last := requests[len(requests)-1]; !last.Says("tool", "Nothing else.") {
		t.Errorf("the model was not told why: %+v", last.Messages)
	}
	r.same()
}

// TestClaudeInterruptsSubagents: with the turn, the subagents in the foreground and their commands end.
func TestClaudeInterruptsSubagents(t *testing.T) {
	r := useClaude(t, "Bash,Agent").open()
	f := r.ask("agents_long")
	testkit.Eventually(t, "both subagents run a command", func() bool {
		text, _ := os.ReadFile(filepath.Join(r.dir, "started"))
		return string(text) == "started\nstarted\n"
	})
	testkit.Must(r.DialogueInterrupt(r.ctx, api.DialogueInterruptParams{DialogueID: r.id}))(r.world)
	if turn := f.rest(); turn.Outcome != "interrupted" {
		t.Errorf("interrupted: %+v", turn)
	}
	testkit.Eventually(t, "the commands are gone", func() bool { return !r.runs("sleep 1000") })
	r.looks(`
		user: [[agents_long]]
		agent: Two that take long.
		tool_call Agent cancelled "Long A": (long)
		  user: Long A [[sub_long]]
		  agent: The subagent takes long.
		  tool_call Bash cancelled "echo started >> started; sleep 1000":
		tool_call Agent cancelled "Long B": (long)
		  user: Long B [[sub_long]]
		  agent: The subagent takes long.
		  tool_call Bash cancelled "echo started >> started; sleep 1000":
		program: [Request interrupted by user]
		turn by user: interrupted
		task agent "Long A": cancelled
		task agent "Long B": cancelled
	`)
	r.same()
}
