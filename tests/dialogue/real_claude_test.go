package dialogue_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestClaudeAnswers: turns with everything that a single agent does, in one dialogue.
func TestClaudeAnswers(t *testing.T) { claudeAnswers(useClaude(t, "--allowedTools", "Bash").open()) }

func claudeAnswers(r *real) {
	t := r.T
	if info := r.info(r.id); info.State != api.DialogueIdle || info.Epoch != 1 {
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
		tool_call Bash completed "echo hello-from-bash && seq 1 3": hello-from-bash\n1\n2\n3
		agent: The command printed a greeting.
		user: [[fail]]
		agent: A command that fails.
		tool_call Bash failed "echo oops >&2; exit 3": Exit code 3\noops
		agent: It failed.
		user: [[unknown]]
		agent: A tool that is not there.
		tool_call NoSuchTool failed "": <tool_use_error>Error: No such tool available: NoSuchTool</tool_use_error>
		agent: There is no such tool.
		user: [[parallel]]
		tool_call Bash completed "echo one": one
		tool_call Bash completed "echo two": two
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
	info := r.info(r.id)
	if version, err := exec.Command(r.program, "--version").Output(); err != nil || info.Version == "" || !strings.HasPrefix(string(version), info.Version+" ") {
		t.Errorf("the version is %q: %s %v", info.Version, version, err)
	}
	if info.State != api.DialogueIdle || info.Turns != 8 || info.Requests != 0 || info.Usage.OutputTokens == 0 || info.Model == "" || info.NativeSession == "" {
		t.Errorf("after eight turns: %+v", info)
	}
	requests := r.model.Requests()
	if last := requests[len(requests)-1]; !last.Says("user", "[[plain]]") || !last.Says("tool", "hello-from-bash") {
		t.Errorf("the model was not told what was before: %+v", last.Messages)
	}
	r.same()
}

// same checks that the record tells one story: no line was misunderstood, what was streamed
// is what was said in the end, and messages were sent, taken up and done.
func (r *real) same() {
	r.Helper()
	streamed := map[string]string{}
	for _, ev := range r.events(r.id) {
		switch {
		case ev.Type == api.DialogueEventUnparsed:
			r.Errorf("event %d: not understood: %s %.300s", ev.Seq, ev.Unparsed.Why, ev.Unparsed.Text)
		case ev.Type == api.DialogueEventDelta && ev.Delta.Field == "text":
			streamed[ev.Delta.ItemID] += ev.Delta.Text
		case ev.Type == api.DialogueEventItem && ev.Item.Status == "final" && len(ev.Item.Parts) == 1 && streamed[ev.Item.ItemID] != "":
			if text := ev.Item.Parts[0].Text; text != streamed[ev.Item.ItemID] {
				r.Errorf("item %s was streamed as %.200q and is %.200q", ev.Item.ItemID, streamed[ev.Item.ItemID], text)
			}
			delete(streamed, ev.Item.ItemID)
		}
	}
}

// TestClaudeMessages: a message has an id; the second with the same is not sent. One that
// comes while a tool runs is taken up within the turn.
func TestClaudeMessages(t *testing.T) {
	r := useClaude(t, "--allowedTools", "Bash").open()
	const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
	send := func(text string) api.DialogueSendResult {
		return testkit.Must(r.DialogueSend(r.ctx, api.DialogueSendParams{DialogueID: r.id, Text: text, MessageID: id}))(r.world)
	}
	first := send("[[turn1]]")
	f := r.follow(r.id, first.Seq)
	f.rest()
	if again := send("[[turn1]]"); !again.Repeated || again.MessageID != id || again.Seq != first.Seq {
		t.Errorf("the same message again: %+v, the first was %+v", again, first)
	}
	f.close()

	f = r.ask("gate")
	f.running()
	queued := r.send(r.id, "[[turn2]]")
	f.until(api.DialogueEventMessage, func(ev *api.DialogueEvent) bool { // the program has it, while the tool runs
		return ev.Message.MessageID == queued.MessageID && ev.Message.State == "queued"
	})
	r.touch("go")
	turn := f.rest()
	if len(turn.Messages) != 2 || turn.Messages[1] != queued.MessageID {
		t.Errorf("the turn took up %v, and %s was sent", turn.Messages, queued.MessageID)
	}
	if states := messageStates(f.events, queued.MessageID); states != "sent queued started done" {
		t.Errorf("the message that was sent while a tool ran: %s", states)
	}
	r.looks(`
		user: [[turn1]]
		agent: Answer to turn one.
		user: [[gate]]
		agent: A command that waits.
		tool_call Bash completed "until [ -e go ]; do sleep 0.05; done; echo went": went
		user: [[turn2]]
		agent: Answer to turn two.
		turn by user: completed
		turn by user: completed
	`)
	r.same()
}

// messageStates are the states that a message went through.
func messageStates(events []api.DialogueEvent, id string) string {
	var states []string
	for _, ev := range events {
		if ev.Type == api.DialogueEventMessage && ev.Message.MessageID == id {
			states = append(states, ev.Message.State)
		}
	}
	return strings.Join(states, " ")
}

// TestClaudeSubagents: what subagents say and do is below the calls that started them.
func TestClaudeSubagents(t *testing.T) {
	r := useClaude(t, "--allowedTools", "Bash,Agent").open()
	for _, script := range []string{"agent", "agents", "nested"} {
		if turn := r.talk(script); turn.Outcome != "completed" {
			t.Errorf("%s: %+v", script, turn)
		}
	}
	r.looks(`
		user: [[agent]]
		agent: Delegating.
		tool_call Agent completed "Inspect": (long)
		  user: Inspect [[sub]]
		  agent: The subagent looks.
		  tool_call Bash completed "echo from-sub": from-sub
		  agent: Report of the subagent.
		agent: The subagent is done.
		user: [[agents]]
		agent: Two subagents.
		tool_call Agent completed "First": (long)
		  user: First [[sub]]
		  agent: The subagent looks.
		  tool_call Bash completed "echo from-sub": from-sub
		  agent: Report of the subagent.
		tool_call Agent completed "Second": (long)
		  user: Second [[sub_b]]
		  agent: The other subagent looks.
		  tool_call Bash completed "echo from-other": from-other
		  agent: Report of the other subagent.
		agent: Both subagents are done.
		user: [[nested]]
		agent: Nesting.
		tool_call Agent completed "Outer": (long)
		  user: Outer [[sub_outer]]
		  agent: The outer one delegates.
		  tool_call Agent completed "Inner": (long)
		    user: Inner [[sub]]
		    agent: The subagent looks.
		    tool_call Bash completed "echo from-sub": from-sub
		    agent: Report of the subagent.
		  agent: Report of the outer one.
		agent: The nested work is done.
		turn by user: completed
		turn by user: completed
		turn by user: completed
		task agent "First": completed
		task agent "Inner": completed
		task agent "Inspect": completed
		task agent "Outer": completed
		task agent "Second": completed
	`)
	r.same()
	r.survives()
}

// TestClaudeBackground: a subagent outlives its call and the turn; what it does is told, and
// the agent takes up its report in a turn of its own. Idle is when all of that is over.
func TestClaudeBackground(t *testing.T) {
	r := useClaude(t, "--allowedTools", "Bash,Agent").open()
	f := r.ask("background")
	f.until(api.DialogueEventTurnEnded)
	r.runsInBackground()
	if info := r.info(r.id); info.State != api.DialogueRunning || info.Tasks < 1 || info.BackgroundTasks != 1 {
		t.Errorf("a subagent runs in the background: %+v", info)
	}
	if tr := r.transcript(r.id); len(tr.Tasks) == 0 || tr.Tasks[0].Status != "running" || !tr.Tasks[0].Background {
		t.Errorf("tasks: %+v", tr.Tasks)
	}
	r.touch("go")
	f.rest()
	r.looks(`
		user: [[background]]
		agent: In the background.
		tool_call Agent completed "Waits": (long)
		  agent: The subagent waits.
		  tool_call Bash completed "until [ -e go ]; do sleep 0.05; done; echo sub-went": sub-went
		  agent: Report of the one that waited.
		agent: It was started in the background.
		agent: The background reported.
		turn by user: completed
		turn by agent: completed
		task agent "Waits" in the background: completed
	`)
	r.same()
}

// TestClaudeBackgroundShell: the same with a command.
func TestClaudeBackgroundShell(t *testing.T) {
	r := useClaude(t, "--allowedTools", "Bash").open()
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
func TestClaudeClear(t *testing.T) { claudeClears(useClaude(t).open()) }

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
	r := useClaude(t).open()
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

// pixel is a picture in PNG.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// sees sends a picture, and checks that the model was given it and the transcript has it.
func (r *real) sees() {
	r.Helper()
	sent := testkit.Must(r.DialogueSend(r.ctx, api.DialogueSendParams{DialogueID: r.id, Content: []api.DialogueContent{
		{Type: "text", Text: "[[plain]]"}, {Type: "image", DataBase64: pixel, MediaType: "image/png"},
	}}))(r.world)
	if turn := r.follow(r.id, sent.Seq-1).rest(); turn.Outcome != "completed" {
		r.Errorf("a picture: %+v", turn)
	}
	requests := r.model.Requests()
	if last := requests[len(requests)-1]; !bytes.Contains(last.Body, []byte("iVBORw0KGgo")) {
		r.Error("the model was not given the picture")
	}
	if items := r.transcript(r.id).Items; len(items) != 2 || len(items[0].Parts) != 2 || items[0].Parts[1].DataBase64 != pixel {
		r.Errorf("items: %+v", items)
	}
	r.same()
}

func TestClaudeSees(t *testing.T) { useClaude(t).open().sees() }

// TestClaudeSet: the model and the permission mode change between turns.
func TestClaudeSet(t *testing.T) {
	r := useClaude(t).open()
	r.talk("turn1")
	testkit.Must(r.DialogueSet(r.ctx, api.DialogueSetParams{DialogueID: r.id, Model: "claude-sonnet-4-5", PermissionMode: "acceptEdits"}))(r.world)
	r.talk("turn2")
	requests := r.model.Requests()
	if last := requests[len(requests)-1]; last.Model != "claude-sonnet-4-5" {
		t.Errorf("the model is %s", last.Model)
	}
	if info := r.info(r.id); info.Model != "claude-sonnet-4-5" || info.PermissionMode != "acceptEdits" {
		t.Errorf("after dialogue.set: %+v", info)
	}
	_, err := r.DialogueSet(r.ctx, api.DialogueSetParams{DialogueID: r.id, PermissionMode: "no-such-mode"})
	testkit.WantError(t, err, api.CodeInvalidParams, "must be one of acceptEdits")
	r.same()
}
