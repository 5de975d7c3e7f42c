package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// findExec returns the command that a word names: by its id, or by the name or id of a session,
// for the command that runs there or else ran there last.
func findExec(ctx context.Context, c *client.Client, word string) (api.ExecInfo, error) {
	if isExec(word) {
		return c.ExecInfo(ctx, api.ExecInfoParams{ExecID: word})
	}
	list, err := listExecs(ctx, c, api.ExecListParams{SessionID: word})
	if err != nil {
		return api.ExecInfo{}, err
	}
	var found *api.ExecInfo
	for i, e := range list.Execs {
		if found == nil || e.State != api.ExecQueued && found.State != api.ExecRunning {
			found = &list.Execs[i]
		}
	}
	if found == nil {
		return api.ExecInfo{}, ui.WithHint(fmt.Errorf("session %q: has run no command", word), "`trl start -s %s COMMAND` starts one", word)
	}
	return *found, nil
}

// ended reports whether a command has ended.
func ended(e api.ExecInfo) bool { return e.State == api.ExecExited || e.State == api.ExecClosed }

// noExec adds a hint to the error about a command whose session has ended.
func noExec(err error) error {
	if errors.Is(err, api.ErrSessionTerminated) {
		return ui.WithHint(err, "`trl ls -a` shows why it has ended")
	}
	return err
}
