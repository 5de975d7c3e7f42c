package agenttest

import (
	"fmt"
	"testing"

	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/acp"
	"github.com/trl-dev/trl/internal/dialogue/agent/codex"
)

// ACPHello is the answer of an ACP agent to initialize.
const ACPHello = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"a","version":"9"},"agentCapabilities":{"loadSession":true},"authMethods":[{"id":"login","name":"Log in"}]}}`

// ACPReady is a talk with an ACP agent that has opened its session, S.
func ACPReady(t testing.TB) *Talk {
	k := NewTalk(t, acp.Agent{}, agent.Options{WorkingDir: "/w"})
	k.Hears(ACPHello, `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"S","modes":{"currentModeId":"ask","availableModes":[]}}}`)
	if !k.Ready || k.Failed != "" {
		t.Fatalf("not ready: %s", k.Failed)
	}
	return k
}

// ACPUpdate is a session/update with the fields of its update.
func ACPUpdate(update string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S","update":{` + update + `}}}`
}

// ACPChunk is a session/update with a piece of text.
func ACPChunk(kind, text string) string {
	return ACPUpdate(fmt.Sprintf(`"sessionUpdate":"%s_chunk","content":{"type":"text","text":%q}`, kind, text))
}

// CodexReady is a talk with a Codex that has opened its thread, T.
func CodexReady(t testing.TB) *Talk {
	k := NewTalk(t, codex.Agent{}, agent.Options{WorkingDir: "/w"})
	k.Hear([]byte(`{"id":1,"result":{"userAgent":"trl/0.166.0 (x)"}}`))
	k.Hear([]byte(`{"id":2,"result":{"thread":{"id":"T"},"model":"m","cwd":"/w","approvalPolicy":"on-request","sandbox":{"type":"workspaceWrite"}}}`))
	if !k.Ready || k.Failed != "" {
		t.Fatalf("not ready: %s", k.Failed)
	}
	return k
}

// CodexTurn is the start of the turn turn1 in the thread T.
const CodexTurn = `{"method":"turn/started","params":{"threadId":"T","turn":{"id":"turn1"}}}`
