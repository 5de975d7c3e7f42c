package dialogue_test

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// behaviour is what every real agent must do in a dialogue.
type behaviour struct {
	name  string
	tools string // of Claude Code, that need not be allowed
	asks  bool   // Codex asks before it writes files
	run   func(r *real)
	// agents are those that the behaviour is tested with; nil means all.
	agents []*realAgent
}

// newest are the agents of today: a test with a supported old version has its own figures.
var newest = []*realAgent{claude, codex}

// behaviours is the conformance table. Another agent has to pass all of them.
var behaviours = []behaviour{
	{name: "answers", tools: "Bash", run: (*real).answersTurns},
	{name: "messages", tools: "Bash", run: (*real).takesMessages},
	{name: "subagents", tools: "Bash,Agent", run: (*real).startsSubagents, agents: newest},
	{name: "background", tools: "Bash,Agent", run: (*real).worksInBackground, agents: newest},
	{name: "sees", run: (*real).sees, agents: newest},
	{name: "set", run: (*real).isSet, agents: newest},
	{name: "permissions", asks: true, run: (*real).asksPermission},
	{name: "question", run: (*real).asksQuestion, agents: newest},
	{name: "interrupt", tools: "Bash(echo *),Agent", run: (*real).isInterrupted},
	{name: "restart", tools: "Bash(until *)", asks: true, run: (*real).outlivesDaemon},
	{name: "dies alone", tools: "Bash", run: (*real).diesAlone, agents: newest},
	{name: "figures", run: (*real).figures, agents: newest},
	{name: "terminates", tools: "Bash", run: (*real).terminates},
	{name: "faults", run: (*real).reportsFaults, agents: newest},
	{name: "huge", run: (*real).saysMuch, agents: newest},
	{name: "does not start", run: (*real).doesNotStart, agents: newest},
}

// TestAgents runs each behaviour with each agent:
//
//	go test ./tests/dialogue -run 'TestAgents/codex/messages'
func TestAgents(t *testing.T) {
	for _, a := range []*realAgent{claude, claudeOld, codex} {
		t.Run(a.name, func(t *testing.T) {
			for _, b := range behaviours {
				if b.agents == nil || slices.Contains(b.agents, a) {
					t.Run(b.name, func(t *testing.T) { b.run(a.use(t, b)) })
				}
			}
			for name, d := range deaths {
				if !a.savesLate || d.simple {
					t.Run("killed "+name, func(t *testing.T) { a.use(t, behaviour{tools: "Bash,Agent"}).isKilled(name, d) })
				}
			}
		})
	}
}

// answersTurns: turns with everything that a single agent does, in one dialogue.
func (r *real) answersTurns() {
	r.open()
	if info := r.info(r.id); info.State != api.DialogueIdle || info.Epoch != 1 {
		r.Errorf("created: %+v", info)
	}
	for _, script := range []string{"plain", "think", "multi", "bash", "fail", "unknown", "parallel", "signs"} {
		if turn := r.talk(script); turn.Outcome != "completed" {
			r.Errorf("%s: %+v", script, turn)
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
		claude claude-old| tool_call $shell completed "echo hello-from-bash && seq 1 3": hello-from-bash\n1\n2\n3
		codex| tool_call $shell completed "echo hello-from-codex && seq 1 3": hello-from-codex\n1\n2\n3\n
		agent: The command printed a greeting.
		user: [[fail]]
		agent: A command that fails.
		claude claude-old| tool_call $shell failed "echo oops >&2; exit 3": Exit code 3\noops
		codex| tool_call $shell failed "echo oops >&2; exit 3": oops\n
		agent: It failed.
		user: [[unknown]]
		agent: A tool that is not there.
		claude claude-old| tool_call NoSuchTool failed "": <tool_use_error>Error: No such tool available: NoSuchTool</tool_use_error>
		agent: There is no such tool.
		user: [[parallel]]
		tool_call $shell completed "echo one": one$eol
		tool_call $shell completed "echo two": two$eol
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
	version := exec.Command(r.program, "--version")
	version.Env = append(os.Environ(), "HOME="+r.params.Env["HOME"])
	if text, err := version.Output(); err != nil || info.Version == "" || !slices.Contains(strings.Fields(string(text)), info.Version) {
		r.Errorf("the version is %q: %s %v", info.Version, text, err)
	}
	if info.State != api.DialogueIdle || info.Turns != 8 || info.Requests != 0 || info.Usage.OutputTokens == 0 || info.Model == "" || info.NativeSession == "" {
		r.Errorf("after eight turns: %+v", info)
	}
	requests := r.model.Requests()
	if last := requests[len(requests)-1]; !last.Says("user", "[[plain]]") || !last.Says("tool", "hello-from-") {
		r.Errorf("the model did not get the turns before: %+v", last.Messages)
	}
	r.same()
}

// same checks that the record is consistent: every line was understood, and the streamed text equals
// the final text.
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

// takesMessages: the second message with the same id is not sent. A message that comes while a tool
// runs is taken up within the turn.
func (r *real) takesMessages() {
	r.open()
	const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
	send := func(text string) api.DialogueSendResult {
		return testkit.Must(r.DialogueSend(r.ctx, api.DialogueSendParams{DialogueID: r.id, Text: text, MessageID: id}))(r.world)
	}
	first := send("[[turn1]]")
	f := r.follow(r.id, first.Seq)
	f.rest()
	if again := send("[[turn1]]"); !again.Repeated || again.MessageID != id || again.Seq != first.Seq {
		r.Errorf("the same message again: %+v, the first was %+v", again, first)
	}
	f.close()

	f = r.ask("gate")
	f.running()
	sent := r.send(r.id, "[[turn2]]")
	states := "sent queued started done"
	if r.agent.announces {
		f.until(api.DialogueEventMessage, func(ev *api.DialogueEvent) bool { // the program has it, while the tool runs
			return ev.Message.MessageID == sent.MessageID && ev.Message.State == "queued"
		})
	} else {
		states = "sent started done"
		// It reads in order: with the answer to this it has the message, too.
		testkit.Must(r.DialogueSet(r.ctx, api.DialogueSetParams{DialogueID: r.id, PermissionMode: "acceptEdits"}))(r.world)
	}
	r.touch("go")
	turn := f.rest()
	if len(turn.Messages) != 2 || turn.Messages[1] != sent.MessageID {
		r.Errorf("the turn took up %v, and %s was sent", turn.Messages, sent.MessageID)
	}
	if got := messageStates(f.events, sent.MessageID); got != states {
		r.Errorf("the message that was sent while a tool ran: %s, want %s", got, states)
	}
	r.looks(`
		user: [[turn1]]
		agent: Answer to turn one.
		user: [[gate]]
		agent: A command that waits.
		tool_call $shell completed "until [ -e go ]; do sleep 0.05; done; echo went": went$eol
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

// startsSubagents: the work of subagents is below the calls that started them.
func (r *real) startsSubagents() {
	r.open()
	for _, script := range []string{"agent", "agents", "nested"} {
		if turn := r.talk(script); turn.Outcome != "completed" {
			r.Errorf("%s: %+v", script, turn)
		}
	}
	r.looks(`
		user: [[agent]]
		agent: Delegating.
		claude| tool_call Agent completed "Inspect": (long)
		codex| tool_call spawnAgent completed "Inspect [[sub]]":
		  user: Inspect [[sub]]
		  agent: The subagent looks.
		  tool_call $shell completed "echo from-sub": from-sub$eol
		  agent: Report of the subagent.
		codex| tool_call wait completed "":
		agent: The subagent is done.
		user: [[agents]]
		agent: Two subagents.
		claude| tool_call Agent completed "First": (long)
		codex| tool_call spawnAgent completed "First [[sub]]":
		  user: First [[sub]]
		  agent: The subagent looks.
		  tool_call $shell completed "echo from-sub": from-sub$eol
		  agent: Report of the subagent.
		claude| tool_call Agent completed "Second": (long)
		codex| tool_call spawnAgent completed "Second [[sub_b]]":
		  user: Second [[sub_b]]
		  agent: The other subagent looks.
		  tool_call $shell completed "echo from-other": from-other$eol
		  agent: Report of the other subagent.
		codex| tool_call wait completed "":
		codex| tool_call wait completed "":
		agent: Both subagents are done.
		user: [[nested]]
		agent: Nesting.
		claude| tool_call Agent completed "Outer": (long)
		codex| tool_call spawnAgent completed "Outer [[sub_outer]]":
		  user: Outer [[sub_outer]]
		  agent: The outer one delegates.
		claude|   tool_call Agent completed "Inner": (long)
		codex|   tool_call spawnAgent completed "Inner [[sub]]":
		    user: Inner [[sub]]
		    agent: The subagent looks.
		    tool_call $shell completed "echo from-sub": from-sub$eol
		    agent: Report of the subagent.
		codex|   tool_call wait completed "":
		  agent: Report of the outer one.
		codex| tool_call wait completed "":
		agent: The nested work is done.
		turn by user: completed
		turn by user: completed
		turn by user: completed
		claude| task agent "First": completed
		claude| task agent "Inner": completed
		claude| task agent "Inspect": completed
		claude| task agent "Outer": completed
		claude| task agent "Second": completed
		codex| task agent "First [[sub]]" in the background: completed
		codex| task agent "Inner [[sub]]" in the background: completed
		codex| task agent "Inspect [[sub]]" in the background: completed
		codex| task agent "Outer [[sub_outer]]" in the background: completed
		codex| task agent "Second [[sub_b]]" in the background: completed
	`)
	r.same()
	r.survives()
}

// worksInBackground: a subagent outlives its call and the turn. The dialogue is idle when it has
// ended, and when the agent has taken up its report.
func (r *real) worksInBackground() {
	r.open()
	f := r.ask("background")
	f.until(api.DialogueEventTurnEnded)
	r.runsInBackground()
	if info := r.info(r.id); info.State != api.DialogueRunning || info.Tasks < 1 || info.BackgroundTasks != 1 {
		r.Errorf("a subagent runs in the background: %+v", info)
	}
	if tr := r.transcript(r.id); len(tr.Tasks) == 0 || tr.Tasks[0].Status != "running" || !tr.Tasks[0].Background {
		r.Errorf("tasks: %+v", tr.Tasks)
	}
	r.touch("go")
	if r.agent.takesReports {
		f.rest()
	} else {
		f.until(api.DialogueEventState, func(ev *api.DialogueEvent) bool { return ev.State == api.DialogueIdle })
	}
	r.looks(`
		user: [[background]]
		agent: In the background.
		claude| tool_call Agent completed "Waits": (long)
		codex| tool_call spawnAgent completed "Waits [[sub_gate]]":
		codex|   user: Waits [[sub_gate]]
		  agent: The subagent waits.
		  tool_call $shell completed "until [ -e go ]; do sleep 0.05; done; echo sub-went": sub-went$eol
		  agent: Report of the one that waited.
		agent: It was started in the background.
		claude| agent: The background reported.
		turn by user: completed
		claude| turn by agent: completed
		claude| task agent "Waits" in the background: completed
		codex| task agent "Waits [[sub_gate]]" in the background: completed
	`)
	r.same()
}

// pixel is a picture in PNG.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// sees: the model gets a picture, and the transcript has it.
func (r *real) sees() {
	r.open()
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

// isSet: the model and the permission mode change between turns.
func (r *real) isSet() {
	r.open()
	r.talk("turn1")
	testkit.Must(r.DialogueSet(r.ctx, api.DialogueSetParams{DialogueID: r.id, Model: r.agent.otherModel, PermissionMode: r.agent.otherMode}))(r.world)
	f := r.ask("touch") // the mode of Claude Code allows it, that of Codex asks
	if r.agent == codex {
		if err := r.answers(f.request(), api.DialogueRespondParams{Decision: "allow"}); err != nil {
			r.Fatal(err)
		}
	}
	f.rest()
	if !r.exists("allowed.txt") {
		r.Error("the mode allows it, and it was not done")
	}
	requests := r.model.Requests()
	if last := requests[len(requests)-1]; last.Model != r.agent.otherModel {
		r.Errorf("the model is %s", last.Model)
	}
	if info := r.info(r.id); info.Model != r.agent.otherModel || info.PermissionMode != r.agent.otherMode {
		r.Errorf("after dialogue.set: %+v", info)
	}
	_, err := r.DialogueSet(r.ctx, api.DialogueSetParams{DialogueID: r.id, PermissionMode: "no-such-mode"})
	testkit.WantError(r.T, err, api.CodeInvalidParams, "mode")
	r.same()
}
