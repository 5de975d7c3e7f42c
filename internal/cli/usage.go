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
	for _, group := range cmd.Groups() {
		var list strings.Builder
		for _, c := range cmd.Commands() {
			if c.GroupID == group.ID && (c.IsAvailableCommand() || c.Name() == "help") {
				fmt.Fprintf(&list, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
			}
		}
		section(group.Title, list.String())
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
