package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/chat"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) dialogueStopCommand() *cobra.Command {
	var all, force, asJSON bool
	cmd := &cobra.Command{
		Use:   "stop DIALOGUE...",
		Short: "End agents, with everything they started",
		Long: `End the programs of agents, with every process that they started. The transcript stays:
trl dialogue show prints it, and trl chat --resume continues it. trl asks an agent to exit,
waits some seconds, and then kills it. Prints each dialogue that has ended. A dialogue that
had already ended is not an error.`,
		Example: `  trl dialogue stop fix
  trl dialogue stop --force d-3f9a1c02de   SIGKILL at once
  trl dialogue stop --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return ui.UsageErrorf(cmd, "trl dialogue stop takes the dialogues to end, or --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				if all {
					res, err := listDialogues(ctx, c, api.DialogueListParams{})
					if err != nil {
						return err
					}
					for _, d := range res.Dialogues {
						if d.State != api.DialogueEnded {
							args = append(args, d.DialogueID)
						}
					}
				}
				return a.terminate(ctx, c, args, api.DialogueTerminateParams{Force: force}, asJSON)
			})
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.completeLiving(cmd, nil, prefix)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&all, "all", false, "end all agents")
	flags.BoolVarP(&force, "force", "f", false, "SIGKILL at once")
	flags.BoolVar(&asJSON, "json", false, "print the dialogues as JSON")
	return cmd
}

func (a *app) dialogueRemoveCommand() *cobra.Command {
	var force, asJSON bool
	cmd := &cobra.Command{
		Use:     "rm DIALOGUE...",
		Aliases: []string{"forget"},
		Short:   "End agents and delete their dialogues",
		Long: `End the programs of agents and delete the records of their dialogues. The agents' own
history stays. Prints each deleted dialogue.`,
		Example: `  trl dialogue rm fix
  trl dialogue ls -a -q --state ended | xargs trl dialogue rm`,
		Args: ui.Args(1, -1, "dialogues"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				return a.terminate(ctx, c, args, api.DialogueTerminateParams{Force: force, Forget: true}, asJSON)
			})
		},
		ValidArgsFunction: a.completeManyDialogues,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&force, "force", "f", false, "SIGKILL at once")
	flags.BoolVar(&asJSON, "json", false, "print the dialogues as JSON")
	return cmd
}

// terminate ends dialogues, all at the same time, and prints those that have ended.
func (a *app) terminate(ctx context.Context, c *client.Client, names []string, p api.DialogueTerminateParams, asJSON bool) error {
	end := func(name string) (api.DialogueInfo, error) {
		p := p
		p.DialogueID = name
		return c.DialogueTerminate(ctx, p)
	}
	ended := func(name string, _ api.DialogueInfo) { a.Stdout.Line(name) }
	return endEach(a.Stdout, names, end, ended, "dialogues", asJSON)
}

func (a *app) dialogueResumeCommand() *cobra.Command {
	var asJSON bool
	var env ui.EnvFlag
	cmd := &cobra.Command{
		Use:   "resume DIALOGUE [PROMPT...]",
		Short: "Start an ended agent again, in the same dialogue",
		Long: `Start the agent of an ended dialogue again. It remembers the conversation, and works in the
same directory, with your current environment. Prints the id of the dialogue.`,
		Example: `  trl dialogue resume fix
  trl dialogue resume fix 'go on'
  trl chat --resume fix                to talk with it`,
		Args: ui.Args(1, -1, "a dialogue, and a message"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := api.DialogueResumeParams{DialogueID: args[0], Prompt: strings.Join(args[1:], " ")}
			if err := checkText("message", p.Prompt); err != nil {
				return err
			}
			info, err := a.ofDialogue(cmd, asJSON, func(ctx context.Context, c *client.Client) (api.DialogueInfo, error) {
				info, err := c.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: p.DialogueID})
				if err != nil {
					return info, err
				}
				p.Env = a.agentEnv(env, a.isElsewhere(info))
				return c.DialogueResume(ctx, p)
			})
			if err == nil && !asJSON {
				a.Stdout.Line(info.DialogueID)
			}
			return a.agentFailed(err)
		},
		ValidArgsFunction: a.completeEnded,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VarP(&env, "env", "e", "set a variable for the agent; KEY alone passes yours on")
	flags.BoolVar(&asJSON, "json", false, "print the dialogue as JSON")
	return cmd
}

func (a *app) dialogueRetryCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "retry DIALOGUE",
		Short: "Try again to reach the agent of a dialogue",
		Long: `Try again to reach an agent on another machine, for a dialogue in state error.
trl dialogue info shows the reason for the error.`,
		Example: `  trl dialogue retry fix`,
		Args:    ui.Args(1, 1, "one dialogue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := a.ofDialogue(cmd, asJSON, func(ctx context.Context, c *client.Client) (api.DialogueInfo, error) {
				return c.DialogueRetry(ctx, api.DialogueRetryParams{DialogueID: args[0]})
			})
			if err == nil && !asJSON {
				a.Stdout.Line(string(info.State))
			}
			return err
		},
		ValidArgsFunction: a.completeDialogues,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the dialogue as JSON")
	return cmd
}

// openRequests returns the open requests of a dialogue as completions.
func (a *app) openRequests(cmd *cobra.Command, dialogue string) (list []cobra.Completion) {
	a.askRunning(cmd, func(ctx context.Context, c *client.Client) {
		tr, err := c.DialogueTranscript(ctx, api.DialogueTranscriptParams{DialogueID: dialogue})
		if err != nil {
			return
		}
		for _, r := range tr.Requests {
			if r.How == "" {
				list = append(list, cobra.CompletionWithDesc(r.RequestID, ui.Shorten(chat.RequestTitle(r), 40)))
			}
		}
	})
	return list
}
