package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/chat"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) dialogueSendCommand() *cobra.Command {
	var asJSON bool
	var images []string
	var p api.DialogueSendParams
	cmd := &cobra.Command{
		Use:   "send DIALOGUE [TEXT...]",
		Short: "Send the agent a message",
		Long: `Send the agent a message: the words, or without them your stdin. It does not wait for an
answer; trl chat -p --dialogue DIALOGUE does. The agent reads a message that arrives while it
works at its next step, or after the turn. Prints the id of the message.`,
		Example: `  trl dialogue send fix 'and now the tests'
  trl dialogue send fix < message.md
  trl dialogue send fix --image screen.png 'what is wrong here?'
  trl chat -p --dialogue fix 'and now the tests'   waits for the answer`,
		Args: ui.Args(1, -1, "a dialogue and a message"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			p.DialogueID, p.Text = args[0], strings.Join(args[1:], " ")
			if len(args) == 1 && len(images) == 0 {
				if p.Text, err = a.readMessage(); err != nil {
					return err
				}
			}
			if err := checkText("message", p.Text); err != nil {
				return err
			}
			if err := withImages(&p, images); err != nil {
				return err
			}
			if p.Text == "" && len(p.Content) == 0 {
				return ui.UsageErrorf(cmd, "there is no message")
			}
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				res, err := c.DialogueSend(ctx, p)
				switch {
				case err != nil:
					return err
				case asJSON:
					return a.Stdout.JSON(res)
				}
				a.Stdout.Line(res.MessageID)
				return nil
			})
		},
		ValidArgsFunction: a.completeLiving,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(true)
	flags.SortFlags = false
	flags.StringArrayVar(&images, "image", nil, "add the picture in this `FILE`; may be repeated")
	flags.StringVar(&p.MessageID, "message-id", "", "a `UUID` for the message: repeated with the same id, it is not sent again")
	flags.BoolVar(&asJSON, "json", false, "print the state of the message as JSON")
	_ = cmd.MarkFlagFilename("image")
	return cmd
}

func (a *app) dialogueUnsendCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "unsend DIALOGUE MESSAGE",
		Short: "Take back a message that the agent has not started with",
		Long: `Take back a message that waits while the agent works. MESSAGE is the id that trl dialogue
send printed. It is an error if the agent has started with the message, or cannot give it back.`,
		Example: `  id=$(trl dialogue send fix 'and now the tests')
  trl dialogue unsend fix "$id"`,
		Args: ui.Args(2, 2, "a dialogue and the id of a message"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := a.ofDialogue(cmd, asJSON, func(ctx context.Context, c *client.Client) (api.DialogueInfo, error) {
				hello(ctx, c)
				return c.DialogueUnsend(ctx, api.DialogueUnsendParams{DialogueID: args[0], MessageID: args[1]})
			})
			return err
		},
		ValidArgsFunction: a.completeLiving,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the dialogue as JSON")
	return cmd
}

// withImages turns a message with pictures into content blocks.
func withImages(p *api.DialogueSendParams, files []string) error {
	if len(files) == 0 {
		return nil
	}
	if p.Text != "" {
		p.Content = append(p.Content, api.DialogueContent{Type: "text", Text: p.Text})
		p.Text = ""
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		kind := http.DetectContentType(data)
		if !strings.HasPrefix(kind, "image/") {
			return fmt.Errorf("%s: is not a picture", file)
		}
		p.Content = append(p.Content, api.DialogueContent{Type: "image", MediaType: kind, DataBase64: base64.StdEncoding.EncodeToString(data)})
	}
	return nil
}

func (a *app) dialogueRespondCommand() *cobra.Command {
	var (
		asJSON  bool
		input   string
		answers []string
		p       api.DialogueRespondParams
	)
	cmd := &cobra.Command{
		Use:   "respond DIALOGUE [REQUEST] [allow|deny]",
		Short: "Answer a request of the agent: a permission, a question, a plan",
		Long: `Answer a request of the agent. trl dialogue show lists the open requests, with their ids;
the id is optional if only one request is open. The first answer counts.`,
		Example: `  trl dialogue respond fix allow
  trl dialogue respond fix deny --message 'use make test'
  trl dialogue respond fix 7d1c-4 allow --remember
  trl dialogue respond fix allow --input '{"command":"make check"}'
  trl dialogue respond fix --answer 'Which one?=the second'`,
		Args: ui.Args(1, 3, "a dialogue, a request, and allow or deny"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.DialogueID = args[0]
			for _, word := range args[1:] {
				if (word == "allow" || word == "deny") && p.Decision == "" {
					p.Decision = word
				} else if p.RequestID == "" {
					p.RequestID = word
				} else {
					return ui.UsageErrorf(cmd, "%q: must be allow or deny", word)
				}
			}
			if input != "" {
				if p.Input = json.RawMessage(input); !json.Valid(p.Input) {
					return ui.UsageErrorf(cmd, "--input: is not JSON")
				}
			}
			for _, pair := range answers {
				question, reply, ok := strings.Cut(pair, "=")
				if !ok {
					return ui.UsageErrorf(cmd, "--answer: %q is not QUESTION=ANSWER", pair)
				}
				if p.Answers == nil {
					p.Answers = map[string]string{}
				}
				p.Answers[question] = reply
			}
			if p.Decision == "" && len(p.Answers) == 0 && p.Option == "" {
				return ui.UsageErrorf(cmd, "the answer is missing: give allow, deny, --answer or --option")
			}
			_, err := a.ofDialogue(cmd, asJSON, func(ctx context.Context, c *client.Client) (info api.DialogueInfo, err error) {
				if p.RequestID == "" {
					if p.RequestID, err = onlyRequest(ctx, c, p.DialogueID); err != nil {
						return info, err
					}
				}
				hello(ctx, c)
				return c.DialogueRespond(ctx, p)
			})
			return err
		},
		ValidArgsFunction: a.completeRequests,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&p.Message, "message", "m", "", "with deny, a `TEXT` for the agent")
	flags.BoolVar(&p.Interrupt, "interrupt", false, "with deny, also end the turn")
	flags.StringVar(&input, "input", "", "with allow, `JSON` that replaces the input of the tool")
	flags.BoolVar(&p.Remember, "remember", false, "with allow, allow the same from now on, if the agent offers that")
	flags.StringVar(&p.Option, "option", "", "`ID` of one of the answers that the agent offers")
	flags.StringArrayVar(&answers, "answer", nil, "`QUESTION=ANSWER`, by the question's text or id; may be repeated")
	flags.BoolVar(&asJSON, "json", false, "print the dialogue as JSON")
	return cmd
}

// onlyRequest returns the id of the open request, if there is exactly one.
func onlyRequest(ctx context.Context, c *client.Client, dialogue string) (string, error) {
	tr, err := c.DialogueTranscript(ctx, api.DialogueTranscriptParams{DialogueID: dialogue})
	if err != nil {
		return "", err
	}
	var open []api.DialogueRequest
	for _, r := range tr.Requests {
		if r.How == "" {
			open = append(open, r)
		}
	}
	switch len(open) {
	case 0:
		return "", fmt.Errorf("dialogue %q: no request waits for an answer", dialogue)
	case 1:
		return open[0].RequestID, nil
	}
	return "", ui.WithHint(fmt.Errorf("dialogue %q: %d requests wait for an answer", dialogue, len(open)),
		"name one, such as %s (%s)", open[0].RequestID, chat.RequestTitle(open[0]))
}

// completeRequests offers dialogues, then their open requests, then the decisions.
func (a *app) completeRequests(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeLiving(cmd, args, prefix)
	}
	list := []cobra.Completion{"allow", "deny"}
	if len(args) == 1 {
		list = append(list, a.openRequests(cmd, args[0])...)
	}
	return keep(list, prefix), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) dialogueInterruptCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "interrupt DIALOGUE",
		Short:   "Stop the agent's current turn; the dialogue goes on",
		Long:    `Stop the agent's current turn, as Ctrl-C in trl chat does. The dialogue goes on.`,
		Example: `  trl dialogue interrupt fix`,
		Args:    ui.Args(1, 1, "one dialogue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := a.ofDialogue(cmd, asJSON, func(ctx context.Context, c *client.Client) (api.DialogueInfo, error) {
				return c.DialogueInterrupt(ctx, api.DialogueInterruptParams{DialogueID: args[0]})
			})
			return err
		},
		ValidArgsFunction: a.completeLiving,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the dialogue as JSON")
	return cmd
}

func (a *app) dialogueSetCommand() *cobra.Command {
	var asJSON bool
	var policy policyFlags
	var p api.DialogueSetParams
	cmd := &cobra.Command{
		Use:   "set DIALOGUE",
		Short: "Change the model, the permission mode or the rules",
		Long: `Change the model or the permission mode of a running agent, or the rules that answer its
requests. New rules replace all earlier ones.`,
		Example: `  trl dialogue set fix --model opus
  trl dialogue set fix --permission-mode acceptEdits
  trl dialogue set fix --deny 'Bash(rm *)' --allow Bash --allow Read`,
		Args: ui.Args(1, 1, "one dialogue"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			p.DialogueID = args[0]
			if p.Policy, err = policy.policy(); err != nil {
				return err
			}
			if p.Model == "" && p.PermissionMode == "" && p.Policy == nil {
				return ui.UsageErrorf(cmd, "nothing to change: give --model, --permission-mode, --allow, --deny or --policy")
			}
			_, err = a.ofDialogue(cmd, asJSON, func(ctx context.Context, c *client.Client) (api.DialogueInfo, error) {
				return c.DialogueSet(ctx, p)
			})
			return err
		},
		ValidArgsFunction: a.completeLiving,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&p.Model, "model", "", "`MODEL` from the next step on")
	flags.StringVar(&p.PermissionMode, "permission-mode", "", "`MODE` in the agent's words")
	policy.register(flags)
	flags.BoolVar(&asJSON, "json", false, "print the dialogue as JSON")
	return cmd
}
