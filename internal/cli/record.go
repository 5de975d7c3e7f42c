package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/attach"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) recordCommand() *cobra.Command {
	var (
		f        terminalFlags
		p        api.SessionCreateParams
		output   string
		env      ui.EnvFlag
		withKeys bool
		limits   limitFlags
	)
	cmd := &cobra.Command{
		Use:     "record [flags] [--] [PROGRAM...]",
		GroupID: groupTerminals,
		Short:   "Record a terminal into a file",
		Long: `Start PROGRAM, or else your shell, in a terminal, attach to it, and write a recording of it
when it has ended: an asciicast (version 3), for trl play and every other player. Flags end
at the first word of the program. trl runs a program with arguments directly; a single
argument that is more than a word is shell text.

trl does not record your input, unless you use --input; passwords are then in the file too.
Only you can read the file. When you detach with Ctrl-\, the terminal keeps running and is
still recorded; trl export --cast writes the file later.

Without a terminal of your own, PROGRAM is necessary; it runs in one of 80 columns.

Exit status: the program's own, even if the recording stopped early; trl reports that.`,
		Example: `  trl record                           your shell, until exit
  trl record -o demo.cast -- vim notes
  trl record 'make test | tee log'
  trl play demo.cast`,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, person := a.Terminal()
			if !person && len(args) == 0 {
				return ui.UsageErrorf(cmd, "your shell needs a terminal in which you type; name a PROGRAM to record it without one")
			}
			if person {
				if err := ui.CheckWindow("trl record", "if your terminal can do more: TERM=xterm trl record …"); err != nil {
					return err
				}
			}
			keys, err := a.detachKey(cmd)
			if err != nil {
				return err
			}
			place, err := a.likeOurs(p.WorkingDir, "")
			if err != nil {
				return err
			}
			p.WorkingDir, p.PreferShell, p.Env, p.Record, p.RecordInput = place.WorkingDir, place.PreferShell, place.Env, true, withKeys
			a.fillPlace(&p)
			limits.fill(&p)
			if p.Command, err = a.program(cmd, args, ""); err != nil {
				return err
			}
			if err := errors.Join(f.fill(a, cmd, &p), checkWords(args)); err != nil {
				return err
			}
			for k, v := range env {
				p.Env[k] = v
			}
			if output == "" {
				output = recordingName(p)
			}
			if _, err := os.Stat(output); output != "-" && err == nil {
				return fmt.Errorf("%s: already exists", output)
			}
			if _, err := os.Stat(filepath.Dir(output)); err != nil { // fail now, not after the recording
				return asNamed(output, "", err)
			}
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				info, err := a.createSession(ctx, c, p)
				if err != nil {
					return err
				}
				return a.record(cmd, c, attach.Options{Session: info.SessionID, Name: nameOf(info), Keys: keys, Fresh: true}, output)
			})
		},
	}
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.SortFlags = false
	flags.StringVarP(&output, "output", "o", "", "write to this `FILE`, - for stdout (default: one named after the program and the time)")
	flags.BoolVar(&withKeys, "input", false, "also record what is typed, including passwords")
	flags.StringVar(&p.Name, "name", "", "`NAME` of the session")
	flags.Var((*ui.DirFlag)(&p.WorkingDir), "cwd", "`DIR` in which it starts (default: yours)")
	flags.VarP(&env, "env", "e", "set a variable; KEY alone passes yours on")
	a.registerPlace(cmd)
	a.registerBeside(cmd)
	limits.register(flags, "the terminal")
	limits.resources.register(flags, "the terminal")
	f.register(flags)
	registerDetachKey(flags)
	_ = cmd.MarkFlagDirname("cwd")
	return cmd
}

// recordingName returns the name of a recording if the user gave none.
func recordingName(p api.SessionCreateParams) string {
	what := p.Shell
	if len(p.Command) > 0 {
		what = p.Command[0]
	}
	if what = filepath.Base(what); what == "." || what == "/" {
		what = "terminal"
	}
	return what + time.Now().Format("-20060102-150405") + ".cast"
}

// record shows the terminal, or waits for its end if there is no person, and writes the file.
func (a *app) record(cmd *cobra.Command, c *client.Client, o attach.Options, output string) error {
	var result error
	if _, person := a.Terminal(); person {
		result = attach.Run(cmd.Context(), a.Streams, c, o)
	} else {
		ctx, answer := interruptible(cmd.Context())
		result = answer(a.waitForEnd(ctx, c, o.Session))
	}
	var f *ui.Failure
	if result != nil && !(errors.As(result, &f) && f.Err == nil) {
		return result
	}
	ctx := context.WithoutCancel(cmd.Context())
	info, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: o.Session})
	if err != nil {
		return err
	}
	if info.ExitCode == nil {
		a.Stderr.Line(a.Stderr.Paint(ui.Dim, fmt.Sprintf("trl: the recording continues; `trl export %s --cast -o %s` writes the file", o.Name, output)))
		return result
	}
	err = a.writeTo(output, func(w io.Writer) error {
		_, err := io.Copy(w, &recorded{ctx: ctx, client: c, session: o.Session})
		return err
	})
	if err != nil {
		return ui.WithHint(err, "`trl export %s --cast -o FILE` writes it elsewhere", o.Session)
	}
	if output != "-" {
		a.Stderr.Line(a.Stderr.Paint(ui.Dim, "trl: recorded to "+output))
	}
	if t := info.Terminal; t != nil && t.Recording != nil && t.Recording.Stopped != "" {
		a.Stderr.Line(a.Stderr.Paint(ui.Yellow, "trl: recording stopped: "+t.Recording.Stopped+"; it lacks all later output"))
	}
	return result
}

// waitForEnd waits until the program has ended, and returns its exit status as an error.
func (a *app) waitForEnd(ctx context.Context, c *client.Client, session string) error {
	res, err := c.SessionWait(ctx, api.SessionWaitParams{SessionID: session, Exit: true})
	switch {
	case ctx.Err() != nil: // interrupted: no other client knows of the session
		_, _ = c.SessionDestroy(context.WithoutCancel(ctx), api.SessionDestroyParams{SessionID: session})
		return ui.ExitWith(api.ExitCancelled)
	case err != nil:
		return err
	case res.ExitCode == nil:
		return nil
	}
	return ui.ExitWith(*res.ExitCode)
}
