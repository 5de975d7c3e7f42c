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
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/place"
)

// lasting are the commands that go on when the daemon restarts. Any other command fails at
// once when it loses the daemon.
var lasting = map[string]bool{"run": true, "logs": true, "wait": true, "input": true, "events": true, "mcp": true, "chat": true, "raw": true}

// afresh are the commands that start a daemon even after the last one was stopped on purpose,
// because each request that they get is like a new command.
var afresh = map[string]bool{"mcp": true}

// observing are the commands that show the state of a daemon itself, which a new daemon does not
// have, so they start none. Each has a hint for the case that no daemon runs.
var observing = map[string]string{
	"config": "`trl serve` starts one; `trl config` shows the settings that it would have",
	"log":    "`trl serve` starts one; the file that `trl help files` names has the log of earlier ones",
	"web":    "`trl open` starts one and opens the console in a browser",
}

// connect returns a client of this user's daemon, and starts one in the background if none runs;
// or, if the user gave a URL, a client of the daemon there.
func (a *app) connect(cmd *cobra.Command) (*client.Client, error) {
	cfg, err := a.settings(cmd)
	if err != nil {
		return nil, err
	}
	a.stateDir = cfg.StateDir
	ctx := cmd.Context()
	hint := observing[cmd.Name()]
	if a.noStart && hint == "" {
		hint = "start one with `trl serve`, or leave out --no-start"
	}
	dial := a.dial
	if hint != "" {
		dial = a.dialRunning
	}
	c, err := dial(ctx, cfg)
	switch {
	case err == nil:
	case !isAbsent(err):
		return nil, err
	case client.IsGRPC(a.url):
		return nil, ui.WithHint(err, "`trl serve --grpc ADDRESS` serves gRPC")
	case a.url != "":
		return nil, ui.WithHint(err, "`trl http on` or `trl serve --http ADDRESS`, on that machine, serves HTTP")
	case hint != "":
		return nil, notReached(cfg, hint)
	default:
		if c, err = a.autostart(ctx, cmd, cfg); err != nil {
			return nil, err
		}
	}
	if a.url == "" && hint == "" {
		c.Revive = func(ctx context.Context) error { return a.revive(ctx, cmd, cfg) }
		if afresh[cmd.Name()] {
			c.Stopped = func() bool { return wasStopped(cfg) }
		}
	}
	if lasting[cmd.Name()] {
		c.ReconnectFor = ui.SearchTime
	}
	return c, nil
}

// withClient connects to the daemon as connect does, calls do, and closes the connection.
func (a *app) withClient(cmd *cobra.Command, do func(context.Context, *client.Client) error) error {
	c, err := a.connect(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(cmd.Context(), c)
}

// withClientUntilSignal is withClient for a command that only watches: a signal ends the context
// of do, and the command then exits with the status of that signal.
func (a *app) withClientUntilSignal(cmd *cobra.Command, do func(context.Context, *client.Client) error) error {
	return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
		ctx, answer := interruptible(ctx)
		return answer(do(ctx, c))
	})
}

// connectRunning returns a client of the running daemon, nil if none runs.
func (a *app) connectRunning(cmd *cobra.Command) (*client.Client, config.Config, error) {
	cfg, err := a.settings(cmd)
	if err != nil {
		return nil, cfg, err
	}
	c, err := a.dialRunning(cmd.Context(), cfg)
	if isAbsent(err) {
		return nil, cfg, nil
	}
	return c, cfg, err
}

// dialRunning is dial for a command that starts no daemon. A daemon that closes the connection without an
// answer either ends or replaces itself. If it replaces itself, the next connection waits for its
// successor.
func (a *app) dialRunning(ctx context.Context, cfg config.Config) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var pause ui.Backoff
	for {
		c, err := a.dial(ctx, cfg)
		if !errors.Is(err, errGone) || pause.Wait(ctx) != nil {
			return c, err
		}
	}
}

// dial connects to the daemon at the URL, if there is one, or on the socket.
func (a *app) dial(ctx context.Context, cfg config.Config) (*client.Client, error) {
	if a.url == "" {
		return a.dialSocket(ctx, cfg)
	}
	file := cfg.TokenFile
	if file == "" {
		file = filepath.Join(cfg.StateDir, "token")
	}
	token, err := client.Token(a.url, file)
	if err != nil {
		return nil, err
	}
	c, err := client.DialURL(ctx, a.url, token)
	if err != nil {
		return nil, err
	}
	c.ReconnectFor = 0
	return c, nil
}

// hello names the connection after this machine, so that other clients see who answered an agent. Over
// HTTP a connection has no name, and neither has one to an older daemon.
func hello(ctx context.Context, c *client.Client) {
	name, err := os.Hostname()
	if err != nil {
		return
	}
	_, _ = c.SystemHello(ctx, api.SystemHelloParams{Label: "cli@" + name[:min(len(name), api.MaxLabel-len("cli@"))]})
}

// sameMachine reports whether the daemon is on this machine: then paths and variables of the
// caller mean the same to it.
func (a *app) sameMachine() bool { return client.IsLocal(a.url) }

// notReached returns the error of a command that starts no daemon. The daemon may run without a
// socket, if it is frozen or cannot write to the directory; then another could not start.
func notReached(cfg config.Config, hint string) error {
	if h, held := place.FindHolder(cfg.StateDir); held && !h.Stopping && isMeant(cfg, h) {
		return noAnswer(h.PID, h.Socket)
	}
	return ui.WithHint(noDaemon(cfg), "%s", hint)
}

func noDaemon(cfg config.Config) error {
	return fmt.Errorf("no daemon is running on %s", cfg.Socket)
}

// dialSocket connects and waits for one answer: a daemon that is about to exit may never accept a
// connection that waits in its queue. Once it has answered, it counts the connection and stays. A
// daemon that starts may take startTimeout for that answer; one that takes longer is frozen.
func (a *app) dialSocket(ctx context.Context, cfg config.Config) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var c *client.Client
	var err error
	if cfg.Origin("socket") == config.OriginDefault {
		c, err = client.DialUser(ctx, cfg.StateDir)
	} else {
		c, err = client.Dial(ctx, cfg.Socket)
	}
	if errors.Is(err, place.ErrStranger) {
		return nil, ui.WithHint(err, "set TRL_SOCKET_PATH to a place of your own")
	}
	if errors.Is(err, syscall.EACCES) {
		return nil, ui.WithHint(err, "only the user of a daemon can use its socket; `trl config` shows where its path comes from")
	}
	if err != nil {
		return nil, err
	}
	c.ReconnectFor = 0
	if a.first != nil {
		err = a.first(ctx, c)
	} else {
		_, err = c.SystemPing(ctx, api.SystemPingParams{})
	}
	if err == nil {
		return c, nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = unanswered(cfg, c)
	} else if errors.Is(err, api.ErrRuntimeUnavailable) {
		err = fmt.Errorf("%w: %w", errGone, err)
	}
	_ = c.Close()
	return nil, err
}

// unanswered returns the error for a daemon that accepts connections and does not answer. The process
// at the other end of the socket may be the service manager that made it, so the lock of the state
// directory counts more.
func unanswered(cfg config.Config, c *client.Client) error {
	if h, held := place.FindHolder(cfg.StateDir); held && isMeant(cfg, h) {
		return noAnswer(h.PID, h.Socket)
	}
	pid, _ := c.PeerPID()
	return noAnswer(pid, c.Socket())
}

// errGone is the error of a daemon that exited without an answer.
var errGone = errors.New("the daemon closed the connection")

// isAbsent reports whether the error of dial means that no daemon runs.
func isAbsent(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errGone)
}
