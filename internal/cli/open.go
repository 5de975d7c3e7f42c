package cli

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
)

func (a *app) openCommand() *cobra.Command {
	var p api.WebOpenParams
	var only, readOnly, asJSON, asQR bool
	cmd := &cobra.Command{
		Use:     "open [SESSION|DIALOGUE]",
		GroupID: groupDaemon,
		Short:   "Show the sessions in a browser",
		Long: `Show the console in a browser: every session, its terminal, its commands and their output.
With a name or an id, show that session or dialogue.

If the daemon does not serve HTTP, trl open turns it on, for this machine only, as
trl http on does. The printed address has a code that is valid once, for two minutes. The
browser stays logged in for 30 days, or until it has not been used for 7; trl web ls lists
the logins, and trl web revoke ends them.

Where no browser can be started, as over ssh, trl open prints the address. From another
machine, forward the port first: ssh -L 7330:127.0.0.1:7330 HOST.

With --qr, trl open prints the address as a QR code for a phone. The daemon must serve HTTP on
an address that the phone can reach.`,
		Example: `  trl open
  trl open build
  trl open --print
  trl open --qr                        for a phone in the same network`,
		Args: ui.NameArgs(0, 1, "a session or a dialogue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asQR && asJSON {
				return ui.UsageErrorf(cmd, "--qr and --json: give one of them")
			}
			if readOnly {
				p.Scope = string(api.AccessRead)
			}
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				to, err := pageOf(ctx, c, args)
				if err != nil {
					return err
				}
				phone := ""
				if asQR {
					info, err := c.SystemInfo(ctx, api.SystemInfoParams{})
					if err == nil {
						phone, err = phoneHost(info.HTTP, ownAddress)
					}
					if err != nil { // before a code is made that no phone could use
						return err
					}
				}
				r, err := c.WebOpen(ctx, p)
				if err != nil {
					return tooOld(err)
				}
				if to != "" {
					r.URL += "?to=" + url.QueryEscape(to)
				}
				if asQR {
					if err := a.showQR(&r, phone); err != nil {
						return err
					}
				}
				switch {
				case asJSON:
					return a.Stdout.JSON(r)
				case only || asQR:
				default:
					if why := a.browse(r.URL); why != nil {
						a.Stderr.Line("trl: " + why.Error() + "; open this address in a browser:")
					}
				}
				a.Stdout.Line(r.URL)
				return nil
			})
		},
		ValidArgsFunction: a.completePages,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&only, "print", false, "print the address and start no browser")
	flags.BoolVar(&asQR, "qr", false, "print the address as a QR code for a phone, too, and start no browser")
	flags.BoolVar(&readOnly, "read-only", false, "a page that can change nothing")
	flags.BoolVar(&asJSON, "json", false, "print the address as JSON and start no browser")
	return cmd
}

// showQR replaces the host of the address by the one that a phone reaches, and prints the QR code.
func (a *app) showQR(r *api.WebOpenResult, phone string) error {
	u, err := url.Parse(r.URL)
	if err != nil {
		return err
	}
	u.Host = phone
	r.URL = u.String()
	lines, err := qrLines(r.URL, a.Stdout.Colour)
	for _, l := range lines {
		a.Stdout.Line(l)
	}
	return err
}

// tooOld explains the error of a daemon that does not know a method.
func tooOld(err error) error {
	if api.AsError(err).Code != api.CodeMethodNotFound {
		return err
	}
	return ui.WithHint(fmt.Errorf("the running daemon is older than this trl: %w", err), "`trl upgrade` replaces it; its sessions stay")
}

// pageOf returns the path of the page of a session or a dialogue; "" without an argument.
func pageOf(ctx context.Context, c *client.Client, args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	s, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: args[0]})
	// The session of a dialogue is named after the dialogue's id, and the dialogue has the better page.
	if err == nil && !slices.Contains(s.Tags, "agent-dialogue") {
		return "/s/" + s.SessionID, nil
	}
	d, other := c.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: args[0]})
	switch {
	case other == nil:
		return "/d/" + d.DialogueID, nil
	case err == nil:
		return "/s/" + s.SessionID, nil
	case errors.Is(err, api.ErrSessionNotFound) && errors.Is(other, api.ErrDialogueNotFound):
		return "", neitherFound(args[0])
	}
	return "", err
}

// neitherFound is the error for a word that names neither a session nor a dialogue.
func neitherFound(word string) error {
	return ui.WithHint(api.Errorf(api.CodeSessionNotFound, "session or dialogue %q: not found", word),
		"`trl ls` lists the sessions, `trl dialogue ls -a` the dialogues")
}

// completePages offers sessions and dialogues, for one argument.
func (a *app) completePages(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	sessions, directive := a.completeSession(cmd, args, prefix)
	dialogues, _ := a.completeDialogues(cmd, args, prefix)
	return append(sessions, dialogues...), directive
}

// browse shows an address in the person's browser. The address is a secret, so it is no argument
// of a program: other users can see those. The browser opens a private file that leads to it.
func (a *app) browse(address string) error {
	program, err := browserProgram()
	if err != nil {
		return err
	}
	file := filepath.Join(a.config.RuntimeDir, "open.html")
	page := `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">` +
		`<meta http-equiv="refresh" content="0;url=` + html.EscapeString(address) + `"><title>TRL</title>` + "\n"
	if err := writePrivate(file, page); err != nil {
		return err
	}
	return startBrowser(program, file)
}

// browserProgram returns the program that shows a file or an address in the person's browser, or
// the reason why none can be started.
func browserProgram() (string, error) {
	opener := "xdg-open"
	switch {
	case os.Getenv("SSH_CONNECTION") != "":
		return "", errors.New("no browser is started over ssh")
	case runtime.GOOS == "darwin":
		opener = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return "", errors.New("there is no desktop to show a browser on")
	}
	program, err := exec.LookPath(opener)
	if err != nil {
		return "", errors.New(opener + " is not installed")
	}
	return program, nil
}

// startBrowser shows a file or an address with that program.
func startBrowser(program, target string) error {
	browser := exec.Command(program, target)
	browser.Env = withoutToken(os.Environ())
	if err := browser.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- browser.Wait() }()
	select { // it may run as long as the browser
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(program), err)
		}
	case <-time.After(3 * time.Second):
	}
	return nil
}

// withoutToken returns an environment without the token of the daemon.
func withoutToken(environ []string) []string {
	var clean []string
	for _, v := range environ {
		if len(v) < len(config.EnvAuthToken)+1 || v[:len(config.EnvAuthToken)+1] != config.EnvAuthToken+"=" {
			clean = append(clean, v)
		}
	}
	return clean
}

// writePrivate replaces a file by one that only this user can read.
func writePrivate(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".open-") // with mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
