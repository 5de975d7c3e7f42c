package dialogue_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestCodexAnswers: turns with everything that a single agent does, in one dialogue.
func TestCodexAnswers(t *testing.T) {
	r := useCodex(t).open()
	if info := r.info(r.id); info.State != api.DialogueIdle || info.Epoch != 1 || info.Version == "" || info.NativeSession == "" {
		t.Errorf("created: %+v", info)
	}
	for _, script := range []string{"plain", "think", "multi", "bash", "fail", "unknown", "parallel", "signs"} {
		if turn := r.talk(script); turn.Outcome != "completed" {
			t.Errorf("%s: %+v", script, turn)
		}
	}
	r.looks(`
		user: [[plain]]
		agent: Hello from the scripted model. This is a plain answer.
		user: [[think]]
		reasoning: Let me consider the question.
		agent: Considered.
		user: [[multi]]
		reasoning: Two blocks.
		agent: The first block.
		agent: The second block.
		user: [[bash]]
		agent: I will run a command.
		tool_call commandExecution completed "echo hello-from-codex && seq 1 3": hello-from-codex\n1\n2\n3\n
		agent: The command printed a greeting.
		user: [[fail]]
		agent: A command that fails.
		tool_call commandExecution failed "echo oops >&2; exit 3": oops\n
		agent: It failed.
		user: [[unknown]]
		agent: A tool that is not there.
		agent: There is no such tool.
		user: [[parallel]]
		tool_call commandExecution completed "echo one": one\n
		tool_call commandExecution completed "echo two": two\n
		agent: Both ran.
		user: [[signs]]
		agent: Tab\tCR\rLF\nESC\x1b[31mred\x1b[0m \u2028 \u2029 rocket 🚀 quote \" back \\ end
		turn by user: completed
		turn by user: completed
		turn by user: completed
		turn by user: completed
		turn by user: completed
		turn by user: completed
		turn by user: completed
		turn by user: completed
	`)
	if info := r.info(r.id); info.State != api.DialogueIdle || info.Turns != 8 || info.Usage.OutputTokens != 60 {
		t.Errorf("after eight turns: %+v", info)
	}
	requests := r.model.Requests()
	if last := requests[len(requests)-1]; !last.Says("user", "[[plain]]") || !last.Says("tool", "hello-from-codex") {
		t.Errorf("the model was not told what was before: %+v", last.Messages)
	}
	r.same()
}

// TestCodexMessages: the second message with an id is not sent. One that comes while a tool
// runs is taken up within the turn.
func TestCodexMessages(t *testing.T) {
	r := useCodex(t).open()
	const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
	send := func(text string) api.DialogueSendResult {
		return testkit.Must(r.DialogueSend(r.ctx, api.DialogueSendParams{DialogueID: r.id, Text: text, MessageID: id}))(r.world)
	}
	first := send("[[turn1]]")
	r.follow(r.id, first.Seq).rest()
	if again := send("[[turn1]]"); !again.Repeated || again.MessageID != id || again.Seq != first.Seq {
		t.Errorf("the same message again: %+v, the first was %+v", again, first)
	}

	f := r.ask("gate")
	f.running()
	queued := r.send(r.id, "[[turn2]]")
	f.until(api.DialogueEventMessage, func(ev *api.DialogueEvent) bool { // the program has it, while the command runs
		return ev.Message.MessageID == queued.MessageID && ev.Message.State == "queued"
	})
	r.touch("go")
	turn := f.rest()
	if len(turn.Messages) != 2 || turn.Messages[1] != queued.MessageID {
		t.Errorf("the turn took up %v, and %s was sent", turn.Messages, queued.MessageID)
	}
	r.looks(`
		user: [[turn1]]
		agent: Answer to turn one.
		user: [[gate]]
		agent: A command that waits.
		tool_call commandExecution completed "until [ -e go ]; do sleep 0.05; done; echo went": went\n
		user: [[turn2]]
		agent: Answer to turn two.
		turn by user: completed
		turn by user: completed
	`)
	r.same()
}

// TestCodexSubagents: what subagents say and do is below the calls that started them.
func TestCodexSubagents(t *testing.T) {
	r := useCodex(t).open()
	for _, script := range []string{"agent", "agents", "nested"} {
		if turn := r.talk(script); turn.Outcome != "completed" {
			t.Errorf("%s: %+v", script, turn)
		}
	}
	r.looks(`
		user: [[agent]]
		agent: Delegating.
		tool_call spawnAgent completed "Inspect [[sub]]":
		  user: Inspect [[sub]]
		  agent: The subagent looks.
		  tool_call commandExecution completed "echo from-sub": from-sub\n
		  agent: Report of the subagent.
		tool_call wait completed "":
		agent: The subagent is done.
		user: [[agents]]
		agent: Two subagents.
		tool_call spawnAgent completed "First [[sub]]":
		  user: First [[sub]]
		  agent: The subagent looks.
		  tool_call commandExecution completed "echo from-sub": from-sub\n
		  agent: Report of the subagent.
		tool_call spawnAgent completed "Second [[sub_b]]":
		  user: Second [[sub_b]]
		  agent: The other subagent looks.
		  tool_call commandExecution completed "echo from-other": from-other\n
		  agent: Report of the other subagent.
		tool_call wait completed "":
		tool_call wait completed "":
		agent: Both subagents are done.
		user: [[nested]]
		agent: Nesting.
		tool_call spawnAgent completed "Outer [[sub_outer]]":
		  user: Outer [[sub_outer]]
		  agent: The outer one delegates.
		  tool_call spawnAgent completed "Inner [[sub]]":
		    user: Inner [[sub]]
		    agent: The subagent looks.
		    tool_call commandExecution completed "echo from-sub": from-sub\n
		    agent: Report of the subagent.
		  tool_call wait completed "":
		  agent: Report of the outer one.
		tool_call wait completed "":
		agent: The nested work is done.
		turn by user: completed
		turn by user: completed
		turn by user: completed
		task agent "First [[sub]]" in the background: completed
		task agent "Inner [[sub]]" in the background: completed
		task agent "Inspect [[sub]]" in the background: completed
		task agent "Outer [[sub_outer]]" in the background: completed
		task agent "Second [[sub_b]]" in the background: completed
	`)
	r.same()
	r.survives()
}

// TestCodexBackground: a subagent outlives its call and the turn; what it does is told.
func TestCodexBackground(t *testing.T) {
	r := useCodex(t).open()
	f := r.ask("background")
	f.until(api.DialogueEventTurnEnded)
	r.runsInBackground()
	if info := r.info(r.id); info.State != api.DialogueRunning || info.Tasks != 1 {
		t.Errorf("a subagent runs in the background: %+v", info)
	}
	r.touch("go")
	f.until(api.DialogueEventState, func(ev *api.DialogueEvent) bool { return ev.State == api.DialogueIdle })
	r.looks(`
		user: [[background]]
		agent: In the background.
		tool_call spawnAgent completed "Waits [[sub_gate]]":
		  user: Waits [[sub_gate]]
		  agent: The subagent waits.
		  tool_call commandExecution completed "until [ -e go ]; do sleep 0.05; done; echo sub-went": sub-went\n
		  agent: Report of the one that waited.
		agent: It was started in the background.
		turn by user: completed
		task agent "Waits [[sub_gate]]" in the background: completed
	`)
	r.same()
}

// TestCodexPermissions: what has to be allowed is asked once and answered once.
func TestCodexPermissions(t *testing.T) {
	r := useCodex(t)
	r.params.PermissionMode = "on-request/workspace-write"
	r.open()

	f := r.ask("touch")
	q := f.request()
	if q.Kind != "permission" || q.ToolCallID == "" {
		t.Errorf("request: %+v", q)
	}
	if info := r.info(r.id); info.State != api.DialogueRequiresAction || info.Requests != 1 {
		t.Errorf("while a request waits: %+v", info)
	}
	// Codex cannot be given another input. The request still waits.
	testkit.WantError(t, r.answers(q, api.DialogueRespondParams{Decision: "allow", Input: json.RawMessage(`{"command":"true"}`)}), api.CodeInvalidParams, "input")
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
	if err := r.answers(f.request(), api.DialogueRespondParams{Decision: "deny"}); err != nil {
		t.Fatal(err)
	}
	f.rest()
	if r.exists("allowed.txt") {
		t.Error("it was denied, and done")
	}

	f = r.ask("touch")
	if err := r.answers(f.request(), api.DialogueRespondParams{Decision: "deny", Interrupt: true}); err != nil {
		t.Fatal(err)
	}
	if turn := f.rest(); turn.Outcome != "interrupted" {
		t.Errorf("it was denied and interrupted: %+v", turn)
	}
	r.looks(`
		user: [[touch]]
		agent: It needs to be allowed.
		tool_call commandExecution completed "touch allowed.txt":
		agent: That step is over.
		user: [[touch]]
		agent: It needs to be allowed.
		tool_call commandExecution failed "touch allowed.txt":
		agent: That step is over.
		user: [[touch]]
		agent: It needs to be allowed.
		tool_call commandExecution failed "touch allowed.txt":
		turn by user: completed
		turn by user: completed
		turn by user: interrupted
		request permission commandExecution: answered allow
		request permission commandExecution: answered deny
		request permission commandExecution: answered deny
	`)
	r.same()
}

// TestCodexQuestion: a question has options, and is answered by its text.
func TestCodexQuestion(t *testing.T) {
	r := useCodex(t).open()
	f := r.ask("ask")
	q := f.request()
	if q.Kind != "question" || len(q.Questions) != 1 || q.Questions[0].Question != "Which color?" || len(q.Questions[0].Options) != 2 {
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

// TestCodexInterrupt: a turn is interrupted while the model speaks, while a tool runs, and
// while a request waits. Each time the dialogue goes on.
func TestCodexInterrupt(t *testing.T) {
	r := useCodex(t).open()
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
	f.running()
	r.file("started")
	interrupt(f)
	testkit.Eventually(t, "the command is gone", func() bool { return !r.runs("sleep 1000") })

	f = r.ask("ask")
	f.request()
	interrupt(f)
	r.looks(`
		user: [[hold]]
		agent (aborted): This answer begins and has no end.
		user: [[turn2]]
		agent: Answer to turn two.
		user: [[long]]
		agent: A long command.
		tool_call commandExecution cancelled "echo started > started; sleep 1000":
		user: [[turn2]]
		agent: Answer to turn two.
		user: [[ask]]
		agent: A question.
		user: [[turn2]]
		agent: Answer to turn two.
		turn by user: interrupted
		turn by user: completed
		turn by user: interrupted
		turn by user: completed
		turn by user: interrupted
		turn by user: completed
		request question requestUserInput: withdrawn
	`)
	r.same()
}

func TestCodexSees(t *testing.T) { useCodex(t).open().sees() }

// TestCodexSet: the model and the permission mode change between turns.
func TestCodexSet(t *testing.T) {
	r := useCodex(t).open()
	r.talk("turn1")
	testkit.Must(r.DialogueSet(r.ctx, api.DialogueSetParams{DialogueID: r.id, Model: "other-model", PermissionMode: "on-request/workspace-write"}))(r.world)
	f := r.ask("touch")
	if err := r.answers(f.request(), api.DialogueRespondParams{Decision: "allow"}); err != nil {
		t.Fatal(err)
	}
	f.rest()
	requests := r.model.Requests()
	if last := requests[len(requests)-1]; last.Model != "other-model" {
		t.Errorf("the model is %s", last.Model)
	}
	if info := r.info(r.id); info.Model != "other-model" || info.PermissionMode != "on-request/workspace-write" {
		t.Errorf("after dialogue.set: %+v", info)
	}
	_, err := r.DialogueSet(r.ctx, api.DialogueSetParams{DialogueID: r.id, PermissionMode: "no-such-mode"})
	testkit.WantError(t, err, api.CodeInvalidParams, "no-such-mode")
	r.same()
}

// TestCodexModels: the models that can be chosen are known, also after a restart.
func TestCodexModels(t *testing.T) {
	r := useCodex(t).open()
	testkit.Eventually(t, "the models are known", func() bool { return len(r.info(r.id).Models) > 0 })
	model := r.info(r.id).Models[0]
	testkit.Must(r.DialogueSet(r.ctx, api.DialogueSetParams{DialogueID: r.id, Model: model}))(r.world)
	if turn := r.talk("turn1"); turn.Outcome != "completed" || r.info(r.id).Model != model {
		t.Errorf("with %s: %+v, %+v", model, turn, r.info(r.id))
	}
	r.survives()
}
