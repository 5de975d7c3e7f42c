package mcp_test

import (
	"context"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestWrongDirectory: a command that cannot be run is an error, also when it had to wait.
func TestWrongDirectory(t *testing.T) {
	p := connect(t, 0)
	const want = `INVALID_PARAMS: working_dir: "/nowhere" is not a directory`
	alive := func(want int) {
		t.Helper()
		list := testkit.Must(p.service.SessionList(t.Context(), api.SessionListParams{}))(t)
		if len(list.Sessions) != want {
			t.Errorf("%d sessions, want %d: %+v", len(list.Sessions), want, list.Sessions)
		}
	}
	for _, session := range []string{"", "named"} {
		for _, tool := range []string{"run", "start"} {
			p.refuses(tool, map[string]any{"command": "pwd", "working_dir": "/nowhere", "session": session}, want)
			alive(1) // the default session, and none for the command that failed
		}
		p.does("run", map[string]any{"command": "echo alive", "session": session}, `(?:\[new.*\n)?alive\n.*`)
	}
	p.refuses("terminal_start", map[string]any{"working_dir": "/nowhere"}, want)
	alive(2)
	// A session that was there before is kept.
	p.refuses("run", map[string]any{"command": "pwd", "working_dir": "/nowhere", "session": "named"}, want)
	alive(2)
}

// shared is a service of which another caller uses each session as soon as it exists.
type shared struct{ api.Service }

func (s shared) SessionCreate(ctx context.Context, p api.SessionCreateParams) (api.SessionInfo, error) {
	info, err := s.Service.SessionCreate(ctx, p)
	if err == nil {
		_, err = s.Service.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Command: "K=kept"})
	}
	return info, err
}

// TestWrongDirectoryShared: a session that another caller uses is kept, although the command for which it
// was created cannot be run.
func TestWrongDirectoryShared(t *testing.T) {
	p := serve(t, 0, shared{trltest.Start(t).Client(t)})
	for _, tool := range []string{"run", "start"} {
		p.refuses(tool, map[string]any{"command": "pwd", "working_dir": "/nowhere", "session": tool}, "is not a directory")
		p.does("run", map[string]any{"command": "echo $K", "session": tool}, `kept\n.*`)
	}
}
