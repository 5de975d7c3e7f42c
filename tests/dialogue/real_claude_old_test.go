package dialogue_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/dialogue/programs"
)

// useClaudeOld is useClaude with the oldest version that is supported.
func useClaudeOld(t *testing.T, flags ...string) *real {
	t.Helper()
	return useClaudeAt(t, programs.ClaudeOld(t), flags...)
}

// TestClaudeOld: what does not depend on the version.
func TestClaudeOld(t *testing.T) {
	for name, test := range map[string]struct {
		tools string // that need not be allowed
		run   func(*real)
	}{
		"answers":     {"Bash", claudeAnswers},
		"permissions": {"", claudePermissions},
		"interrupts":  {"Bash(echo *)", claudeInterrupts},
		"restarts":    {"Bash(until *)", claudeRestarts},
		"terminates":  {"Bash", claudeTerminates},
		"clears":      {"", claudeClears},
	} {
		t.Run(name, func(t *testing.T) {
			var flags []string
			if test.tools != "" {
				flags = []string{"--allowedTools", test.tools}
			}
			test.run(useClaudeOld(t, flags...).open())
		})
	}
}

// TestClaudeOldMessages: a message that comes while a tool runs is taken up within the turn.
// This version does not say that it has it.
func TestClaudeOldMessages(t *testing.T) {
	r := useClaudeOld(t, "--allowedTools", "Bash").open()
	f := r.ask("gate")
	f.running()
	sent := r.send(r.id, "[[turn2]]")
	// It reads in order: with the answer to this it has the message, too.
	testkit.Must(r.DialogueSet(r.ctx, api.DialogueSetParams{DialogueID: r.id, PermissionMode: "acceptEdits"}))(r.world)
	r.touch("go")
	turn := f.rest()
	if len(turn.Messages) != 2 || turn.Messages[1] != sent.MessageID {
		t.Errorf("the turn took up %v, and %s was sent", turn.Messages, sent.MessageID)
	}
	if states := messageStates(f.events, sent.MessageID); states != "sent started done" {
		t.Errorf("the message that was sent while a tool ran: %s", states)
	}
	r.looks(`
		user: [[gate]]
		agent: A command that waits.
		tool_call Bash completed "until [ -e go ]; do sleep 0.05; done; echo went": went
		user: [[turn2]]
		agent: Answer to turn two.
		turn by user: completed
	`)
	r.same()
}

// TestClaudeOldSubagents: what subagents say and do is below their calls. Of those that
// subagents start, this version tells only that they were and how they ended.
func TestClaudeOldSubagents(t *testing.T) {
	r := useClaudeOld(t, "--allowedTools", "Bash,Agent").open()
	for _, script := range []string{"agents", "nested"} {
		if turn := r.talk(script); turn.Outcome != "completed" {
			t.Errorf("%s: %+v", script, turn)
		}
	}
	r.looks(`
		user: [[agents]]
		agent: Two subagents.
		tool_call Agent completed "First": Report of the subagent.|(long)
		  user: First [[sub]]
		  agent: The subagent looks.
		  tool_call Bash completed "echo from-sub": from-sub
		  agent: Report of the subagent.
		tool_call Agent completed "Second": Report of the other subagent.|(long)
		  user: Second [[sub_b]]
		  agent: The other subagent looks.
		  tool_call Bash completed "echo from-other": from-other
		  agent: Report of the other subagent.
		agent: Both subagents are done.
		user: [[nested]]
		agent: Nesting.
		tool_call Agent completed "Outer": Report of the outer one.|(long)
		  user: Outer [[sub_outer]]
		  agent: The outer one delegates.
		  tool_call Agent completed "Inner": Report of the subagent.|(long)
		  agent: Report of the outer one.
		agent: The nested work is done.
		turn by user: completed
		turn by user: completed
		task agent "First": completed
		task agent "Inner": completed
		task agent "Outer": completed
		task agent "Second": completed
	`)
	r.same()
	r.survives()
}

// saved waits until the agent has written a text into its own record of the conversation:
// what it has not, it does not know after kill -9. This version takes its time.
func (r *real) saved(text string) {
	r.Helper()
	pattern := filepath.Join(r.params.Env["CLAUDE_CONFIG_DIR"], "projects", "*", r.info(r.id).NativeSession+".jsonl")
	testkit.Eventually(r.T, "the agent has saved "+text, func() bool {
		files, _ := filepath.Glob(pattern)
		if len(files) == 0 {
			return false
		}
		record, _ := os.ReadFile(files[0])
		return strings.Contains(string(record), text)
	})
}

// TestClaudeOldKilled: as TestClaudeKilled, with what the agent had saved.
func TestClaudeOldKilled(t *testing.T) {
	for _, name := range []string{"at rest", "in text", "in a tool", "in a request"} {
		t.Run(name, func(t *testing.T) {
			r := useClaudeOld(t, "--allowedTools", "Bash").open()
			r.talk("plain")
			r.saved("Hello from the scripted model.")
			f := r.ask(deaths[name].script)
			deaths[name].until(r, f)
			r.kill()
			f.drain()
			r.closed(f, map[bool]string{true: "exited", false: "unexpected_exit"}[name == "at rest"])
			r.nothingLeft()
			r.resumed()
		})
	}
}

// TestClaudeOldFigures: this version tells totals, which begin anew with each process,
// however the one before ended. None is lost and none is counted twice.
func TestClaudeOldFigures(t *testing.T) {
	r := useClaudeOld(t).open()
	r.used("turn1", 1, 20)
	one := *r.info(r.id).Usage.CostUSD
	r.terminate(r.id)
	r.resume()
	r.used("turn2", 2, 20)
	r.saved("Answer to turn two.")
	f := r.follow(r.id, 0)
	r.kill()
	f.drain()
	r.resume()
	r.used("turn3", 3, 20)
	if all := *r.info(r.id).Usage.CostUSD; one == 0 || math.Abs(all-3*one) > one/1000 {
		t.Errorf("one answer cost %v, three cost %v", one, all)
	}
}

// TestClaudeOldBackground: the program calls itself idle while a subagent works in the
// background; the dialogue does not, and what the subagent reports is heard.
func TestClaudeOldBackground(t *testing.T) {
	r := useClaudeOld(t, "--allowedTools", "Bash,Agent").open()
	f := r.ask("background")
	f.until(api.DialogueEventTurnEnded)
	r.runsInBackground()
	if info := r.info(r.id); info.State != api.DialogueRunning || info.BackgroundTasks != 1 {
		t.Errorf("a subagent runs in the background: %+v", info)
	}
	r.touch("go")
	f.rest()
	if info := r.info(r.id); info.State != api.DialogueIdle || info.BackgroundTasks != 0 || r.said(r.id) != "The background reported." {
		t.Errorf("the report was heard: %+v, %q", info, r.said(r.id))
	}
}
