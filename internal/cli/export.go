package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/terminal/cast"
	"github.com/trl-dev/trl/internal/terminal/render"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

// exportFormats are the formats of an export and the names of their files.
var exportFormats = []struct{ name, suffix, about string }{
	{"cast", ".cast", "the recording, as an asciicast (version 3)"},
	{"text", ".txt", "the screen, as text"},
	{"ansi", ".ansi", "the screen, as text with colours"},
	{"html", ".html", "the screen, as a page"},
	{"svg", ".svg", "the screen, as a picture"},
}

func (a *app) exportCommand() *cobra.Command {
	var (
		chosen = make([]bool, len(exportFormats))
		output string
		lines  linesFlag
	)
	cmd := &cobra.Command{
		Use:     "export SESSION|FILE",
		GroupID: groupTerminals,
		Short:   "Write a terminal's recording or screen to a file",
		Long: `Write the recording of a terminal (--cast), or its current or last screen: as text, with
colours, as a page or as a picture. For a FILE, a recording (asciicast, version 2 or 3),
trl writes its last screen.

The format is optional if the name of the output shows it.`,
		Example: `  trl export demo --cast -o demo.cast
  trl export demo -o demo.svg          a picture of the screen
  trl export demo.cast --text --scrollback all`,
		Args: ui.NameArgs(1, 1, "one session or file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			format := ""
			for i, f := range exportFormats {
				if chosen[i] && format != "" {
					return ui.UsageErrorf(cmd, "--%s and --%s: give one of them", format, f.name)
				}
				if chosen[i] {
					format = f.name
				}
			}
			if format == "" {
				format = formatOf(output)
			}
			if format == "" {
				return ui.UsageErrorf(cmd, "the format is missing: give --cast, --text, --ansi, --html or --svg")
			}
			ex := &exportRun{app: a, word: args[0], format: format, scrollback: lines.n}
			if isFile(args[0]) {
				return a.writeTo(output, func(w io.Writer) error { return ex.write(cmd.Context(), nil, w) })
			}
			return a.withClientUntilSignal(cmd, func(ctx context.Context, c *client.Client) error {
				return a.writeTo(output, func(w io.Writer) error { return ex.write(ctx, c, w) })
			})
		},
		ValidArgsFunction: a.completeRecordings,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	for i, f := range exportFormats {
		flags.BoolVar(&chosen[i], f.name, false, f.about)
	}
	flags.StringVarP(&output, "output", "o", "", "write to this `FILE` (default: stdout)")
	flags.Var(&lines, "scrollback", "also the last `N` lines above the screen, or all")
	return cmd
}

// formatOf returns the format for the name of a file, "" if the name shows none.
func formatOf(name string) string {
	for _, f := range exportFormats {
		if strings.EqualFold(filepath.Ext(name), f.suffix) {
			return f.name
		}
	}
	return ""
}

// writeTo writes to a file or, if the name is empty or -, to stdout. The file appears only when
// it is complete, and only its owner can read it.
func (a *app) writeTo(name string, write func(io.Writer) error) error {
	if name == "" || name == "-" {
		return write(a.Stdout)
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return asNamed(name, "", err)
	}
	err = write(f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return asNamed(name, f.Name(), err)
}

// asNamed returns the error of a temporary file under the name that the file would get.
// temporary is "" if the file was not created.
func asNamed(name, temporary string, err error) error {
	var p *os.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p) && (temporary == "" || p.Path == temporary):
		return fmt.Errorf("%s: %w", name, p.Err)
	case errors.As(err, &l) && l.Old == temporary:
		return fmt.Errorf("%s: %w", name, l.Err)
	}
	return err
}

// exportRun is one `trl export`.
type exportRun struct {
	app        *app
	word       string
	format     string
	scrollback int
}

func (ex *exportRun) write(ctx context.Context, c *client.Client, w io.Writer) error {
	if ex.format == "cast" {
		return ex.cast(ctx, c, w)
	}
	t, theme, err := ex.model(ctx, c)
	if err != nil {
		return err
	}
	opts := render.Options{Scrollback: ex.scrollback, Cursor: true}
	if theme != nil {
		opts.Theme = render.Theme{Foreground: theme.Foreground, Background: theme.Background, Palette: strings.Split(theme.Palette, ":")}
	}
	switch ex.format {
	case "html":
		return render.HTML(w, t, opts)
	case "svg":
		return render.SVG(w, t, opts)
	}
	_, err = io.WriteString(w, rowsOf(t, ex.scrollback, ex.format == "ansi"))
	return err
}

// model returns a terminal model with the screen to write, and its colours if they are known.
func (ex *exportRun) model(ctx context.Context, c *client.Client) (*vt.Terminal, *cast.Theme, error) {
	if c != nil {
		s, err := c.SessionScreen(ctx, api.SessionScreenParams{SessionID: ex.word, Format: api.FormatANSI, Scrollback: ex.scrollback})
		if err != nil {
			return nil, nil, err
		}
		return modelOf(s), nil, nil
	}
	f, err := os.Open(ex.word)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r, err := readCast(ex.word, f)
	if err != nil {
		return nil, nil, err
	}
	lines := ex.scrollback
	if lines < 0 {
		lines = api.MaxScrollback
	}
	t, err := replay(ex.word, r, lines)
	return t, r.Header().Theme, err
}

// cast copies the recording of a session, or converts a file to version 3.
func (ex *exportRun) cast(ctx context.Context, c *client.Client, w io.Writer) error {
	if c != nil {
		_, err := io.Copy(w, &recorded{ctx: ctx, client: c, session: ex.word})
		return err
	}
	f, err := os.Open(ex.word)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := readCast(ex.word, f)
	if err != nil {
		return err
	}
	if err := r.Copy(w); err != nil {
		return fmt.Errorf("%s: %w", ex.word, err)
	}
	return nil
}
