package dialogue_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

func (r *real) exists(name string) bool {
	_, err := os.Stat(filepath.Join(r.dir, name))
	return err == nil
}

// TestClaudePermissions: what has to be allowed is asked once and answered once.
func TestClaudePermissions(t *testing.T) { claudePermissions(useClaude(t).open()) }

func claudePermissions(r *real) {
	t := r.T
	f := r.ask("touch")
	q := f.request()
	if q.Kind != "permission" || q.Tool != "Bash" || q.Subject != "touch allowed.txt" || q.ToolCallID == "" {
		t.Errorf("request: %+v", q)
	}
	if info := r.info(r.id); info.State != api.DialogueRequiresAction || info.Requests != 1 {
		t.Errorf("while a request waits: %+v", info)
	}
	if err := r.answers(q, api.DialogueRespondParams{Decision: "allow"}); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, r.answers(q, api.DialogueRespondParams{Decision: "deny"}), api.CodeConflict, q.RequestID)
	f.rest()
	if !r.exists("allowed.txt") {
		t.Error("it was allowed, and not done")
	}

	os.Remove(filepath.Join(r.dir, "allowed.txt"))
	f = r.ask("touch")
	q = f.request()
	if err := r.answers(q, api.DialogueRespondParams{Decision: "deny", Message: "Not today."}); err != nil {
		t.Fatal(err)
	}
	turn := f.rest()
	if len(turn.Denials) != 1 || turn.Denials[0] != q.ToolCallID || r.exists("allowed.txt") {
		t.Errorf("it was denied: %+v", turn)
	}

	f = r.ask("touch")
	if err := r.answers(f.request(), api.DialogueRespondParams{Decision: "allow", Input: json.RawMessage(`{"command":"echo replaced"}`)}); err != nil {
		t.Fatal(err)
	}
	f.rest()
	r.editedInput(`{"command":"echo replaced"}`, "touch allowed.txt")

	f = r.ask("touch")
	if err := r.answers(f.request(), api.DialogueRespondParams{Decision: "deny", Message: "Stop.", Interrupt: true}); err != nil {
		t.Fatal(err)
	}
	if turn := f.rest(); turn.Outcome != "interrupted" {
		t.Errorf("it was denied and interrupted: %+v", turn)
	}
	r.looks(`
		user: [[touch]]
		agent: It needs to be allowed.
		tool_call Bash completed "touch allowed.txt": (Bash completed with no output)
		agent: That step is over.
		user: [[touch]]
		agent: It needs to be allowed.
		tool_call Bash failed "touch allowed.txt": Not today.
		agent: That step is over.
		user: [[touch]]
		agent: It needs to be allowed.
		tool_call Bash completed "echo replaced": replaced
		agent: That step is over.
		user: [[touch]]
		agent: It needs to be allowed.
		tool_call Bash cancelled "touch allowed.txt": (long)
		program: [Request interrupted by user for tool use]
		turn by user: completed
		turn by user: completed
		turn by user: completed
		turn by user: interrupted
		request permission Bash: answered allow
		request permission Bash: answered deny
		request permission Bash: answered allow
		request permission Bash: answered deny
	`)
	r.same()
}

// editedInput checks that the last tool call and the last request have both inputs: the
// model's and the one that was run in its place. The outline shows what was run.
func (r *real) editedInput(ran, asked string) {
	r.Helper()
	tr := r.transcript(r.id)
	q := tr.Requests[len(tr.Requests)-1]
	var model struct{ Command string }
	if err := json.Unmarshal(q.Input, &model); err != nil || model.Command != asked || q.Subject != asked || string(q.EffectiveInput) != ran {
		r.Errorf("the request: %s, ran %s, about %q", q.Input, q.EffectiveInput, q.Subject)
	}
	for _, it := range tr.Items {
		if it.ItemID == q.ToolCallID && (string(it.Tool.Input) != string(q.Input) || string(it.Tool.EffectiveInput) != ran) {
			r.Errorf("the tool call: %s, ran %s", it.Tool.Input, it.Tool.EffectiveInput)
		}
	}
}

// TestClaudeSubagentAsks: a request of a subagent names its task.
func TestClaudeSubagentAsks(t *testing.T) {
	r := useClaude(t).open()
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

// TestClaudeQuestion: a question has options, and is answered by its text.
func TestClaudeQuestion(t *testing.T) {
	r := useClaude(t).open()
	f := r.ask("ask")
	q := f.request()
	if q.Kind != "question" || len(q.Questions) != 1 || q.Questions[0].Question != "Which color?" || len(q.Questions[0].Options) != 2 || q.Questions[0].Options[1].Label != "Blue" {
		t.Errorf("request: %+v", q)
	}
	if err := r.answers(q, api.DialogueRespondParams{Answers: map[string]string{"Which color?": "Blue"}}); err != nil {
		t.Fatal(err)
	}
	f.rest()
	requests := r.model.Requests()
	if last := requests[len(requests)-1]; !last.Says("tool", "Blue") {
		t.Errorf("the model was not told: %+v", last.Messages)
	}
	r.same()
}

// TestClaudePlan: a plan is approved, and the agent leaves the mode.
func TestClaudePlan(t *testing.T) {
	r := useClaude(t)
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

// TestClaudePolicy: rules answer when nobody does.
func TestClaudePolicy(t *testing.T) {
	r := useClaude(t)
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

// TestClaudeInterrupt: a turn is interrupted while the model speaks, while a tool runs, while
// a request waits, and while subagents work. Each time the dialogue goes on.
func TestClaudeInterrupt(t *testing.T) {
	claudeInterrupts(useClaude(t, "--allowedTools", "Bash(echo *),Agent").open())
}

func claudeInterrupts(r *real) {
	t := r.T
	interrupt := func(f *follower) {
		t.Helper()
		testkit.Must(r.DialogueInterrupt(r.ctx, api.DialogueInterruptParams{DialogueID: r.id}))(r.world)
		if turn := f.rest(); turn.Outcome != "interrupted" {
			t.Errorf("interrupted: %+v", turn)
		}
		if turn := r.talk("turn2"); turn.Outcome != "completed" {
			t.Errorf("after the interrupt: %+v", turn)
		}
	}
	f := r.ask("hold")
	f.held()
	interrupt(f)

	f = r.ask("long")
	if err := r.answers(f.request(), api.DialogueRespondParams{Decision: "allow"}); err != nil {
		t.Fatal(err)
	}
	r.file("started")
	interrupt(f)
	testkit.Eventually(t, "the command is gone", func() bool { return !r.runs("sleep 1000") })

	f = r.ask("touch")
	f.request()
	interrupt(f)
	if r.exists("allowed.txt") {
		t.Error("nobody allowed it")
	}
	r.looks(`
		user: [[hold]]
		agent (aborted): This answer begins and has no end.
		program: [Request interrupted by user]
		user: [[turn2]]
		agent: Answer to turn two.
		user: [[long]]
		agent: A long command.
		tool_call Bash cancelled "echo started > started; sleep 1000": (long)
		program: [Request interrupted by user for tool use]
		user: [[turn2]]
		agent: Answer to turn two.
		user: [[touch]]
		agent: It needs to be allowed.
		tool_call Bash cancelled "touch allowed.txt": (long)
		program: [Request interrupted by user for tool use]
		user: [[turn2]]
		agent: Answer to turn two.
		turn by user: interrupted
		turn by user: completed
		turn by user: interrupted
		turn by user: completed
		turn by user: interrupted
		turn by user: completed
		request permission Bash: answered allow
		request permission Bash: withdrawn
	`)
	r.same()
	r.survives()
}

// TestClaudeInterruptsSubagents: with the turn, the subagents in the foreground and their commands end.
func TestClaudeInterruptsSubagents(t *testing.T) {
	r := useClaude(t, "--allowedTools", "Bash,Agent").open()
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
		program: [Request interrupted by user for tool use]
		turn by user: interrupted
		task agent "Long A": cancelled
		task agent "Long B": cancelled
	`)
	r.same()
}
