package mcp_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

func TestDialogueTurns(t *testing.T) {
	p := connect(t, 0)
	agent := trltest.FakeAgent(t)
	p.refuses("dialogue_send", map[string]any{"text": "x"}, "DIALOGUE_NOT_FOUND: there is no dialogue yet")
	p.does("run", map[string]any{"command": "cd /usr"}, ".*")
	m := p.does("dialogue_start", map[string]any{"program": []string{agent}, "prompt": "cwd; tool Bash make test; fail-tool Read /x; think secret; say ready"},
		`/usr\n\[Bash: make test → completed: done: make test\]\n\[Read: /x → failed: it went wrong\]\nready\n\[(d-\S+) is idle\]`)
	id := m[1]
	p.does("dialogue_send", map[string]any{"text": "hello"}, `You said: hello\n\[d-\S+ is idle\]`)
	p.does("dialogue_send", nil, `\[d-\S+ is idle\]`)
	p.does("dialogue_send", map[string]any{"text": "fail overloaded"}, `(?:.*\n)?\[the turn is failed.*\]\n\[d-\S+ is idle\]`)
	p.does("dialogue_send", map[string]any{"text": "subagent; say after"}, `\[Agent: look into it → completed: the report\]\nafter\n.*`)
	p.does("dialogue_read", nil, `> cwd; tool Bash.*ready\n> hello\nYou said: hello\n.*  the child looks\n  \[Bash: ls → completed: done: ls\]\n.*\[d-\S+ is idle; 4 turns, [\d,]+ bytes\]`)
	p.does("dialogue_read", map[string]any{"full": true}, `.*\n\(thinks\) secret\n.*`)
	p.does("dialogue_read", map[string]any{"max_bytes": 5}, `> cwd\n\[[\d,]+ bytes more: dialogue_read \{"dialogue": "d-\S+", "offset": 5\}\]\n\[.*`)
	p.does("list", nil, `.*s-\S+ running program .*, of dialogue `+id+`\n.*`+id+` idle claude in /usr, 4 turns\n`)
	p.does("dialogue_stop", nil, `ended `+id+`; dialogue_start \{"resume": "`+id+`"\} goes on with it`)
	p.refuses("dialogue_send", map[string]any{"text": "x"}, "DIALOGUE_ENDED")
	p.does("dialogue_start", map[string]any{"resume": id, "prompt": "again"}, `You said: again\n\[`+id+` is idle\]`)
	p.does("dialogue_send", map[string]any{"text": "exit 3"}, `(?s)\[the turn is lost\]\n\[the agent has ended: unexpected_exit\]\n\[`+id+` has ended; dialogue_start .*\]`)
	p.refuses("dialogue_read", map[string]any{"dialogue": "nobody"}, "DIALOGUE_NOT_FOUND")
	p.refuses("dialogue_start", map[string]any{"program": []string{agent, "-fail", "no credit left"}}, "AGENT_FAILED")
	p.refuses("dialogue_start", map[string]any{"agent": "nobody"}, "INVALID_PARAMS")
}

func TestDialogueRequests(t *testing.T) {
	p := connect(t, 0)
	agent := trltest.FakeAgent(t)
	ask := `\[asks \(permission\): Bash %; dialogue_respond \{"dialogue": "(d-\S+)", "request_id": "(\S+)", "decision": "allow" or "deny"\}\]\n.*  input: \{.*\}\n\[d-\S+ waits for your answer\]`
	m := p.does("dialogue_start", map[string]any{
		"program": []string{agent}, "prompt": "ask Bash git log; ask Bash rm -rf x; say after", "allow": []string{"Bash(git *)"},
	}, `\[Bash: git log → completed.*\]\n`+strings.ReplaceAll(ask, "%", "rm -rf x"))
	p.does("dialogue_send", nil, strings.ReplaceAll(ask, "%", "rm -rf x")) // still
	p.does("dialogue_respond", map[string]any{"request_id": m[2], "decision": "deny", "message": "not that"}, `\[Bash: rm -rf x → failed: not that\]\nafter\n\[.* is idle\]`)
	p.refuses("dialogue_respond", map[string]any{"request_id": m[2], "decision": "allow"}, "CONFLICT")
	p.refuses("dialogue_respond", map[string]any{"decision": "allow"}, "0 requests wait")
	p.does("dialogue_send", map[string]any{"text": "ask Bash ls"}, strings.ReplaceAll(ask, "%", "ls"))
	p.does("dialogue_respond", map[string]any{"decision": "allow", "input": map[string]any{"command": "ls -l"}}, `\[Bash: ls.* → completed: .*ls -l.*\]\n\[.* is idle\]`)
	p.does("dialogue_send", map[string]any{"text": "question Which?"}, `\[asks \(question\).*"answers": .*\]\n  question: Which\?\n    - Red.*\n    - Blue.*\n\[.* waits for your answer\]`)
	p.does("dialogue_respond", map[string]any{"answers": map[string]string{"Which?": "Blue"}}, `.*Blue.*\[.* is idle\]`)
}

func TestDialoguePatience(t *testing.T) {
	p := connect(t, 700*time.Millisecond)
	gates := t.TempDir()
	agent := []string{trltest.FakeAgent(t), "-gates", gates}
	m := p.does("dialogue_start", map[string]any{"program": agent, "prompt": "say begun; hang"},
		`begun\n\[(d-\S+) still works after .*; go on with dialogue_send \{"dialogue": "d-\S+"\}, or stop it with dialogue_stop\]`)
	p.does("dialogue_send", map[string]any{"timeout_s": 0.1}, `\[d-\S+ still works after 100ms.*`)
	p.does("dialogue_stop", map[string]any{"interrupt": true}, `\[the turn is interrupted\]\n\[`+m[1]+` is idle\]`)
	p.does("dialogue_send", map[string]any{"text": "say " + strings.Repeat("long ", 10000) + "end"},
		`long .*\n\[[\d,]+ of 50,\d+ bytes left out: dialogue_read \{"dialogue": "d-\S+", "tail": 50\d+\}\]\n.*long end\n\[.* is idle\]`)
}

// TestDialogueEnd: what the client did not name ends with it, and what it gave up is interrupted.
func TestDialogueEnd(t *testing.T) {
	p := connect(t, 0)
	agent := trltest.FakeAgent(t)
	dir := t.TempDir()
	p.does("dialogue_start", map[string]any{"program": []string{agent}, "name": "mine", "working_dir": dir}, `\[d-\S+ is idle\]`)
	p.does("dialogue_start", map[string]any{"program": []string{agent, "-heard", filepath.Join(dir, "heard")}}, `\[d-\S+ is idle\]`)
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, _, err := p.call(ctx, "dialogue_send", map[string]any{"text": "tool Bash first; hang"})
		answered <- err
	}()
	select {
	case <-p.told:
	case <-time.After(patience):
		t.Fatal("no progress")
	}
	cancel()
	if err := <-answered; err == nil {
		t.Error("a call that was given up has an answer")
	}
	p.does("dialogue_send", nil, `(?s).*is idle\]`)
	p.closed()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		list, err := p.service.DialogueList(t.Context(), api.DialogueListParams{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Dialogues) == 2 && list.Dialogues[0].State == api.DialogueIdle && list.Dialogues[1].State == api.DialogueEnded {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", list.Dialogues)
		}
	}
}
