package dialogue_test

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

func (r *real) exists(name string) bool {
	_, err := os.Stat(filepath.Join(r.dir, name))
	return err == nil
}

// asksPermission: the agent asks for permission once, and the answer counts once.
func (r *real) asksPermission() {
	r.open()
	f := r.ask("touch")
	q := f.request()
	if q.Kind != "permission" || q.Tool != r.agent.shell || q.Subject != "touch allowed.txt" || q.ToolCallID == "" {
		r.Errorf("request: %+v", q)
	}
	if info := r.info(r.id); info.State != api.DialogueRequiresAction || info.Requests != 1 {
		r.Errorf("while a request waits: %+v", info)
	}
	other := api.DialogueRespondParams{Decision: "allow", Input: json.RawMessage(`{"command":"echo replaced"}`)}
	if !r.agent.editsInput { // the request still waits
		testkit.WantError(r.T, r.answers(q, other), api.CodeInvalidParams, "input")
	}
	if err := r.answers(q, api.DialogueRespondParams{Decision: "allow"}); err != nil {
		r.Fatal(err)
	}
	testkit.WantError(r.T, r.answers(q, api.DialogueRespondParams{Decision: "deny"}), api.CodeConflict, q.RequestID)
	f.rest()
	if !r.exists("allowed.txt") {
		r.Error("it was allowed, and not done")
	}

	os.Remove(filepath.Join(r.dir, "allowed.txt"))
	f = r.ask("touch")
	q = f.request()
	if err := r.answers(q, api.DialogueRespondParams{Decision: "deny", Message: r.agent.denyMessage}); err != nil {
		r.Fatal(err)
	}
	turn := f.rest()
	if r.exists("allowed.txt") {
		r.Error("it was denied, and done")
	}
	if r.agent.denyMessage != "" && (len(turn.Denials) != 1 || turn.Denials[0] != q.ToolCallID) {
		r.Errorf("it was denied: %+v", turn)
	}

	if r.agent.editsInput {
		f = r.ask("touch")
		if err := r.answers(f.request(), other); err != nil {
			r.Fatal(err)
		}
		f.rest()
		r.editedInput(string(other.Input), "touch allowed.txt")
	}

	f = r.ask("touch")
	if err := r.answers(f.request(), api.DialogueRespondParams{Decision: "deny", Message: r.agent.denyMessage, Interrupt: true}); err != nil {
		r.Fatal(err)
	}
	if turn := f.rest(); turn.Outcome != "interrupted" {
		r.Errorf("it was denied and interrupted: %+v", turn)
	}
	r.looks(`
		user: [[touch]]
		agent: It needs to be allowed.
		tool_call $shell completed "touch allowed.txt": $silent
		agent: That step is over.
		user: [[touch]]
		agent: It needs to be allowed.
		claude claude-old| tool_call $shell failed "touch allowed.txt": Not today.
		codex| tool_call $shell failed "touch allowed.txt":
		agent: That step is over.
		claude claude-old| user: [[touch]]
		claude claude-old| agent: It needs to be allowed.
		claude claude-old| tool_call $shell completed "echo replaced": replaced
		claude claude-old| agent: That step is over.
		user: [[touch]]
		agent: It needs to be allowed.
		claude claude-old| tool_call $shell cancelled "touch allowed.txt": (long)
		claude claude-old| program: [Request interrupted by user]
		codex| tool_call $shell failed "touch allowed.txt":
		turn by user: completed
		turn by user: completed
		claude claude-old| turn by user: completed
		turn by user: interrupted
		request permission $shell: answered allow
		request permission $shell: answered deny
		claude claude-old| request permission $shell: answered allow
		request permission $shell: answered deny
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

// asksQuestion: a question has options, and is answered by its text.
func (r *real) asksQuestion() {
	r.open()
	f := r.ask("ask")
	q := f.request()
	if q.Kind != "question" || len(q.Questions) != 1 || q.Questions[0].Question != "Which color?" || len(q.Questions[0].Options) != 2 || q.Questions[0].Options[1].Label != "Blue" {
		r.Errorf("request: %+v", q)
	}
	if err := r.answers(q, api.DialogueRespondParams{Answers: map[string]string{"Which color?": "Blue"}}); err != nil {
		r.Fatal(err)
	}
	f.rest()
	requests := r.model.Requests()
	if last := requests[len(requests)-1]; !last.Says("tool", "Blue") {
		r.Errorf("the model did not get the answer: %+v", last.Messages)
	}
	r.same()
}

// isInterrupted: a turn is interrupted while the model speaks, while a tool runs, and while a
// request waits. Each time the dialogue goes on.
func (r *real) isInterrupted() {
	r.open()
	interrupt := func(f *follower) {
		r.Helper()
		testkit.Must(r.DialogueInterrupt(r.ctx, api.DialogueInterruptParams{DialogueID: r.id}))(r.world)
		if turn := f.rest(); turn.Outcome != "interrupted" {
			r.Errorf("interrupted: %+v", turn)
		}
		if turn := r.talk("turn2"); turn.Outcome != "completed" {
			r.Errorf("after the interrupt: %+v", turn)
		}
	}
	f := r.ask("hold")
	f.held()
	interrupt(f)

	f = r.ask("long")
	if r.agent == codex { // its permission mode allows the command
		f.running()
	} else if err := r.answers(f.request(), api.DialogueRespondParams{Decision: "allow"}); err != nil {
		r.Fatal(err)
	}
	r.file("started")
	interrupt(f)
	testkit.Eventually(r.T, "the command is gone", func() bool { return !r.runs("sleep 1000") })

	f = r.ask(r.agent.withdrawn)
	f.request()
	interrupt(f)
	if r.exists("allowed.txt") {
		r.Error("the command ran without permission")
	}
	r.looks(`
		user: [[hold]]
		agent (aborted): This answer begins and has no end.
		claude claude-old| program: [Request interrupted by user]
		user: [[turn2]]
		agent: Answer to turn two.
		user: [[long]]
		agent: A long command.
		claude claude-old| tool_call $shell cancelled "echo started > started; sleep 1000": (long)
		claude claude-old| program: [Request interrupted by user]
		codex| tool_call $shell cancelled "echo started > started; sleep 1000":
		user: [[turn2]]
		agent: Answer to turn two.
		claude claude-old| user: [[touch]]
		claude claude-old| agent: It needs to be allowed.
		claude claude-old| tool_call $shell cancelled "touch allowed.txt": (long)
		claude claude-old| program: [Request interrupted by user]
		codex| user: [[ask]]
		codex| agent: A question.
		user: [[turn2]]
		agent: Answer to turn two.
		turn by user: interrupted
		turn by user: completed
		turn by user: interrupted
		turn by user: completed
		turn by user: interrupted
		turn by user: completed
		claude claude-old| request permission $shell: answered allow
		claude claude-old| request permission $shell: withdrawn
		codex| request question requestUserInput: withdrawn
	`)
	r.same()
	r.survives()
}
