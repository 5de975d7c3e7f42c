package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/chat"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// groupOne is the only group of subcommands.
const groupOne = "one"

func (a *app) dialogueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dialogue",
		Aliases: []string{"dlg"},
		GroupID: groupDialogues,
		Short:   "Inspect dialogues with agents, and drive them from scripts",
		Long: `Inspect dialogues with coding agents, and drive them from scripts. trl chat is for people,
and starts dialogues. Every command accepts the name or the id of a dialogue.`,
		Example: `  trl dialogue ls
  trl dialogue show fix
  trl dialogue send fix 'and now the tests'
  trl dialogue respond fix allow       when it waits for an answer
  trl dialogue stop fix`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddGroup(&cobra.Group{ID: groupOne, Title: "Commands:"})
	cmd.AddCommand(
		a.dialogueListCommand(), a.dialogueRequestsCommand(), a.dialogueInfoCommand(), a.dialogueShowCommand(), a.dialogueEventsCommand(), a.dialogueSearchCommand(), a.dialogueLinesCommand(), a.dialogueRawCommand(),
		a.dialogueSendCommand(), a.dialogueUnsendCommand(), a.dialogueRespondCommand(), a.dialogueInterruptCommand(), a.dialogueSetCommand(),
		a.dialogueStopCommand(), a.dialogueResumeCommand(), a.dialogueRetryCommand(), a.dialogueRemoveCommand(),
	)
	for _, sub := range cmd.Commands() {
		sub.GroupID = groupOne
	}
	return cmd
}

func (a *app) dialogueListCommand() *cobra.Command {
	var (
		f listFlags
		p api.DialogueListParams
	)
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the dialogues",
		Long: `List the dialogues whose agents run, oldest first; with -a also ended ones.

On a terminal this is a table. Elsewhere it is one line for each, without a header: name,
id, agent, state, turns, cost in dollars as the agent reports it, last activity (RFC 3339),
session, directory, separated by tabs; a field without a value is "-".`,
		Example: `  trl dialogue ls
  trl dialogue ls -a --tag nightly
  trl dialogue ls --json | jq -r '.dialogues[] | select(.requests > 0).dialogue_id'`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				res, err := listDialogues(ctx, c, p)
				if err != nil {
					return err
				}
				if !f.all && p.State == "" {
					res.Dialogues = slices.DeleteFunc(res.Dialogues, func(d api.DialogueInfo) bool { return d.State == api.DialogueEnded })
				}
				return printList(a.Stdout, f, res, res.Dialogues, func(d api.DialogueInfo) string { return d.DialogueID }, a.printDialogues)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	f.register(flags, func() {
		flags.StringArrayVar(&p.Tags, "tag", nil, "only those with this `WORD`; may be repeated")
		flags.StringVar((*string)(&p.State), "state", "", "only those in this `STATE`, such as requires_action")
	})
	states := []string{"starting", "idle", "running", "requires_action", "error", "ended"}
	a.completeFlag(cmd, "state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) printDialogues(list []api.DialogueInfo) error {
	if len(list) == 0 {
		if a.Stdout.TTY {
			a.Stdout.Line("no dialogues")
		}
		return nil
	}
	t := ui.Table{Header: []string{"NAME", "ID", "AGENT", "STATE", "TURNS", "COST", "ACTIVE", "SESSION", "DIRECTORY"}}
	for _, d := range list {
		t.Add(ui.Text(d.Name), ui.Text(d.DialogueID), ui.Text(d.Agent), dialogueStateCell(d), ui.Text(strconv.Itoa(d.Turns)), ui.Text(costText(d.Usage, a.Stdout.TTY)),
			ui.Text(a.Stdout.When(d.LastActivity)), ui.Text(d.SessionID), ui.Text(d.WorkingDir))
	}
	a.Stdout.Table(t)
	return nil
}

// dialogueStateCell colours the state of a dialogue. States that need a person are red.
func dialogueStateCell(d api.DialogueInfo) ui.Cell {
	switch d.State {
	case api.DialogueIdle:
		return ui.Painted(string(d.State), ui.Green)
	case api.DialogueRunning:
		return ui.Painted(string(d.State), ui.Yellow)
	case api.DialogueRequiresAction, api.DialogueError:
		return ui.Painted(string(d.State), ui.Red)
	}
	return ui.Painted(string(d.State), ui.Dim)
}

// costText returns the cost that the agent reports.
func costText(u api.DialogueUsage, tty bool) string {
	switch {
	case u.CostUSD == nil:
		return ""
	case tty:
		return fmt.Sprintf("$%.2f", *u.CostUSD)
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.6f", *u.CostUSD), "0"), ".")
}

func (a *app) dialogueInfoCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info DIALOGUE",
		Short: "Show everything about a dialogue",
		Long: `Show everything about a dialogue: its agent, its state, its usage, and how it ended.
trl dialogue show prints the transcript.`,
		Example: `  trl dialogue info fix
  trl dialogue info fix --json | jq .native_session`,
		Args: ui.Args(1, 1, "one dialogue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.ofDialogue(cmd, asJSON, func(ctx context.Context, c *client.Client) (api.DialogueInfo, error) {
				return c.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: args[0]})
			})
			if err == nil && !asJSON {
				a.Stdout.Facts(a.dialogueFacts(d))
			}
			return err
		},
		ValidArgsFunction: a.completeDialogues,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// ofDialogue makes a call that returns a dialogue, and prints the dialogue if asJSON.
func (a *app) ofDialogue(cmd *cobra.Command, asJSON bool, call func(context.Context, *client.Client) (api.DialogueInfo, error)) (api.DialogueInfo, error) {
	var d api.DialogueInfo
	err := a.withClient(cmd, func(ctx context.Context, c *client.Client) (err error) {
		if d, err = call(ctx, c); err == nil && asJSON {
			err = a.Stdout.JSON(d)
		}
		return err
	})
	return d, err
}

func (a *app) dialogueFacts(d api.DialogueInfo) [][2]string {
	var facts [][2]string
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, value})
		}
	}
	add("id", d.DialogueID)
	add("name", d.Name)
	add("title", d.Title)
	add("agent", strings.TrimSpace(d.Agent+" "+d.Version))
	add("state", string(d.State))
	if d.StalledAt != nil {
		add("silent since", a.Stdout.When(*d.StalledAt))
	}
	if d.LostAt != nil {
		add("out of reach since", a.Stdout.When(*d.LostAt))
	}
	if d.Error != nil {
		add("error", fmt.Sprintf("%s: %s", d.Error.Reason, d.Error.Message))
	}
	if d.Ended != nil {
		add("ended", chat.EndedText(*d.Ended))
	}
	add("waiting requests", nonZero(int64(d.Requests)))
	add("running tasks", nonZero(int64(d.Tasks)))
	add("in the background", nonZero(int64(d.BackgroundTasks)))
	add("session", d.SessionID)
	add("agent's session", d.NativeSession)
	add("model", d.Model)
	add("permission mode", d.PermissionMode)
	add("directory", d.WorkingDir)
	add("runtime", d.Runtime)
	add("tags", strings.Join(d.Tags, " "))
	add("turns", strconv.Itoa(d.Turns))
	add("processes", strconv.Itoa(d.Epoch))
	add("events", strconv.FormatInt(d.Seq, 10))
	add("tokens in", strconv.FormatInt(d.Usage.InputTokens, 10))
	add("tokens out", strconv.FormatInt(d.Usage.OutputTokens, 10))
	add("tokens cached", fmt.Sprintf("%d read, %d written", d.Usage.CacheReadTokens, d.Usage.CacheWriteTokens))
	add("cost", ui.Prefixed("$", costText(d.Usage, false)))
	add("created", a.Stdout.When(d.CreatedAt))
	add("active", a.Stdout.When(d.LastActivity))
	return facts
}

// completeDialogues offers the names and ids of all dialogues, for one argument.
func (a *app) completeDialogues(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeManyDialogues(cmd, args, prefix)
}

// completeManyDialogues offers the names and ids of all dialogues, for any argument.
func (a *app) completeManyDialogues(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.completeSomeDialogues(cmd, prefix, func(api.DialogueInfo) bool { return true })
}

// completeLiving offers the dialogues whose agents run.
func (a *app) completeLiving(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if cmd.Name() != "chat" && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeSomeDialogues(cmd, prefix, func(d api.DialogueInfo) bool { return d.State != api.DialogueEnded })
}

// completeEnded offers the dialogues that can be resumed.
func (a *app) completeEnded(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if cmd.Name() != "chat" && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeSomeDialogues(cmd, prefix, func(d api.DialogueInfo) bool { return d.State == api.DialogueEnded })
}

func (a *app) completeSomeDialogues(cmd *cobra.Command, prefix string, wanted func(api.DialogueInfo) bool) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list []cobra.Completion
	a.askRunning(cmd, func(ctx context.Context, c *client.Client) {
		res, err := listDialogues(ctx, c, api.DialogueListParams{})
		if err != nil {
			return
		}
		for _, d := range res.Dialogues {
			if !wanted(d) {
				continue
			}
			about := fmt.Sprintf("%s, %s in %s", d.Agent, d.State, ui.Printable(d.WorkingDir))
			if d.Name != "" {
				list = append(list, cobra.CompletionWithDesc(d.Name, about))
			}
			if d.Name == "" || strings.HasPrefix(prefix, "d-") {
				list = append(list, cobra.CompletionWithDesc(d.DialogueID, about))
			}
		}
	})
	return keep(list, prefix), cobra.ShellCompDirectiveNoFileComp
}
