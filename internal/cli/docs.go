package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/docs"
)

func (a *app) docsCommand() *cobra.Command {
	var list, only, asJSON bool
	var listen, export string
	cmd := &cobra.Command{
		Use:     "docs [PAGE]",
		GroupID: groupOther,
		Short:   "Read the documentation, in a browser or here",
		Long: `Show the documentation in a browser, with a search over all pages. The pages are part of
trl and need no network and no daemon. trl docs serves them on this machine only, until
Ctrl-C. Where no browser can be started, as over ssh, it lists the pages instead.

With the name of a page, print that page: formatted on a terminal, as Markdown otherwise.

--print starts no browser and prints the address. --export writes the site into a
directory, for any web server.`,
		Example: `  trl docs
  trl docs --list
  trl docs quickstart
  trl docs --print --listen 127.0.0.1:8000
  trl docs --export site`,
		Args: ui.NameArgs(0, 1, "the name of a page"),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := 0
			for _, is := range []bool{len(args) > 0, list, only || listen != "", export != ""} {
				if is {
					given++
				}
			}
			if given > 1 {
				return ui.UsageErrorf(cmd, "give a PAGE, --list, --print or --export, not several of them")
			}
			site := docs.New(commandsPage(cmd.Root()), settingsPage())
			switch {
			case len(args) > 0:
				return a.printPage(cmd, site, args[0], asJSON)
			case export != "":
				return site.Export(export)
			case list || asJSON:
				return a.listPages(site, asJSON)
			}
			return a.serveDocs(cmd, site, listen, only || listen != "")
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var list []cobra.Completion
			if len(args) == 0 {
				for _, p := range docs.New(commandsPage(cmd.Root()), settingsPage()).Pages() {
					list = append(list, cobra.CompletionWithDesc(p.Name, p.Title))
				}
			}
			return keep(list, prefix), cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&list, "list", false, "list the pages")
	flags.BoolVar(&only, "print", false, "serve the site, print its address and start no browser")
	flags.StringVar(&listen, "listen", "", "with --print, the `ADDRESS` to listen on (default: 127.0.0.1 and any free port)")
	flags.StringVar(&export, "export", "", "write the site into a `DIRECTORY`")
	flags.BoolVar(&asJSON, "json", false, "print the list, or the page, as JSON")
	return cmd
}

// listPages lists the pages. JSON has no texts: one page alone may be long.
func (a *app) listPages(site *docs.Site, asJSON bool) error {
	list := site.Pages()
	if asJSON {
		for i := range list {
			list[i].Markdown = ""
		}
		return a.Stdout.JSON(map[string]any{"pages": list})
	}
	t := ui.Table{Header: []string{"PAGE", "GROUP", "TITLE"}}
	for _, p := range list {
		t.Add(ui.Text(p.Name), ui.Painted(p.Group, ui.Dim), ui.Text(p.Title))
	}
	a.Stdout.Table(t)
	return nil
}

// sourceColumns is the width of the lines in the documents.
const sourceColumns = 100

func (a *app) printPage(cmd *cobra.Command, site *docs.Site, name string, asJSON bool) error {
	p, similar, found := site.Find(name)
	switch {
	case !found:
		err := ui.UsageErrorf(cmd, "there is no page %q", name)
		if err.Hint = "`trl docs --list` lists the pages"; similar != "" {
			err.Hint = "did you mean `trl docs " + similar + "`?"
		}
		return err
	case asJSON:
		return a.Stdout.JSON(p)
	case !a.Stdout.TTY:
		_, err := a.Stdout.Write([]byte(p.Markdown))
		return err
	}
	text := p.Markdown
	if a.Stdout.Width() < sourceColumns {
		text = docs.Flow(text)
	}
	m := &ui.Markdown{Out: a.Stdout}
	for line := range strings.Lines(text) {
		// An incomplete line is broken at the width of the terminal.
		shown := m.Feed(strings.TrimSuffix(line, "\n")) + m.Feed("\n")
		if _, err := a.Stdout.Write([]byte(shown)); err != nil {
			return err
		}
	}
	return nil
}

// serveDocs serves the site until a signal, and shows it in a browser unless only the address is
// wanted.
func (a *app) serveDocs(cmd *cobra.Command, site *docs.Site, listen string, only bool) error {
	program, why := browserProgram()
	if why != nil && !only {
		a.Stderr.Line("trl: " + why.Error() + "; `trl docs PAGE` prints one of these pages, and `trl docs --print` serves them:")
		return a.listPages(site, false)
	}
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	ctx, answer := interruptible(cmd.Context())
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return answer(err)
	}
	address := "http://" + listener.Addr().String() + "/"
	server := &http.Server{Handler: site, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() { // ends with the context, at the latest when this command returns
		<-ctx.Done()
		_ = server.Close()
	}()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // the browser asks while it is started
	if !only {
		if why := startBrowser(program, address); why != nil {
			a.Stderr.Line("trl: " + why.Error() + "; open this address in a browser:")
		}
	}
	a.Stdout.Line(address)
	if a.Stderr.TTY {
		a.Stderr.Line(a.Stderr.Paint(ui.Dim, "Ctrl-C ends it"))
	}
	if err = <-served; errors.Is(err, http.ErrServerClosed) {
		err = context.Cause(ctx)
	}
	return answer(err)
}

// commandsPage is a page with the help of all commands below root, and of the topics.
func commandsPage(root *cobra.Command) docs.Page {
	var b strings.Builder
	b.WriteString("# Commands\n\nThe same texts as those of `trl help COMMAND` and the manual pages.\n")
	describeCommands(&b, root)
	for _, t := range topics {
		b.WriteString("\n## trl help " + t.name + "\n\n```text\n" + t.text() + "```\n")
	}
	return docs.Page{Name: "commands", Title: "Commands", Group: docs.GroupReference, Markdown: b.String()}
}

func describeCommands(b *strings.Builder, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		c.InitDefaultHelpFlag()
		var text strings.Builder
		if c.Long != "" {
			text.WriteString(c.Long + "\n\n")
		}
		text.WriteString(strings.TrimRight(c.UsageString(), "\n") + "\n")
		fmt.Fprintf(b, "\n## %s\n\n%s.\n\n```text\n%s```\n", c.CommandPath(), c.Short, text.String())
		describeCommands(b, c)
	}
}

// settingsPage is a page with all settings.
func settingsPage() docs.Page {
	var b strings.Builder
	b.WriteString("# Settings\n\nEach setting is a key of the configuration file, a variable and a flag of `trl serve`. `trl config` prints " +
		"the values in force and where each comes from. `trl help files` names the file. The tables `[runtimes.NAME]` and `[isolation.NAME]` " +
		"are explained in [Runtimes](runtimes) and [Isolation](isolation).\n\n| key | default | variable | meaning |\n|---|---|---|---|\n")
	cfg, err := config.Load(nil, []string{"TRL_CONFIG=/dev/null"})
	if err != nil {
		panic(err) // nothing is set
	}
	for _, e := range cfg.Entries() {
		value := fmt.Sprint(e.Default)
		if strings.HasPrefix(value, "/") {
			value = "" // of this user alone
		}
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", e.Key, value, e.Env, strings.ReplaceAll(e.Doc, "|", `\|`))
	}
	return docs.Page{Name: "settings", Title: "Settings", Group: docs.GroupReference, Markdown: b.String()}
}
