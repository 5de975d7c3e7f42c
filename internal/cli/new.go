package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
)

func (a *app) newCommand() *cobra.Command {
	var (
		p       api.SessionCreateParams
		env     envFlag
		timeout secondsFlag
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:     "new [NAME]",
		GroupID: groupSessions,
		Short:   "Start a session and print its id",
		Long: `Start a session and print its id. It begins with your directory and environment.
Wherever a command asks for a session, NAME and id both do.

The shell's start-up files are not read, unless --login or --rc asks for it.`,
		Example: `  trl new build                        then: trl run -s build make
  trl new --shell fish --cwd /tmp
  trl new web -e PORT=8080 --tag demo --timeout 10m`,
		Args: takes(0, 1, "at most one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				p.Name = args[0]
			}
			if _, err := a.settings(cmd); err != nil { // they tell where the session will be
				return err
			}
			place, err := a.likeOurs(p.WorkingDir, p.Shell)
			if err != nil {
				return err
			}
			p.WorkingDir, p.Shell, p.Env = place.WorkingDir, place.Shell, place.Env
			for k, v := range env {
				p.Env[k] = v
			}
			p.TimeoutS = timeout.s
			c, err := a.connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			info, err := c.SessionCreate(cmd.Context(), p)
			if err != nil {
				return err
			}
			if asJSON {
				return a.stdout.json(info)
			}
			a.stdout.line(info.SessionID)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&p.Shell, "shell", "", "`SHELL` by name or path (default: the daemon's)")
	flags.StringVar(&p.WorkingDir, "cwd", "", "`DIR` where it begins (default: yours)")
	flags.VarP(&env, "env", "e", "set a variable; KEY alone passes yours on")
	flags.Var(&timeout, "timeout", "end each of its commands after this time (30, 1.5s, 2m; 0 is never)")
	flags.StringArrayVar(&p.Tags, "tag", nil, "a free `WORD` to tell sessions apart; may be repeated")
	flags.BoolVar(&p.Login, "login", false, "start a login shell")
	flags.BoolVar(&p.RC, "rc", false, "read the shell's rc files")
	flags.BoolVar(&asJSON, "json", false, "print the session as JSON")
	a.completeFlag(cmd, "shell", completeShells)
	_ = cmd.MarkFlagDirname("cwd")
	return cmd
}

// likeOurs asks for a session like the caller's own shell, in dir when that is given. One
// on another machine has its own environment and directories, and the caller's secrets
// are not for it.
func (a *app) likeOurs(dir, shell string) (api.SessionCreateParams, error) {
	p := api.SessionCreateParams{Shell: shell, WorkingDir: dir, Env: map[string]string{}}
	if a.sameMachine() {
		var err error
		if p.WorkingDir, err = filepath.Abs(dir); err != nil {
			return p, err
		}
		if p.Shell, err = shellFlag(shell); err != nil {
			return p, err
		}
		p.Env = callerEnv()
	}
	return p, checkText("directory", p.WorkingDir)
}
