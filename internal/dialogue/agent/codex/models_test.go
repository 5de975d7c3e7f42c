package codex_test

import (
	"slices"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
	"github.com/trl-dev/trl/internal/dialogue/agent/codex"
)

// TestModels: the protocol asks for the models when the thread is open. The replay of a process
// without the question does not ask.
func TestModels(t *testing.T) {
	for _, asks := range []bool{true, false} {
		k := agenttest.NewTalk(t, codex.Agent{}, agent.Options{ModelList: asks})
		k.Hears(`{"id":1,"result":{"userAgent":"trl/0.166.0 (x)"}}`, `{"id":2,"result":{"thread":{"id":"T"},"model":"m"}}`)
		if w := k.LastWritten(); (w.Method == "model/list") != asks {
			t.Errorf("asks %v: wrote %+v", asks, w)
		}
	}
	k := agenttest.NewTalk(t, codex.Agent{}, agent.Options{ModelList: true})
	k.Hears(`{"id":1,"result":{"userAgent":"trl/0.166.0 (x)"}}`, `{"id":2,"result":{"thread":{"id":"T"},"model":"m"}}`,
		`{"id":3,"result":{"data":[{"id":"a","model":"a"},{"id":"h","model":"h","hidden":true},{"id":"b","model":"b"}],"nextCursor":null}}`)
	if o := k.Last(api.DialogueEventOpened).Opened; !slices.Equal(o.Models, []string{"a", "b"}) || o.Model != "m" || o.NativeSession != "T" {
		t.Errorf("%+v", o)
	}
	k = agenttest.NewTalk(t, codex.Agent{}, agent.Options{ModelList: true})
	k.Hears(`{"id":1,"result":{"userAgent":"trl/0.166.0 (x)"}}`, `{"id":2,"result":{"thread":{"id":"T"},"model":"m"}}`, `{"id":3,"error":{"code":-32601,"message":"unknown"}}`)
	if o := k.Last(api.DialogueEventOpened).Opened; o.Models != nil || k.Failed != "" {
		t.Errorf("%+v, %s", o, k.Failed)
	}
}
