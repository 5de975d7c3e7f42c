package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/config"
)

// connect returns a client of the daemon of this user, which is started in the
// background when none runs.
func (a *app) connect(cmd *cobra.Command) (*client.Client, error) {
	cfg, err := a.settings(cmd)
	if err != nil {
		return nil, err
	}
	a.socket = cfg.Socket
	ctx := cmd.Context()
	c, err := dial(ctx, cfg)
	if err == nil || !isAbsent(err) {
		return c, err
	}
	if a.noStart {
		return nil, withHint(noDaemon(cfg), "start one with `trl serve`, or leave out --no-start")
	}
	return a.autostart(cmd, cfg)
}

// connectRunning returns a client of the daemon that runs, or nil when none does.
func (a *app) connectRunning(cmd *cobra.Command) (*client.Client, config.Config, error) {
	cfg, err := a.settings(cmd)
	if err != nil {
		return nil, cfg, err
	}
	c, err := dial(cmd.Context(), cfg)
	if isAbsent(err) {
		return nil, cfg, nil
	}
	return c, cfg, err
}

func noDaemon(cfg config.Config) error {
	return fmt.Errorf("no daemon is running on %s", cfg.Socket)
}

// dial connects and waits for one answer: a daemon that is about to end by itself may
// have left a connection in its queue that it will never take. Once it has answered
// it counts the connection and stays.
func dial(ctx context.Context, cfg config.Config) (*client.Client, error) {
	if err := checkPlace(cfg); err != nil {
		return nil, err
	}
	c, err := client.Dial(ctx, cfg.Socket)
	if err != nil {
		return nil, err
	}
	_, err = c.SystemPing(ctx, api.SystemPingParams{})
	if err == nil {
		return c, nil
	}
	_ = c.Close()
	if errors.Is(err, api.ErrRuntimeUnavailable) {
		err = fmt.Errorf("%w: %w", errGone, err)
	}
	return nil, err
}

// checkPlace refuses a default socket in a directory of somebody else: below /tmp
// anybody could have made it first, and would be sent our environment. A socket
// that the user named is trusted.
func checkPlace(cfg config.Config) error {
	if cfg.Origin("socket") != config.OriginDefault {
		return nil
	}
	dir := filepath.Dir(cfg.Socket)
	info, err := os.Lstat(dir)
	if err != nil {
		return nil // nothing there; dialling tells it better
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Getuid() && st.Uid != 0 {
		return withHint(fmt.Errorf("%s: belongs to uid %d, not to you", dir, st.Uid),
			"set TRL_SOCKET_PATH to a place of your own")
	}
	return nil
}

// errGone is a daemon that took the connection with it.
var errGone = errors.New("the daemon went away")

// isAbsent reports whether the error of dial means that no daemon is there.
func isAbsent(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errGone)
}
