package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/daemon"
)

func (a *app) serveCommand() *cobra.Command {
	var stdio, check, background bool
	var readyFD int
	cmd := &cobra.Command{
		Use:     "serve",
		GroupID: groupDaemon,
		Short:   "Run the daemon in the foreground",
		Long: `Run the daemon in the foreground. SIGTERM or Ctrl-C ends it, and all its sessions
with every process in them, unless keep_sessions is set. Its log goes to stderr.

You seldom need this: other commands start a daemon in the background if none runs. Such
a daemon exits after 5 minutes without sessions and callers, and logs to trl.log in the
state directory. --background does the same and prints the path of the socket, whether
the daemon is new or was already running, so that programs can find it.

SIGUSR2 makes the daemon replace itself with the current content of its file; see trl
upgrade.

With --http it also serves HTTP, and with --grpc gRPC, to callers with a token: the one in
TRL_AUTH_TOKEN, or in the file token in the state directory, which the first start creates.

With --stdio one client speaks the protocol on stdin and stdout. After the end of its
input the daemon closes the stdin of commands with stdin_open and of sessions of the kind
program, answers every request and streams commands until they exit; then it ends
subscriptions, its sessions and itself. A timeout_s limits how long that takes. If its
stdout is closed, and at SIGTERM, the daemon ends at once.

Each setting below may also come from the environment (the name in brackets) or from the
configuration file. trl config shows the effective values.`,
		Example: `  trl serve
  trl serve --background
  trl serve --max-sessions 200 --idle-timeout-s 10m
  trl serve --socket /run/me/trl.sock --log-level debug
  trl serve --http 127.0.0.1:7330 --grpc 127.0.0.1:7331
  echo '{"id":1,"method":"system.ping"}' | trl serve --stdio`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			if check {
				return a.Stdout.JSON(daemon.Self())
			}
			if background {
				return a.serveInBackground(cmd)
			}
			o := daemon.Options{Logger: a.logger(cfg), Stdio: stdio}
			if stdio {
				o.Stdin, o.Stdout = a.Stdin, a.Stdout.File
				widen(a.Stdin)
				widen(a.Stdout.File)
			}
			if cmd.Flags().Changed("ready-fd") {
				o.ReadyFD = readyFD
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			err = daemon.Run(ctx, cfg, o)
			if errors.Is(err, daemon.ErrRunning) && o.ReadyFD > 0 { // see autostart
				err = &ui.Failure{Err: err, Status: ui.ExitRunning}
			}
			if err == nil || stdio {
				return err
			}
			if c, dialErr := a.dialSocket(cmd.Context(), cfg); dialErr == nil {
				info, _ := c.SystemInfo(cmd.Context(), api.SystemInfoParams{})
				_ = c.Close()
				file := cmp.Or(info.ConfigFile, cfg.File())
				if f := cmd.Flags().Lookup("http"); f.Changed {
					return ui.WithHint(err, "`trl http on %s` makes the running daemon serve it; http = %q in its configuration file, %s, makes every later one serve it, too", f.Value, f.Value, file)
				}
				if f := cmd.Flags().Lookup("grpc"); f.Changed {
					return ui.WithHint(err, "the running daemon can serve it: put grpc = %q into its configuration file, %s, and run `trl upgrade`; its sessions stay", f.Value, file)
				}
				return ui.WithHint(err, "`trl stop` ends the running daemon and its sessions")
			}
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&stdio, "stdio", false, "serve one client on stdin and stdout instead of a socket")
	flags.BoolVar(&background, "background", false, "start the daemon in the background unless one runs, and print the path of its socket")
	flags.IntVar(&readyFD, "ready-fd", 0, "write \"ready\" to this file `DESCRIPTOR` once the daemon serves")
	flags.BoolVar(&check, daemon.CheckFlag, false, "check the settings, print the version, and exit")
	registerServeSettings(flags)
	cmd.MarkFlagsMutuallyExclusive("background", "stdio")
	cmd.MarkFlagsMutuallyExclusive("background", "ready-fd")
	return cmd
}

// serveInBackground makes sure that a daemon runs and prints its socket. It accepts only the
// settings that every command has: a daemon that is already running would ignore the others.
func (a *app) serveInBackground(cmd *cobra.Command) error {
	var given []string
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "background" {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) > 0 {
		return &ui.Failure{Err: fmt.Errorf("%s: cannot be given together with --background", strings.Join(given, ", ")),
			Status: ui.ExitUsage, Hint: "put settings into the configuration file; `trl config` prints its path"}
	}
	return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
		a.Stdout.Line(c.Socket())
		return nil
	})
}

// logger writes to stderr: text for a person, JSON for a program.
func (a *app) logger(cfg config.Config) *slog.Logger {
	o := &slog.HandlerOptions{Level: cfg.Level()}
	if a.Stderr.TTY {
		return slog.New(slog.NewTextHandler(a.Stderr.File, o))
	}
	return slog.New(slog.NewJSONHandler(a.Stderr.File, o))
}
