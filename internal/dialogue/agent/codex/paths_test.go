package codex_test

import (
	"slices"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
)

// TestPathsOfChanges: a request names every file that a change reads or writes, also where a file is
// moved to, and also if it is for a directory.
func TestPathsOfChanges(t *testing.T) {
	changes := `{"path":"/w/a","kind":{"type":"update","move_path":"/etc/b"},"diff":""},{"path":"/w/c","kind":{"type":"add"},"diff":"x"}`
	for root, want := range map[string]string{"": "/", `,"grantRoot":"/w"`: "/w/"} {
		k := agenttest.CodexReady(t)
		k.Hears(agenttest.CodexTurn, `{"method":"item/started","params":{"threadId":"T","turnId":"turn1","item":{"type":"fileChange","id":"f","status":"inProgress","changes":[`+changes+`]}}}`,
			`{"method":"item/fileChange/requestApproval","id":7,"params":{"threadId":"T","turnId":"turn1","itemId":"f"`+root+`}}`)
		if q := k.Last(api.DialogueEventRequestOpened).Request; q.Subject != want || !slices.Equal(q.Paths, []string{"/w/a", "/etc/b", "/w/c"}) {
			t.Errorf("%s: %s", root, agenttest.Show(q))
		}
	}
}
