package cli

import (
	"embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// topic is a text of `trl help` that is about no command.
type topic struct{ name, short string }

// topics are all of them. Their texts are in the directory topics; that of commands is made from
// the commands.
var topics = []topic{
	{"commands", "List the commands, a line each"},
	{"runtimes", "The places where sessions can be"},
	{"limits", "What sessions and commands may use"},
	{"environment", "The variables that trl reads, and those of commands"},
	{"exit-codes", "The exit statuses of trl"},
	{"files", "The files that trl reads and writes"},
}

//go:embed topics/*.txt
var topicFiles embed.FS

// text returns the text of a topic, for the commands below root.
func (t topic) text(root *cobra.Command) string {
	if t.name == "commands" {
		var b strings.Builder
		listCommands(&b, root)
		b.WriteString("\nTopics:\n")
		for _, t := range topics {
			fmt.Fprintf(&b, "  %-11s %s\n", t.name, t.short)
		}
		return strings.TrimPrefix(b.String(), "\n")
	}
	text, err := topicFiles.ReadFile("topics/" + t.name + ".txt")
	if err != nil {
		panic(err) // every topic has a file
	}
	return string(text)
}

func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND|TOPIC]",
		GroupID: groupOther,
		Short:   "Explain a command or a topic",
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			for _, t := range topics {
				if len(args) == 1 && t.name == args[0] {
					_, err := a.Stdout.Write([]byte(t.text(root)))
					return err
				}
			}
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return noSuchCommand(root, args)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var list []cobra.Completion
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, c := range cmd.Root().Commands() {
				if c.IsAvailableCommand() {
					list = append(list, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			for _, t := range topics {
				if t.name != "runtimes" { // also a command
					list = append(list, cobra.CompletionWithDesc(t.name, t.short))
				}
			}
			return keep(list, prefix), cobra.ShellCompDirectiveNoFileComp
		},
	}
}
