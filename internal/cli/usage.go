package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usage prints how to call a command: cobra's text, but shorter, and with the global flags last. It
// does not use a template: package text/template keeps the linker from removing unused code.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	if cmd.HasParent() {
		commandUsage(&b, cmd)
	} else {
		rootUsage(&b, cmd)
	}
	_, err := cmd.OutOrStderr().Write([]byte(b.String()))
	return err
}

// rootUsage fits on a screen of 24 lines and 80 columns, together with the description above it and a
// prompt below it.
func rootUsage(b *strings.Builder, cmd *cobra.Command) {
	b.WriteString(cmd.Example + "\n\n")
	nameCommands(b, cmd)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "verbose" { // every command explains it
			flags.AddFlag(f)
		}
	})
	flags.AddFlag(cmd.Flags().Lookup("version"))
	b.WriteString("\n" + flags.FlagUsages())
	b.WriteString("\"trl help COMMAND\" explains a command, \"trl help topics\" lists the topics.\n")
}

func commandUsage(b *strings.Builder, cmd *cobra.Command) {
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		line := cmd.UseLine()
		if cmd.HasAvailableSubCommands() {
			line = cmd.CommandPath() + " COMMAND [flags]"
		}
		b.WriteString("  " + line + "\n")
	}
	section := func(title, text string) { b.WriteString("\n" + title + "\n" + strings.TrimRight(text, " \t\n") + "\n") }
	if cmd.HasExample() {
		section("Examples:", cmd.Example)
	}
	listCommands(b, cmd)
	if cmd.HasAvailableLocalFlags() {
		section("Flags:", cmd.LocalFlags().FlagUsages())
	}
	if cmd.HasAvailableInheritedFlags() {
		section("Global flags:", cmd.InheritedFlags().FlagUsages())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(b, "\n%q explains a command.\n", "trl help "+strings.TrimPrefix(cmd.CommandPath(), "trl ")+" COMMAND")
	}
}

// listCommands lists the subcommands by group, a line each.
func listCommands(b *strings.Builder, cmd *cobra.Command) {
	for _, group := range cmd.Groups() {
		b.WriteString("\n" + group.Title + "\n")
		for _, c := range cmd.Commands() {
			if c.GroupID == group.ID && (c.IsAvailableCommand() || c.Name() == "help") {
				fmt.Fprintf(b, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
			}
		}
	}
}

// nameCommands lists the subcommands and the topics by name alone.
func nameCommands(b *strings.Builder, cmd *cobra.Command) {
	for _, group := range cmd.Groups() {
		fmt.Fprintf(b, "%-11s", group.Title)
		for _, c := range cmd.Commands() {
			if c.GroupID == group.ID && (c.IsAvailableCommand() || c.Name() == "help") {
				b.WriteString(" " + c.Name())
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("Topics:    ")
	for _, t := range topics {
		b.WriteString(" " + t.name)
	}
	b.WriteString("\n")
}
