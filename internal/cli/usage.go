package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// usage prints how to call a command: cobra's text, but shorter, without a usage line for the
// root's own arguments, and with the global flags last. It does not use a template: package
// text/template keeps the linker from removing unused code.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
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
	if cmd.HasParent() {
		listCommands(&b, cmd)
	} else {
		nameCommands(&b, cmd)
	}
	if cmd.HasAvailableLocalFlags() {
		section("Flags:", cmd.LocalFlags().FlagUsages())
	}
	if cmd.HasAvailableInheritedFlags() {
		section("Global flags:", cmd.InheritedFlags().FlagUsages())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%q explains a command.\n", cmd.CommandPath()+" help COMMAND")
	}
	_, err := cmd.OutOrStderr().Write([]byte(b.String()))
	return err
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

// nameCommands lists the subcommands and the topics by name alone, so that `trl --help` fits on a
// screen.
func nameCommands(b *strings.Builder, cmd *cobra.Command) {
	b.WriteString("\n")
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
