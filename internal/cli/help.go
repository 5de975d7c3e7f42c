package cli

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// topic is a text of `trl help` that is about no command.
type topic struct{ name, short string }

// topics are all of them. Their texts are in the directory topics.
var topics = []topic{
	{"runtimes", "The places where sessions can live"},
	{"isolation", "What sessions and agents may touch"},
	{"limits", "What sessions and commands may use"},
	{"environment", "The variables that trl reads, and those of commands"},
	{"exit-codes", "The exit statuses of trl"},
	{"files", "The files that trl reads and writes"},
}

//go:embed topics/*.txt
var topicFiles embed.FS

// lists are the words of `trl help` that list the others.
var lists = []topic{
	{"commands", "List the commands and the topics, a line each"},
	{"topics", "List the topics, a line each"},
}

// text returns the text of a topic.
func (t topic) text() string {
	text, err := topicFiles.ReadFile("topics/" + t.name + ".txt")
	if err != nil {
		panic(err) // every topic has a file
	}
	return string(text)
}

// listTopics lists the topics, a line each.
func listTopics(b *strings.Builder) {
	b.WriteString("\nTopics:\n")
	for _, t := range append(slices.Clone(lists), topics...) {
		fmt.Fprintf(b, "  %-11s %s\n", t.name, t.short)
	}
}

// noHelpFor returns the error for words that are neither a command nor a topic.
func noHelpFor(help, about *cobra.Command, words []string) error {
	var f *ui.Failure
	if !errors.As(noSuchCommand(about, words), &f) {
		return nil
	}
	f.Status = ui.ExitUsage
	var names []string
	for _, t := range append(slices.Clone(lists), topics...) {
		names = append(names, t.name)
	}
	if about.HasParent() || strings.HasPrefix(f.Hint, "did you mean") {
		return f
	}
	if f.Hint = "`trl help commands` lists the commands and the topics"; similar(words[0], names) != "" {
		f.Hint = "did you mean `" + help.CommandPath() + " " + similar(words[0], names) + "`?"
	}
	return f
}

func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND|TOPIC]",
		GroupID: groupOther,
		Short:   "Explain a command or a topic",
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			if text := aboutTopic(root, args); text != "" {
				_, err := a.Stdout.Write([]byte(text))
				return err
			}
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return noHelpFor(cmd, about, rest)
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
			for _, t := range append(slices.Clone(lists), topics...) {
				if t.name != "runtimes" { // also a command
					list = append(list, cobra.CompletionWithDesc(t.name, t.short))
				}
			}
			return keep(list, prefix), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// aboutTopic returns what `trl help` prints about a topic, or nothing if the arguments do not name one.
func aboutTopic(root *cobra.Command, args []string) string {
	if len(args) != 1 {
		return ""
	}
	if i := slices.IndexFunc(topics, func(t topic) bool { return t.name == args[0] }); i >= 0 {
		return topics[i].text()
	}
	var b strings.Builder
	if args[0] == "commands" {
		listCommands(&b, root)
	}
	if args[0] == "commands" || args[0] == "topics" {
		listTopics(&b)
	}
	return strings.TrimPrefix(b.String(), "\n")
}
