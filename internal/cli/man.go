package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/version"
)

// manCommand writes the manual pages. It is for packages; people have `trl help`, which has the
// same texts.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		GroupID: groupOther,
		Hidden:  true,
		Short:   "Write the manual pages into a directory",
		Long:    "Write the manual pages into a directory: one for each command, in section 1, and one for each topic, in section 7.",
		Example: "  trl man /usr/local/share/man",
		Args:    ui.NameArgs(1, 1, "a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			pages := map[string]string{}
			for _, t := range topics {
				pages["man7/trl-"+t.name+".7"] = topicPage(t)
			}
			commandPages(pages, root)
			for name, text := range pages {
				path := filepath.Join(args[0], name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// commandPages adds the pages of a command and of those below it.
func commandPages(pages map[string]string, cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	page := newPage(name, 1, cmd.Short)
	use := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		use = cmd.CommandPath() + " COMMAND [flags]"
	}
	page.section("SYNOPSIS")
	page.line(".B " + roff(use))
	if long := cmd.Long; long != "" {
		page.section("DESCRIPTION")
		page.text(long)
	}
	if cmd.HasExample() {
		page.section("EXAMPLES")
		page.verbatim(strings.Split(strings.TrimRight(cmd.Example, "\n"), "\n"))
	}
	if cmd.HasAvailableSubCommands() {
		page.section("COMMANDS")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				page.item(c.Name(), c.Short)
				commandPages(pages, c)
			}
		}
	}
	page.section("OPTIONS")
	flag := func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		word := "--" + f.Name
		if f.Shorthand != "" {
			word = "-" + f.Shorthand + ", " + word
		}
		page.item(strings.TrimSpace(word+" "+value), usage)
	}
	cmd.LocalFlags().VisitAll(flag)
	cmd.InheritedFlags().VisitAll(flag)
	see := []string{"trl(1)"}
	if !cmd.HasParent() {
		see = nil
		for _, t := range topics {
			see = append(see, "trl-"+t.name+"(7)")
		}
	} else if parent := cmd.Parent(); parent.HasParent() {
		see = append(see, strings.ReplaceAll(parent.CommandPath(), " ", "-")+"(1)")
	}
	page.section("SEE ALSO")
	page.line(roff(strings.Join(see, ", ")))
	pages["man1/"+name+".1"] = page.String()
}

func topicPage(t topic) string {
	page := newPage("trl-"+t.name, 7, t.short)
	page.section("DESCRIPTION")
	page.text(t.text())
	page.section("SEE ALSO")
	page.line("trl(1)")
	return page.String()
}

// manPage is a page in the language of man(7).
type manPage struct{ strings.Builder }

func newPage(name string, section int, short string) *manPage {
	p := &manPage{}
	p.line(fmt.Sprintf(`.TH %s %d "" "trl %s" "TRL"`, roff(strings.ToUpper(name)), section, roff(version.Version)))
	p.section("NAME")
	p.line(roff(name) + ` \- ` + roff(short))
	return p
}

func (p *manPage) line(text string)       { p.WriteString(text + "\n") }
func (p *manPage) section(title string)   { p.line(".SH " + title) }
func (p *manPage) item(word, text string) { p.line(".TP\n.B " + roff(word) + "\n" + roff(text)) }

// text writes a text of paragraphs. Indented lines stay as they are.
func (p *manPage) text(text string) {
	var block []string
	flush := func() {
		switch {
		case len(block) == 0:
		case strings.HasPrefix(block[0], "  "):
			p.verbatim(block)
		default:
			p.line(".PP")
			for _, line := range block {
				p.line(roff(line))
			}
		}
		block = nil
	}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		indented := strings.HasPrefix(line, "  ")
		if line == "" || len(block) > 0 && indented != strings.HasPrefix(block[0], "  ") {
			flush()
		}
		if line != "" {
			block = append(block, line)
		}
	}
	flush()
}

func (p *manPage) verbatim(lines []string) {
	p.line(".PP\n.nf")
	for _, line := range lines {
		p.line(roff(line))
	}
	p.line(".fi")
}

// roff escapes a line of text.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
