package dialogue_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestClaudeOldSubagents: what subagents say and do is below their calls. Of those that
// subagents start, this version tells only that they were and how they ended.
func TestClaudeOldSubagents(t *testing.T) {
	r := claudeOld.use(t, behaviour{tools: "Bash,Agent"}).open()
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

// TestClaudeOldFigures: this version tells totals, which begin anew with each process,
// however the one before ended. None is lost and none is counted twice.
func TestClaudeOldFigures(t *testing.T) {
	r := claudeOld.use(t, behaviour{}).open()
	r.used("turn1", 1)
	one := *r.info(r.id).Usage.CostUSD
	r.terminate(r.id)
	r.resume()
	r.used("turn2", 2)
	r.saved("Answer to turn two.")
	f := r.follow(r.id, 0)
	r.kill()
	f.drain()
	r.resume()
	r.used("turn3", 3)
	if all := *r.info(r.id).Usage.CostUSD; one == 0 || math.Abs(all-3*one) > one/1000 {
		t.Errorf("one answer cost %v, three cost %v", one, all)
	}
}

// TestClaudeOldBackground: the program calls itself idle while a subagent works in the
// background; the dialogue does not, and what the subagent reports is heard.
func TestClaudeOldBackground(t *testing.T) {
	r := claudeOld.use(t, behaviour{tools: "Bash,Agent"}).open()
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

// TestClaudeOldClear: as TestClaudeClear.
func TestClaudeOldClear(t *testing.T) { claudeClears(claudeOld.use(t, behaviour{}).open()) }
