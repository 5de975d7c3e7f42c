package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// interruptible is for commands that only look on: the first signal ends the context, and
// nothing else. The returned function tells what to answer then: the status of one that died
// of the signal, instead of the error that came of it.
func interruptible(parent context.Context) (ctx context.Context, answer func(error) error) {
	var signals []os.Signal
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	if len(signals) == 0 {
		return parent, func(err error) error { return err }
	}
	ctx, cancel := context.WithCancelCause(parent)
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, signals...)
	go func() { // ends with the context
		select {
		case s := <-arrived:
			cancel(ui.ExitBySignal(s))
		case <-ctx.Done():
		}
	}()
	return ctx, func(err error) error {
		defer cancel(nil)
		defer signal.Stop(arrived)
		if ctx.Err() != nil && err != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// findExec returns the command of a word: its id, or a session's name or id, for the
// command that runs there now or else ran there last.
func findExec(ctx context.Context, c *client.Client, word string) (api.ExecInfo, error) {
	if isExec(word) {
		return c.ExecInfo(ctx, api.ExecInfoParams{ExecID: word})
	}
	list, err := c.ExecList(ctx, api.ExecListParams{SessionID: word})
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

// ended reports whether the command of a snapshot has ended.
func ended(e api.ExecInfo) bool { return e.State == api.ExecExited || e.State == api.ExecClosed }

// noExec adds the next step to the error for a command that is not there any more.
func noExec(err error) error {
	if errors.Is(err, api.ErrSessionTerminated) {
		return ui.WithHint(err, "`trl ls -a` tells why it has ended")
	}
	return err
}
