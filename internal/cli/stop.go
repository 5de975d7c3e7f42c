package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/place"
)

func (a *app) stopCommand() *cobra.Command {
	timeout := ui.SecondsFlag{}
	cmd := &cobra.Command{
		Use:     "stop",
		GroupID: groupDaemon,
		Short:   "End the daemon and its sessions",
		Long: `End the daemon and wait until it has exited. All its sessions end with it, and every
process in them. With keep_sessions in the configuration the sessions keep running, and
the next daemon finds them. It is not an error if no daemon runs.`,
		Example: `  trl stop`,
		Args:    ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.stop(cmd, timeout)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().Var(&timeout, "timeout", "wait at most this long (30, 1.5s, 2m; default 1m)")
	return cmd
}

func (a *app) stop(cmd *cobra.Command, timeout ui.SecondsFlag) error {
	c, cfg, err := a.connectRunning(cmd)
	if err != nil && !errors.Is(err, errNoAnswer) {
		return err
	}
	wait := time.Minute
	if timeout.Value != nil {
		wait = time.Duration(*timeout.Value * float64(time.Second))
	}
	if c == nil {
		return a.stopped(cfg, wait, err)
	}
	defer c.Close()
	pid, ok := c.PeerPID()
	if !ok {
		return fmt.Errorf("daemon on %s: unknown process id", cfg.Socket)
	}
	// Watch the process before the daemon stops: the connection proves that it still has this id.
	gone, err := watchProcess(pid)
	if err != nil {
		return fmt.Errorf("daemon on %s, pid %d: %w", cfg.Socket, pid, err)
	}
	if err := terminate(pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("daemon on %s, pid %d: %w", cfg.Socket, pid, err)
	}
	if err := gone(wait); err != nil {
		return withKillHint(fmt.Errorf("daemon on %s, pid %d: still running after %s: %w", cfg.Socket, pid, wait, err), pid)
	}
	return nil
}

// stopped stops a daemon that cannot be reached, for the given reason: nil if no daemon listens. Such
// a daemon holds the lock of the state directory while it exits, which stopped waits for, or if it
// is frozen or its socket was removed.
func (a *app) stopped(cfg config.Config, wait time.Duration, reason error) error {
	h, held := place.FindHolder(cfg.StateDir)
	if !held || !isMeant(cfg, h) {
		if reason != nil {
			return errors.Unwrap(reason) // the hint of noAnswer names this command
		}
		a.Stderr.Line("trl: " + noDaemon(cfg).Error())
		return nil
	}
	gone, err := watchProcess(h.PID)
	if err == nil && !h.Stopping {
		// The lock is held, so the process id in it is still that of the daemon.
		if _, held = place.FindHolder(cfg.StateDir); held {
			err = terminate(h.PID)
		}
	}
	if err == nil {
		err = gone(wait)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return withKillHint(fmt.Errorf("daemon with pid %d: still running after %s: %w", h.PID, wait, err), h.PID)
	}
	return nil
}

// terminate sends SIGTERM, and SIGCONT so that a process that was stopped receives it.
func terminate(pid int) error {
	err := unix.Kill(pid, unix.SIGTERM)
	if err == nil {
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	return err
}

func withKillHint(err error, pid int) error {
	return ui.WithHint(err, "`kill -9 %d` ends it at once; its sessions keep running, and the next daemon finds them", pid)
}
