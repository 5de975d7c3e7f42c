package agent_test

import (
	"slices"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// TestCodexModels asks which models there are once the thread is there. A process that was
// not asked is not asked when it is wound again.
func TestCodexModels(t *testing.T) {
	for _, asks := range []bool{true, false} {
		k := newTalk(t, "codex", agent.Options{ModelList: asks})
		k.hears(`{"id":1,"result":{"userAgent":"trl/0.166.0 (x)"}}`, `{"id":2,"result":{"thread":{"id":"T"},"model":"m"}}`)
		if w := k.written(); (w.Method == "model/list") != asks {
			t.Errorf("asks %v: wrote %+v", asks, w)
		}
	}
	k := newTalk(t, "codex", agent.Options{ModelList: true})
	k.hears(`{"id":1,"result":{"userAgent":"trl/0.166.0 (x)"}}`, `{"id":2,"result":{"thread":{"id":"T"},"model":"m"}}`,
		`{"id":3,"result":{"data":[{"id":"a","model":"a"},{"id":"h","model":"h","hidden":true},{"id":"b","model":"b"}],"nextCursor":null}}`)
	if o := k.last(api.DialogueEventOpened).Opened; !slices.Equal(o.Models, []string{"a", "b"}) || o.Model != "m" || o.NativeSession != "T" {
		t.Errorf("%+v", o)
	}
	k = newTalk(t, "codex", agent.Options{ModelList: true})
	k.hears(`{"id":1,"result":{"userAgent":"trl/0.166.0 (x)"}}`, `{"id":2,"result":{"thread":{"id":"T"},"model":"m"}}`, `{"id":3,"error":{"code":-32601,"message":"unknown"}}`)
	if o := k.last(api.DialogueEventOpened).Opened; o.Models != nil || k.failed != "" {
		t.Errorf("%+v, %s", o, k.failed)
	}
}
