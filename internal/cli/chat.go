package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/chat"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// chatFlags are the flags of `trl chat`.
type chatFlags struct {
	create  api.DialogueCreateParams
	remote  api.DialogueRemote
	env     ui.EnvFlag
	limits  limitFlags
	policy  policyFlags
	join    string // name or id of a running dialogue
	resume  string // name or id of an ended dialogue
	timeout ui.SecondsFlag
	print   bool
	stdin   bool
	keep    bool
	json    bool
}

func (a *app) chatCommand() *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:     "chat [flags] [PROMPT] [-- PROGRAM...]",
		GroupID: groupDialogues,
		Short:   "Talk with a coding agent",
		Long: `Talk with a coding agent: Claude Code, Codex, or any that speaks the Agent Client
Protocol. It starts in your directory and with your environment. Its program is claude or
codex on the PATH, or PROGRAM.

On a terminal you type messages, even while the agent works; the agent then queues them.
Alt-Enter, or a \ at the end of a line, starts another line; pasted lines stay together; the
arrows recall earlier lines; Tab completes /commands. /retry tries again to reach the agent,
and /model NAME changes the model.
When the agent asks for permission, y is yes, a always, n no, and e edits the input first;
any other text is a no, and goes to the agent. Ctrl-C interrupts the agent, and a second one
leaves, as Ctrl-D and /exit do. Leaving ends the agent, unless you use --keep; --resume
continues the dialogue later.

With -p, or without a terminal, trl prints the answer to PROMPT and asks no questions: it
denies every request that no --allow matches. A rule is a tool and, in parentheses, a
pattern for its subject: "Bash(git *)", "Read", "*"; the first match decides.

Exit status of -p: 0 the agent has answered; 1 it failed, or its program ended; 124 it did
not answer within --timeout; 130 it was interrupted; otherwise as trl run.`,
		Example: `  trl chat                             in this directory, with claude
  trl chat --agent codex 'fix the failing test'
  trl chat -p 'what does main.go do?'
  git diff | trl chat -p -i 'review this:'
  trl chat -p --allow 'Bash(git *)' --allow Read 'what changed this week?'
  trl chat --keep --name fix           and later: trl chat --dialogue fix
  trl chat --resume d-3f9a1c02de
  trl chat --agent acp -- gemini --acp
  trl chat --remote grpcs://box.example:7331 --remote-token-file box.token`,
		RunE: func(cmd *cobra.Command, args []string) error {
			words := args
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				words = args[:dash]
				if f.create.Argv = args[dash:]; len(f.create.Argv) == 0 {
					return ui.UsageErrorf(cmd, "the program after -- is missing")
				}
			}
			r := &chatRun{app: a, cmd: cmd, flags: &f, prompt: strings.Join(words, " ")}
			return r.start()
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.create.Agent, "agent", "claude", "protocol of the `AGENT`: claude, codex or acp")
	flags.StringVar(&f.create.Model, "model", "", "`MODEL` to use (default: the agent's)")
	flags.StringVar(&f.create.PermissionMode, "permission-mode", "", "`MODE` in the agent's words, such as acceptEdits or plan (default: the agent's)")
	flags.Var((*ui.DirFlag)(&f.create.WorkingDir), "cwd", "`DIR` in which the agent works (default: yours)")
	flags.VarP(&f.env, "env", "e", "set a variable for the agent; KEY alone passes yours on")
	flags.StringVar(&f.create.Name, "name", "", "a `NAME` for the dialogue")
	flags.StringArrayVar(&f.create.Tags, "tag", nil, "a `WORD` of your choice to group dialogues; may be repeated")
	flags.Var(&f.limits.lifetime, "lifetime", "end the agent after this time, even while it works (30, 1.5s, 2m; 0 is never)")
	flags.Var(&f.limits.idleTimeout, "idle-timeout", "with --keep, end the agent when no client has followed the dialogue for this time (0 is never)")
	f.limits.resources.register(flags, "the agent")
	a.registerPlace(cmd)
	f.policy.register(flags)
	flags.BoolVarP(&f.print, "print", "p", false, "print the answer to PROMPT and leave")
	flags.BoolVarP(&f.stdin, "stdin", "i", false, "add your stdin to PROMPT")
	flags.Var(&f.timeout, "timeout", "with -p, leave after this time (30, 1.5s, 2m; 0 is never)")
	flags.StringVar(&f.join, "dialogue", "", "join the running dialogue of this `NAME` or id; its agent keeps running when you leave")
	flags.StringVar(&f.resume, "resume", "", "start the agent of an ended `DIALOGUE` again")
	flags.BoolVar(&f.keep, "keep", false, "do not end the agent when you leave")
	flags.BoolVar(&f.json, "json", false, "print each event as a line of JSON; implies -p")
	flags.StringVar(&f.remote.Address, "remote", "", "run the agent on the daemon at this `ADDRESS`, such as grpcs://box.example:7331")
	flags.StringVar(&f.remote.TokenFile, "remote-token-file", "", "`FILE` with the token for that daemon")
	flags.StringVar(&f.remote.CAFile, "remote-ca-file", "", "`FILE` with CA certificates to verify the certificate of that daemon")
	flags.StringVar(&f.remote.CertFile, "remote-cert-file", "", "`FILE` with the client certificate for that daemon")
	flags.StringVar(&f.remote.KeyFile, "remote-key-file", "", "`FILE` with the key of the client certificate")
	flags.StringVar(&f.remote.ServerName, "remote-server-name", "", "`NAME` in the certificate of that daemon, if it differs from the address")
	a.completeFlag(cmd, "agent", cobra.FixedCompletions([]string{"claude", "codex", "acp"}, cobra.ShellCompDirectiveNoFileComp))
	a.completeFlag(cmd, "dialogue", a.completeLiving)
	a.completeFlag(cmd, "resume", a.completeEnded)
	_ = cmd.MarkFlagDirname("cwd")
	return cmd
}

// chatRun is one `trl chat`. It turns the flags into the options of package chat.
type chatRun struct {
	app    *app
	cmd    *cobra.Command
	flags  *chatFlags
	prompt string
}

func (r *chatRun) start() error {
	f := r.flags
	if err := r.check(); err != nil {
		return err
	}
	_, person := r.app.Terminal()
	person = person && !f.print && !f.json && !f.stdin
	if person && f.timeout.Value != nil {
		return ui.UsageErrorf(r.cmd, "--timeout needs -p")
	}
	if !person {
		if err := r.readPrompt(); err != nil {
			return err
		}
	}
	return r.app.withClient(r.cmd, func(ctx context.Context, c *client.Client) error {
		hello(ctx, c)
		return r.chat(ctx, c, person)
	})
}

// chat lets a person talk with the agent, or prints one answer for a program.
func (r *chatRun) chat(ctx context.Context, c *client.Client, person bool) error {
	f := r.flags
	o := chat.Options{
		Open:   func(ctx context.Context) (api.DialogueInfo, error) { return r.open(ctx, c) },
		Prompt: r.prompt, Joined: f.join != "", Keep: f.keep, JSON: f.json, Verbose: r.app.verbose,
	}
	if f.timeout.Value != nil {
		o.Timeout = time.Duration(*f.timeout.Value * float64(time.Second))
	}
	if person {
		return chat.Talk(ctx, r.app.Streams, c, o)
	}
	return chat.Answer(ctx, r.app.Streams, c, o)
}

func (r *chatRun) check() error {
	f, flags := r.flags, r.cmd.Flags()
	if f.join != "" && f.resume != "" {
		return ui.UsageErrorf(r.cmd, "--dialogue and --resume cannot be combined")
	}
	if f.join != "" || f.resume != "" {
		for _, name := range []string{"agent", "model", "permission-mode", "cwd", "name", "tag", "lifetime", "idle-timeout", "memory", "cpus", "pids", "remote", "on", "place"} {
			if flags.Changed(name) {
				return ui.UsageErrorf(r.cmd, "--%s is only for a new dialogue", name)
			}
		}
		if f.create.Argv != nil {
			return ui.UsageErrorf(r.cmd, "a program is only for a new dialogue")
		}
	}
	if f.join != "" && (f.env != nil || f.policy.given()) {
		return ui.UsageErrorf(r.cmd, "--env and rules are only for an agent that trl starts; see `trl dialogue set`")
	}
	if f.resume != "" && f.policy.given() {
		return ui.UsageErrorf(r.cmd, "rules are only for a new dialogue; see `trl dialogue set`")
	}
	if f.limits.idleTimeout.Value != nil && !f.keep {
		return ui.UsageErrorf(r.cmd, "--idle-timeout needs --keep; without that flag the agent ends when you leave")
	}
	if f.remote.Address != "" && (flags.Changed("on") || flags.Changed("place")) {
		return ui.UsageErrorf(r.cmd, "--remote and --on cannot be combined")
	}
	if f.remote.Address == "" && f.remote != (api.DialogueRemote{}) {
		return ui.UsageErrorf(r.cmd, "--remote-* flags need --remote")
	}
	return checkText("prompt", r.prompt)
}

// readPrompt reads the message from stdin, if the flags say that it is there.
func (r *chatRun) readPrompt() error {
	a := r.app
	onTerminal := term.IsTerminal(int(a.Stdin.Fd()))
	if !r.flags.stdin && (r.prompt != "" || onTerminal) {
		if r.prompt == "" {
			return ui.UsageErrorf(r.cmd, "PROMPT is missing")
		}
		return nil
	}
	text, err := a.readMessage()
	if err != nil {
		return err
	}
	if r.prompt != "" && len(text) > 0 {
		r.prompt += "\n\n"
	}
	if r.prompt += text; strings.TrimSpace(r.prompt) == "" {
		return ui.UsageErrorf(r.cmd, "PROMPT is missing")
	}
	return nil
}

// maxStdinText bounds the text that a command reads from stdin and sends in one call.
const maxStdinText = 16 << 20

// readMessage reads a message from stdin.
func (a *app) readMessage() (string, error) {
	text, err := io.ReadAll(io.LimitReader(a.Stdin, maxStdinText+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read stdin: %w", err)
	case len(text) > maxStdinText:
		return "", fmt.Errorf("stdin is larger than %s", ui.BytesText(maxStdinText))
	case !utf8.Valid(text):
		return "", errors.New("stdin is not UTF-8, and a message is text")
	}
	return string(text), nil
}

// open starts the agent, or finds the dialogue to join.
func (r *chatRun) open(ctx context.Context, c *client.Client) (info api.DialogueInfo, err error) {
	f := r.flags
	switch {
	case f.join != "":
		info, err = c.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: f.join})
		if err == nil && info.State == api.DialogueEnded {
			err = ui.WithHint(api.Errorf(api.CodeDialogueEnded, "dialogue %q: has ended", f.join), "`trl chat --resume %s` starts it again", f.join)
		}
		return info, err
	case f.resume != "":
		if info, err = c.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: f.resume}); err != nil {
			return info, err
		}
		env := r.app.agentEnv(f.env, r.app.isElsewhere(info))
		info, err = c.DialogueResume(ctx, api.DialogueResumeParams{DialogueID: f.resume, Env: env})
	default:
		var p api.DialogueCreateParams
		if p, err = r.params(); err != nil {
			return info, err
		}
		done := r.app.showSteps(ctx, c, p.CreateID)
		info, err = c.DialogueCreate(ctx, p)
		done()
		if err == nil && (p.Isolation != nil || p.Limits != nil && p.LimitsMode == api.LimitsBestEffort) {
			r.app.reportEnforcement(ctx, c, info.SessionID, p.IsolationMode == api.LimitsBestEffort)
		}
		err = agentHint(p, p.Remote == nil && r.app.samePlace(), err)
	}
	return info, r.app.agentFailed(err)
}

// params returns the request for a new agent, with the caller's directory and environment.
func (r *chatRun) params() (api.DialogueCreateParams, error) {
	f, a := r.flags, r.app
	p := f.create
	var err error
	if p.Policy, err = f.policy.policy(); err != nil {
		return p, err
	}
	p.LifetimeS = f.limits.lifetime.Value
	p.Limits, p.LimitsMode = f.limits.resources.limits()
	if !f.keep { // if trl is killed, the agent must not go on without a user
		p.LingerS = new(60.0)
	} else if idle := f.limits.idleTimeout.Value; idle != nil && *idle > 0 {
		p.LingerS = idle
	}
	elsewhere := f.remote.Address != "" || a.place.elsewhere
	p.Runtime, p.Place = a.place.on, a.place.options
	p.Isolation, p.IsolationMode = a.place.isolation()
	if a.place.elsewhere {
		p.CreateID = rand.Text()
	}
	if f.remote.Address != "" {
		p.Runtime, p.Place, p.CreateID = "remote", nil, ""
		remote := f.remote
		for _, file := range []*string{&remote.TokenFile, &remote.CAFile, &remote.CertFile, &remote.KeyFile} {
			if *file != "" && a.sameMachine() { // the daemon reads the files, and works in another directory
				*file, err = filepath.Abs(*file)
			}
			if err != nil {
				return p, err
			}
		}
		p.Remote = &remote
	}
	if a.sameMachine() && !elsewhere {
		if p.WorkingDir, err = filepath.Abs(p.WorkingDir); err != nil {
			return p, err
		}
	}
	p.Env = a.agentEnv(f.env, elsewhere)
	return p, errors.Join(checkText("directory", p.WorkingDir), checkWords(p.Argv))
}

// isElsewhere reports whether an agent runs in a place other than the daemon's machine, as far as
// the settings say it.
func (a *app) isElsewhere(info api.DialogueInfo) bool {
	kind, _, _ := api.ParsePlace(info.Runtime)
	return kind.Kind != api.PlaceHost && a.config.Runtimes[info.Runtime].Kind != api.PlaceHost
}

// agentEnv returns the environment of an agent: the caller's, unless the agent is on another
// machine, and the variables of the flags.
func (a *app) agentEnv(given ui.EnvFlag, elsewhere bool) map[string]string {
	env := map[string]string{}
	if a.sameMachine() && !elsewhere {
		env = callerEnv()
	}
	for k, v := range given {
		env[k] = v
	}
	return env
}

// agentFailed prints the stderr of an agent that did not start. It returns err.
func (a *app) agentFailed(err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeAgentFailed {
		return err
	}
	said, _ := e.Details["stderr"].(string)
	if said = strings.TrimSpace(said); said != "" && !strings.Contains(e.Message, ui.FirstLine(said)) {
		all := ui.Lines(ui.Clean(said))
		for _, l := range all[max(0, len(all)-20):] {
			a.Stderr.Line("  " + l)
		}
	}
	return err
}
