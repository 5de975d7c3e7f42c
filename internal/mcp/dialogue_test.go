package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
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
	p.does("dialogue_stop", nil, `ended `+id+`: terminated; dialogue_start \{"resume": "`+id+`"\} continues it`)
	p.refuses("dialogue_send", map[string]any{"text": "x"}, "DIALOGUE_ENDED")
	p.does("dialogue_start", map[string]any{"resume": id, "prompt": "again"}, `You said: again\n\[`+id+` is idle\]`)
	p.does("dialogue_send", map[string]any{"text": "exit 3"}, `(?s)\[the turn is lost\]\n\[the agent has ended: unexpected_exit\]\n\[`+id+` has ended; dialogue_start .*\]`)
	p.refuses("dialogue_read", map[string]any{"dialogue": "nobody"}, "DIALOGUE_NOT_FOUND")
	p.refuses("dialogue_start", map[string]any{"program": []string{agent, "-fail", "no credit left"}}, "no credit left")
	p.refuses("dialogue_start", map[string]any{"agent": "nobody"}, "INVALID_PARAMS")
}

func TestDialogueRequests(t *testing.T) {
	p := connect(t, 0)
	agent := trltest.FakeAgent(t)
	ask := `\[asks \(permission\): Bash %; dialogue_respond \{"dialogue": "(d-\S+)", "request_id": "(\S+)", "decision": "allow" or "deny"\}\]\n  input, which "input" may replace: \{.*\}\n  or "option": "allow_always": Allow from now on: \{.*\}\n\[d-\S+ waits for your answer\]`
	m := p.does("dialogue_start", map[string]any{
		"program": []string{agent}, "prompt": "ask Bash git log; ask Bash rm -rf x; say after", "rules": []string{"allow Bash(git *)"},
	}, `\[Bash: git log → completed.*\]\n`+strings.ReplaceAll(ask, "%", "rm -rf x"))
	p.does("dialogue_send", nil, strings.ReplaceAll(ask, "%", "rm -rf x")) // still
	p.refuses("dialogue_respond", map[string]any{"request_id": "nothing", "decision": "deny"}, "dialogue_send lists those that wait")
	p.does("dialogue_respond", map[string]any{"request_id": m[2], "decision": "deny", "message": "not that"}, `\[Bash: rm -rf x → failed: not that\]\nafter\n\[.* is idle\]`)
	p.refuses("dialogue_respond", map[string]any{"request_id": m[2], "decision": "allow"}, "CONFLICT")
	p.refuses("dialogue_respond", map[string]any{"decision": "allow"}, "no request waits for an answer: continue with dialogue_send")
	p.does("dialogue_send", map[string]any{"text": "ask Bash ls"}, strings.ReplaceAll(ask, "%", "ls"))
	p.does("dialogue_respond", map[string]any{"decision": "allow", "input": map[string]any{"command": "ls -l"}}, `\[Bash: ls.* → completed: .*ls -l.*\]\n\[.* is idle\]`)
	p.does("dialogue_send", map[string]any{"text": "ask Bash ls; say not reached"}, strings.ReplaceAll(ask, "%", "ls"))
	p.does("dialogue_respond", map[string]any{"decision": "deny", "message": "stop", "interrupt": true}, `\[Bash: ls → failed: stop\]\n\[the turn is interrupted.*\]\n\[.* is idle\]`)
	p.does("dialogue_send", map[string]any{"text": "ask Bash ls"}, strings.ReplaceAll(ask, "%", "ls"))
	p.does("dialogue_respond", map[string]any{"decision": "allow", "remember": true}, `\[Bash: ls → completed.*\]\nremembered: .*"addRules".*\n\[.* is idle\]`)
	p.does("dialogue_send", map[string]any{"text": "ask Bash ls"}, strings.ReplaceAll(ask, "%", "ls"))
	p.does("dialogue_respond", map[string]any{"option": "allow_always"}, `\[Bash: ls → completed.*\]\nremembered: .*"addRules".*\n\[.* is idle\]`)
	p.does("dialogue_send", map[string]any{"text": "question Which?"}, `\[asks \(question\).*"answers": .*\]\n  question: Which\?\n    - Red.*\n    - Blue.*\n\[.* waits for your answer\]`)
	p.does("dialogue_respond", map[string]any{"answers": map[string]string{"Which?": "Blue"}}, `.*Blue.*\[.* is idle\]`)
}

// TestDialogueOptions: a request lists the options that an agent offers, and says that its input
// cannot be changed.
func TestDialogueOptions(t *testing.T) {
	p := connect(t, 0)
	ask := `\[asks \(permission\): .*"decision": "allow" or "deny"\}\]\n  input: \{.*\}\n  or "option": "always": Always\n\[d-\S+ waits for your answer\]`
	p.does("dialogue_start", map[string]any{"agent": "acp", "program": []string{trltest.FakeAgent(t), "-acp"}, "prompt": "ask Bash ls"}, ask)
	p.refuses("dialogue_respond", map[string]any{"option": "nothing"}, "INVALID_PARAMS")
	p.refuses("dialogue_respond", map[string]any{"decision": "allow", "input": map[string]any{"command": "rm"}}, "INVALID_PARAMS")
	p.does("dialogue_respond", map[string]any{"option": "always"}, `\[.* → completed: done with always: ls\]\n\[.* is idle\]`)
}

// asking is a service with one dialogue, which has an open request.
type asking struct {
	api.Service
	request api.DialogueRequest
}

func (a *asking) DialogueTranscript(context.Context, api.DialogueTranscriptParams) (api.DialogueTranscriptResult, error) {
	return api.DialogueTranscriptResult{DialogueID: "d-1", State: api.DialogueRequiresAction, Requests: []api.DialogueRequest{a.request}}, nil
}

// TestDialogueRequestText: the lines of a request below its title.
func TestDialogueRequestText(t *testing.T) {
	option := func(id, kind string) api.DialogueOption {
		return api.DialogueOption{ID: id, Label: "Label " + id, Kind: kind}
	}
	input := json.RawMessage(`{"a":1}`)
	service := &asking{}
	p := serve(t, 0, service)
	for _, c := range []struct {
		request api.DialogueRequest
		want    string
	}{
		{api.DialogueRequest{Kind: "permission", Input: input}, "  input: {\"a\":1}\n"},
		{api.DialogueRequest{Kind: "permission", Input: input, Editable: true}, "  input, which \"input\" may replace: {\"a\":1}\n"},
		{api.DialogueRequest{Kind: "elicitation", Input: input}, "  give \"input\" as this schema says: {\"a\":1}\n"},
		{api.DialogueRequest{Kind: "permission", Options: []api.DialogueOption{option("y", "allow"), option("n", "deny")}}, ""},
		{api.DialogueRequest{Kind: "permission", Options: []api.DialogueOption{option("y", "allow"), option("here", "allow"), option("ever", "allow_always"), option("odd", ""), option("n", "deny")}},
			"  or \"option\": \"here\": Label here\n  or \"option\": \"ever\": Label ever\n  or \"option\": \"odd\": Label odd\n"},
		{api.DialogueRequest{Kind: "question", Questions: []api.DialogueQuestion{{Question: "Which?", Multiple: true, Options: []api.DialogueOption{{Label: "Red"}}}, {Question: "Why?"}}},
			"  question (several answers, with commas between): Which?\n    - Red\n  question: Why?\n"},
	} {
		service.request = c.request
		got := p.does("dialogue_read", map[string]any{"dialogue": "d-1"}, `\[asks .*?\}\]\n(.*)\[d-1 is requires_action; .*`)[1]
		if got != c.want {
			t.Errorf("%+v:\n%swant\n%s", c.request, got, c.want)
		}
	}
}

// TestDialogueSettings: a model changes the settings and the rules of an agent.
func TestDialogueSettings(t *testing.T) {
	p := connect(t, 0)
	agent := trltest.FakeAgent(t)
	m := p.does("dialogue_start", map[string]any{
		"program": []string{agent}, "model": "first", "permission_mode": "plan", "rules": []string{"deny Bash(rm *)", "ask Bash(make (all))", "allow Bash"},
		"prompt": "settings; ask Bash rm x; ask Bash ls; ask Bash make (all)",
	}, `first plan\n\[denied by a rule: Bash rm x\]\n\[Bash: rm x → failed.*\]\n\[Bash: ls → completed.*\]\n\[asks \(permission\): Bash make \(all\);.*\[(d-\S+) waits for your answer\]`)
	p.refuses("dialogue_send", map[string]any{"deny_after_s": 1}, "INVALID_PARAMS: deny_after_s: needs rules")
	for _, bad := range []string{"Bash(ls)", "maybe Bash", "allow", "allow Bash(ls", "allow Bash)", "allow (ls)"} {
		p.refuses("dialogue_send", map[string]any{"rules": []string{bad}}, "write allow, deny or ask, then a tool")
		p.refuses("dialogue_start", map[string]any{"program": []string{agent}, "rules": []string{bad}}, "write allow, deny or ask, then a tool")
	}
	// New rules also answer open requests, and the tool returns what the agent then does.
	p.does("dialogue_send", map[string]any{"rules": []string{"allow *"}}, `\[set: rules\]\n\[Bash: make \(all\) → completed.*\]\n\[.* is idle\]`)
	p.does("dialogue_send", map[string]any{"model": "second", "permission_mode": "acceptEdits", "text": "settings; ask Bash rm x"},
		`\[set: model second, permission_mode acceptEdits\]\nsecond acceptEdits\n\[Bash: rm x → completed.*\]\n\[.* is idle\]`)
	p.does("dialogue_send", map[string]any{"rules": []string{}, "deny_after_s": 1, "text": "ask Bash rm y"}, `\[set: rules\]\n\[asks \(permission\): Bash rm y;.*`)
	p.closesRequests(m[1])
	p.does("dialogue_send", nil, `.*\[Bash: rm y → failed.*\]\n\[.* is idle\]`)

	// A resumed agent keeps its settings, unless new ones are given.
	p.refuses("dialogue_start", map[string]any{"resume": m[1]}, "CONFLICT: "+m[1]+` has not ended, it is idle: continue with dialogue_send {"dialogue": "`+m[1]+`"}`)
	p.does("dialogue_stop", nil, `ended .*`)
	p.refuses("dialogue_send", map[string]any{"model": "third"}, "dialogue_start with resume starts the agent again")
	p.refuses("dialogue_start", map[string]any{"resume": m[1], "working_dir": "/"}, "keeps its settings: leave out")
	p.refuses("dialogue_start", map[string]any{"resume": m[1], "deny_after_s": 1}, "deny_after_s: needs rules")
	p.does("dialogue_start", map[string]any{"resume": m[1], "agent": "claude", "model": "third", "rules": []string{"allow Read"}, "prompt": "settings; ask Read /x"},
		`third acceptEdits\n\[Read: /x → completed.*\]\n\[.* is idle\]`)
}

// closesRequests waits until a dialogue has no open request. It does not follow the dialogue, so
// that no client does.
func (p *peer) closesRequests(id string) {
	p.t.Helper()
	testkit.EventuallyNoProblem(p.t, func() string {
		info, err := p.service.DialogueInfo(p.t.Context(), api.DialogueInfoParams{DialogueID: id})
		if err != nil {
			p.t.Fatal(err)
		}
		if info.Requests == 0 {
			return ""
		}
		return fmt.Sprintf("%+v", info)
	})
}

// TestDialogueOwnID: a conversation that the agent had without TRL can be continued.
func TestDialogueOwnID(t *testing.T) {
	p := connect(t, 0)
	agent := trltest.FakeAgent(t)
	const own = "3b1e7f52-0d0a-4a7e-9c33-5d9f5f0c1a77"
	m := p.does("dialogue_start", map[string]any{"program": []string{agent}, "resume": own, "prompt": "argv"}, `.*--resume.*`+own+`.*\n\[(d-\S+) is idle\]`)
	if info, err := p.service.DialogueInfo(t.Context(), api.DialogueInfoParams{DialogueID: m[1]}); err != nil || info.NativeSession != own || info.Epoch != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	p.refuses("dialogue_start", map[string]any{"program": []string{agent, "-fail-resume"}, "resume": "nobody"}, `"nobody" is not a dialogue (list shows them), and as a conversation of the agent's own: `)
	p.refuses("dialogue_start", map[string]any{"program": []string{agent}, "resume": "d-nobody"}, "DIALOGUE_NOT_FOUND")
	p.closed() // it is new and has no name
	if info, err := p.service.DialogueInfo(t.Context(), api.DialogueInfoParams{DialogueID: m[1]}); err != nil || info.State != api.DialogueEnded {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestDialogueRaw(t *testing.T) {
	p := connect(t, 0)
	m := p.does("dialogue_start", map[string]any{"program": []string{trltest.FakeAgent(t), "-flat"}, "prompt": "raw äöü; raw zz"}, `.*\[(d-\S+) is idle\]`)
	id := m[1]
	all := p.does("dialogue_read", map[string]any{"raw": "stdout", "max_bytes": 1 << 20}, `(\{.*\näöü\nzz\n.*\})\n\n\[stdout of process 1, [\d,]+ bytes until now\]`)[1] + "\n"
	p.does("dialogue_read", map[string]any{"raw": "stdin"}, `.*"raw äöü; raw zz".*\[stdin of process 1, .*`)
	at := strings.Index(all, "äöü")
	// Not within a character, and nothing is missing.
	m = p.does("dialogue_read", map[string]any{"raw": "stdout", "offset": at, "max_bytes": 3}, `ä\n\[[\d,]+ bytes more: dialogue_read \{"dialogue": "`+id+`", "raw": "stdout", "epoch": 1, "offset": (\d+)\}\]`)
	if m[1] != strconv.Itoa(at+2) {
		t.Errorf("offset %s, want %d", m[1], at+2)
	}
	p.does("dialogue_read", map[string]any{"raw": "stdout", "tail": 3, "max_bytes": 100}, regexp.QuoteMeta(all[len(all)-3:])+`\n\[stdout .*`)
	p.refuses("dialogue_read", map[string]any{"raw": "stderr"}, `INVALID_PARAMS: raw: "stderr" must be stdout or stdin`)
	p.refuses("dialogue_read", map[string]any{"epoch": 1}, "INVALID_PARAMS: epoch: is only for raw")
	p.refuses("dialogue_read", map[string]any{"raw": "stdout", "epoch": 2}, "INVALID_PARAMS")
	p.refuses("dialogue_read", map[string]any{"raw": "stdout", "offset": 1 << 40}, "beyond the end")
	p.does("dialogue_stop", nil, `ended .*`)
	p.does("dialogue_start", map[string]any{"resume": id, "prompt": "raw two"}, `.*`)
	p.does("dialogue_read", map[string]any{"raw": "stdout", "max_bytes": 1 << 20}, `.*\ntwo\n.*\[stdout of process 2, .*`)
	p.does("dialogue_read", map[string]any{"raw": "stdout", "epoch": 1, "max_bytes": 1 << 20}, regexp.QuoteMeta(all)+`.*\n\[end of stdout of process 1, [\d,]+ bytes\]`)
}

func TestDialoguePatience(t *testing.T) {
	testkit.Long(t)
	p := connect(t, 8*time.Second) // in which the agent must begin
	gates := t.TempDir()
	agent := []string{trltest.FakeAgent(t), "-gates", gates}
	m := p.does("dialogue_start", map[string]any{"program": agent, "prompt": "say begun; hang"},
		`begun\n\[(d-\S+) still works after .*; continue with dialogue_send \{"dialogue": "d-\S+"\}, or stop it with dialogue_stop\]`)
	p.does("dialogue_send", map[string]any{"timeout_s": 0.1}, `\[d-\S+ still works after 100ms.*`)
	p.does("dialogue_stop", map[string]any{"interrupt": true}, `\[the turn is interrupted\]\n\[`+m[1]+` is idle\]`)
	p.does("dialogue_send", map[string]any{"text": "say " + strings.Repeat("long ", 10000) + "end"},
		`long .*\n\[[\d,]+ of 50,\d+ bytes left out: dialogue_read \{"dialogue": "d-\S+", "tail": 50\d+\}\]\n.*long end\n\[.* is idle\]`)
}

// TestDialogueEnd: dialogues without a name end with the client, and a cancelled call interrupts
// the agent.
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
	testkit.EventuallyNoProblem(t, func() string {
		list, err := p.service.DialogueList(t.Context(), api.DialogueListParams{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Dialogues) == 2 && list.Dialogues[0].State == api.DialogueIdle && list.Dialogues[1].State == api.DialogueEnded {
			return ""
		}
		return fmt.Sprintf("%+v", list.Dialogues)
	})
}
