package acp_test

import (
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/acp"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
)

// TestFigures reads the figures of a turn from the places where agents put them.
func TestFigures(t *testing.T) {
	qwen := agenttest.ACPUpdate(`"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""},"_meta":{"usage":{"inputTokens":100,"outputTokens":50,"totalTokens":175,"thoughtTokens":25,"cachedReadTokens":10},"durationMs":7}`)
	end := func(more string) string {
		return `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"` + more + `}}`
	}
	for name, c := range map[string]struct {
		lines []string
		want  api.DialogueUsage // of the turn
	}{
		"protocol": {[]string{end(`,"usage":{"inputTokens":10,"outputTokens":5,"thoughtTokens":2,"cachedReadTokens":3,"cachedWriteTokens":4}`)}, api.DialogueUsage{InputTokens: 10, OutputTokens: 7, CacheReadTokens: 3, CacheWriteTokens: 4}},
		"gemini":   {[]string{end(`,"_meta":{"quota":{"token_count":{"input_tokens":12,"output_tokens":3},"model_usage":[]}}`)}, api.DialogueUsage{InputTokens: 12, OutputTokens: 3}},
		"qwen":     {[]string{agenttest.ACPChunk("agent_message", "a"), qwen, agenttest.ACPChunk("agent_message", "b"), qwen, end("")}, api.DialogueUsage{InputTokens: 180, OutputTokens: 150, CacheReadTokens: 20}},
		"both":     {[]string{qwen, end(`,"usage":{"inputTokens":1,"outputTokens":2}`)}, api.DialogueUsage{InputTokens: 1, OutputTokens: 2}},
		"odd":      {[]string{end(`,"_meta":{"quota":"none","usage":[1]}`)}, api.DialogueUsage{}},
	} {
		k := agenttest.ACPReady(t)
		k.Send("m1", "go")
		k.Hears(c.lines...)
		got := api.DialogueUsage{}
		if u := k.Last(api.DialogueEventTurnEnded).Turn.Usage; u != nil {
			got = *u
		}
		if got != c.want || k.Tree.Result().Usage != c.want {
			t.Errorf("%s: %+v, in all %+v", name, got, k.Tree.Result().Usage)
		}
		if name == "qwen" && len(k.Tree.Result().Items) != 2 {
			t.Errorf("an empty message is no item: %s", agenttest.Show(k.Tree.Result().Items))
		}
	}
	// codex-acp reports only the context.
	k := agenttest.ACPReady(t)
	k.Hears(agenttest.ACPUpdate(`"sessionUpdate":"usage_update","used":53000,"size":200000`))
	if u := k.Tree.Result().Usage; u.ContextTokens != 53000 || u.ContextWindow != 200000 {
		t.Errorf("%+v", u)
	}
}

// TestResumeFallsBack: a session that the agent cannot resume is loaded, if the agent can.
func TestResumeFallsBack(t *testing.T) {
	hello := func(load string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":` + load + `,"sessionCapabilities":{"resume":{}}}}}`
	}
	refused := `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found"}}`
	k := agenttest.NewTalk(t, acp.Agent{}, agent.Options{Resume: "S", Epoch: 2})
	k.Hears(hello("true"))
	if w := k.LastWritten(); w.Method != "session/resume" {
		t.Fatalf("wrote %+v", w)
	}
	k.Hears(refused)
	if w := k.LastWritten(); w.Method != "session/load" || w.Params["sessionId"] != "S" {
		t.Fatalf("wrote %+v", w)
	}
	k.Hears(agenttest.ACPChunk("agent_message", "told before"), `{"jsonrpc":"2.0","id":3,"result":{}}`)
	if !k.Ready || k.Failed != "" || len(k.Tree.Result().Items) != 0 {
		t.Errorf("ready %v, failed %q, items %s", k.Ready, k.Failed, agenttest.Show(k.Tree.Result().Items))
	}
	for name, lines := range map[string][]string{"cannot load": {hello("false"), refused}, "signed out": {hello("true"), `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Authentication required"}}`}} {
		k := agenttest.NewTalk(t, acp.Agent{}, agent.Options{Resume: "S", Epoch: 2})
		k.Hears(lines...)
		if k.Ready || k.Failed == "" {
			t.Errorf("%s: ready %v, failed %q", name, k.Ready, k.Failed)
		}
	}
}
