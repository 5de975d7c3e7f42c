package dialogue_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// death is a point at which an agent is killed: the script that is asked for, and the event to wait
// for.
type death struct {
	script string
	until  func(r *real, f *follower)
	simple bool // also for an agent that saves the conversation late
}

var deaths = map[string]death{
	"at rest": {"turn1", func(r *real, f *follower) { f.rest() }, true},
	"at once": {"hold", func(r *real, f *follower) {}, false},
	// A piece of the answer is longer than a pipe holds.
	"in a line": {"wide", func(r *real, f *follower) { f.until(api.DialogueEventDelta) }, false},
	"in text":   {"hold", func(r *real, f *follower) { f.until(api.DialogueEventDelta) }, true},
	"in a tool": {"long", func(r *real, f *follower) {
		f.running()
		r.file("started")
	}, true},
	"in a request": {"ask", func(r *real, f *follower) { f.request() }, true},
	"in subagents": {"agents_long", func(r *real, f *follower) {
		testkit.Eventually(r.T, "both subagents run a command", func() bool {
			text, _ := os.ReadFile(filepath.Join(r.dir, "started"))
			return string(text) == "started\nstarted\n"
		})
	}, false},
	"in the background": {"background", func(r *real, f *follower) {
		f.until(api.DialogueEventTurnEnded)
		r.runsInBackground()
	}, false},
}

// runsInBackground waits until a subagent has called its tool.
func (r *real) runsInBackground() {
	r.Helper()
	testkit.Eventually(r.T, "the subagent calls a tool", func() bool { return strings.Contains(outlineOf(r.transcript(r.id)), "\n  tool_call") })
}

// isKilled: after kill -9 no process of the agent is left, its record is closed, and the dialogue is
// resumed with the agent's memory.
func (r *real) isKilled(name string, d death) {
	r.open()
	r.talk("plain")
	if r.agent.savesLate {
		r.saved("Hello from the scripted model.")
	}
	f := r.ask(d.script)
	d.until(r, f)
	r.kill()
	f.drain()
	r.closed(f, map[bool]string{true: "exited", false: "unexpected_exit"}[name == "at rest"])
	r.nothingLeft()
	r.resumed()
	if r.agent == claude && name == "in the background" {
		tasks := r.transcript(r.id).Tasks
		// The command of the subagent becomes a task, too, when it takes three seconds.
		at := slices.IndexFunc(tasks, func(task api.DialogueTask) bool { return task.Kind == "agent" })
		if at < 0 || tasks[at].Status != "cancelled" || !strings.Contains(tasks[at].Summary, "didn't finish") {
			r.Errorf("the resumed agent reports that its task was stopped: %+v", tasks)
		}
	}
}

// closed checks what follows from a death: everything that was open is closed, as lost, and
// then one event reports the end. The earlier events stay.
func (r *real) closed(f *follower, cause string) {
	r.Helper()
	events := r.events(r.id)
	last := events[len(events)-1]
	if last.Type != api.DialogueEventEnded || last.Ended.Signal != "SIGKILL" || count(events, api.DialogueEventEnded) != 1 {
		r.Fatalf("the end:\n%s", brief(f.events))
	}
	if last.Ended.Cause != cause {
		r.Errorf("the cause is %q and not %q:\n%s", last.Ended.Cause, cause, brief(f.events))
	}
	closing := false // what follows is TRL's own
	for _, ev := range events {
		switch {
		case ev.Type == api.DialogueEventItem && ev.Item.Status == "lost", ev.Type == api.DialogueEventTurnEnded && ev.Turn.Outcome == "lost",
			ev.Type == api.DialogueEventTask && ev.Task.Status == "lost", ev.Type == api.DialogueEventRequestClosed && ev.Request.How == "lost":
			closing = true
		case closing && ev.Offset != nil:
			r.Errorf("event %d is of the program, after what was lost with it:\n%s", ev.Seq, brief(f.events))
		}
	}
	tr := r.transcript(r.id)
	allClosed(r.T, tr.Items)
	for _, turn := range tr.Turns {
		if turn.Outcome == "" {
			r.Errorf("the turn is open: %+v", turn)
		}
	}
	for _, task := range tr.Tasks {
		if task.Status == "running" {
			r.Errorf("the task is open: %+v", task)
		}
	}
	for _, q := range tr.Requests {
		if q.How == "" {
			r.Errorf("the request is open: %+v", q)
		}
	}
	if info := r.info(r.id); info.State != api.DialogueEnded || info.Ended == nil || info.Requests != 0 || info.Tasks != 0 {
		r.Errorf("after the end: %+v", info)
	}
	if _, err := r.DialogueSend(r.ctx, api.DialogueSendParams{DialogueID: r.id, Text: "x"}); api.AsError(err).Code != api.CodeDialogueEnded {
		r.Errorf("a message after the end: %v", err)
	}
}

func allClosed(t *testing.T, items []api.DialogueItem) {
	t.Helper()
	for _, it := range items {
		if it.Status == "streaming" || it.Tool != nil && (it.Tool.Status == "pending" || it.Tool.Status == "running" || it.Tool.Status == "awaiting_approval") {
			t.Errorf("the item is open: %+v %+v", it, it.Tool)
		}
		if it.Tool != nil {
			allClosed(t, it.Tool.Items)
		}
	}
}

// resumed resumes a dialogue that has ended: it has the same id, and the model gets the earlier
// conversation.
func (r *real) resumed() {
	r.Helper()
	before := outlineOf(r.transcript(r.id))
	old := r.session
	r.resume()
	// It may tell of what it lost before it rests.
	testkit.Eventually(r.T, "the agent rests", func() bool { return r.info(r.id).State == api.DialogueIdle })
	if info := r.info(r.id); info.Epoch != 2 || info.Ended != nil || r.session == old {
		r.Errorf("resumed: %+v\n%s", info, brief(r.events(r.id)))
	}
	// Its reports about an earlier task belong to that task, and not to another one.
	for _, task := range r.transcript(r.id).Tasks {
		if task.Kind == "other" || task.ToolCallID == "" {
			r.Errorf("the task is not known any more: %+v", task)
		}
	}
	if turn := r.talk("turn3"); turn.Outcome != "completed" {
		r.Errorf("after it was resumed: %+v", turn)
	}
	requests := r.model.Requests()
	if last := requests[len(requests)-1]; !last.Says("user", "[[plain]]") || !last.Says("assistant", "Hello from the scripted model.") || !last.Says("user", "[[turn3]]") {
		r.Errorf("the model was not told what was before: %+v", last.Messages)
	}
	after := outlineOf(r.transcript(r.id))
	if !strings.HasPrefix(after, before) || !strings.Contains(after[len(before):], "agent: Answer to turn three.") {
		r.Errorf("what was before:\n%s\nafter:\n%s", before, after)
	}
}

// outlineOf are the items alone.
func outlineOf(r api.DialogueTranscriptResult) string {
	var b strings.Builder
	outlineItems(&b, r.Items, "")
	return b.String()
}

// diesAlone: the agent dies in a tool while there is no daemon, and the next daemon reports it.
func (r *real) diesAlone() {
	r.open()
	r.talk("plain")
	f := r.ask("long")
	f.running()
	r.file("started")
	f.close()
	r.restart(r.kill)
	f = r.follow(r.id, 0)
	f.drain()
	r.closed(f, "unexpected_exit")
	r.nothingLeft()
	r.resumed()
}

// figures: the tokens of three processes are counted once, in dialogue.info and in the transcript.
func (r *real) figures() {
	r.open()
	for epoch, script := range []string{"turn1", "turn2", "turn3"} {
		if epoch > 0 {
			f := r.follow(r.id, 0)
			r.kill()
			f.drain()
			r.resume()
		}
		r.used(script, epoch+1)
	}
}

// used takes one answer of the model in each epoch, and checks the usage of all of them.
func (r *real) used(script string, epoch int) {
	r.Helper()
	output := r.agent.answerTokens
	turn := r.talk(script)
	if turn.Usage == nil || turn.Usage.InputTokens != 10 || turn.Usage.OutputTokens != output {
		r.Errorf("epoch %d: the turn used %+v", epoch, turn.Usage)
	}
	answers := int64(epoch)
	info, tr := r.info(r.id), r.transcript(r.id)
	if info.Usage.InputTokens != 10*answers || info.Usage.OutputTokens != output*answers || info.Epoch != epoch {
		r.Errorf("after %d answers: epoch %d, %+v", answers, info.Epoch, info.Usage)
	}
	if tr.Usage.OutputTokens != info.Usage.OutputTokens {
		r.Errorf("the transcript tells %+v and the dialogue %+v", tr.Usage, info.Usage)
	}
}

// outlivesDaemon: the daemon is killed in the middle of a turn and while a request waits. The agent
// goes on, and nothing that it says meanwhile is lost.
func (r *real) outlivesDaemon() {
	r.open()
	f := r.ask("gate")
	f.running()
	f.close()
	r.restart(func() { r.touch("go") })
	f = r.follow(r.id, 0)
	if turn := f.rest(); turn.Outcome != "completed" {
		r.Errorf("after the restart: %+v", turn)
	}
	f.close()

	f = r.ask("touch")
	q := f.request()
	f.close()
	r.restart(nil)
	testkit.Eventually(r.T, "the request waits again", func() bool { return r.info(r.id).State == api.DialogueRequiresAction })
	tr := r.transcript(r.id)
	if len(tr.Requests) != 1 || tr.Requests[0].RequestID != q.RequestID || tr.Requests[0].How != "" {
		r.Errorf("requests after the restart: %+v", tr.Requests)
	}
	if err := r.answers(q, api.DialogueRespondParams{Decision: "allow"}); err != nil {
		r.Fatal(err)
	}
	testkit.WantError(r.T, r.answers(q, api.DialogueRespondParams{Decision: "allow"}), api.CodeConflict, q.RequestID)
	f = r.follow(r.id, tr.Seq)
	if turn := f.rest(); turn.Outcome != "completed" || !r.exists("allowed.txt") {
		r.Errorf("it was allowed after the restart: %+v", turn)
	}
	f.close()

	f = r.ask("hold")
	f.held()
	f.close()
	r.restart(nil)
	seq := r.transcript(r.id).Seq
	testkit.Must(r.DialogueInterrupt(r.ctx, api.DialogueInterruptParams{DialogueID: r.id}))(r.world)
	if turn := r.follow(r.id, seq).rest(); turn.Outcome != "interrupted" {
		r.Errorf("interrupted after the restart: %+v", turn)
	}
	if info := r.info(r.id); info.Epoch != 1 || info.Turns != 3 {
		r.Errorf("the same process went on: %+v", info)
	}
	r.looks(`
		user: [[gate]]
		agent: A command that waits.
		tool_call $shell completed "until [ -e go ]; do sleep 0.05; done; echo went": went$eol
		agent: After the command that waits.
		user: [[touch]]
		agent: It needs to be allowed.
		tool_call $shell completed "touch allowed.txt": $silent
		agent: That step is over.
		user: [[hold]]
		agent (aborted): This answer begins and has no end.
		claude claude-old| program: [Request interrupted by user]
		turn by user: completed
		turn by user: completed
		turn by user: interrupted
		request permission $shell: answered allow
	`)
	r.same()
}

// terminates: the dialogue is terminated while a command runs, and again. No process is left.
func (r *real) terminates() {
	r.open()
	f := r.ask("long")
	r.file("started")
	info := r.terminate(r.id)
	if info.State != api.DialogueEnded || info.Ended == nil || info.Ended.Cause != "closed" {
		r.Errorf("terminated: %+v", info)
	}
	if left := r.processes(); len(left) > 0 {
		r.Errorf("left: %v", left)
	}
	r.nothingLeft()
	f.drain()
	if again := r.terminate(r.id); again.Ended == nil || again.Ended.Cause != "closed" || again.Seq != info.Seq {
		r.Errorf("terminated again: %+v, first %+v", again, info)
	}
	if n := count(r.events(r.id), api.DialogueEventEnded); n != 1 {
		r.Errorf("%d ends", n)
	}
	allClosed(r.T, r.transcript(r.id).Items)
	r.resume()
	if turn := r.talk("turn2"); turn.Outcome != "completed" {
		r.Errorf("resumed: %+v", turn)
	}
}
