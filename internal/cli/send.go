package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

func (a *app) sendCommand() *cobra.Command {
	var s sendRun
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "send SESSION [KEY|TEXT...]",
		GroupID: groupTerminals,
		Short:   "Type into a terminal, or write to a program",
		Long: `Type into a terminal. An argument that is the name of a key presses it: enter, tab, esc,
backspace, delete, up, down, left, right, home, end, pageup, pagedown, insert, space, f1 to
f24; with ctrl-, alt- and shift- before it, as in ctrl-c, alt-x or shift-tab. The bytes of a
key depend on the modes that the program has set. Any other argument is text, which is typed
unchanged; nothing is added between two arguments.

Without arguments, trl types all of your stdin as text. With --paste the text is pasted:
programs that support it, such as editors and shells, can tell it from typing.

A program (trl new --program) has no keys: it gets the text, and with --close the end of its
input.`,
		Example: `  trl send ed :wq enter
  trl send sh 'make test' enter
  trl send sh -l enter                 the word, not the key
  trl send py --paste < script.py
  trl send calc --enter '6 * 7'        a line, for a program`,
		Args: ui.NameThenTextArgs(1, -1, "a session, and keys or text"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClientUntilSignal(cmd, func(ctx context.Context, c *client.Client) error {
				c.ReconnectFor = ui.SearchTime
				s.session = args[0]
				if info, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: s.session}); err != nil {
					return err
				} else if s.program = info.Kind == api.KindProgram; s.program && s.paste {
					return ui.UsageErrorf(cmd, "--paste: %s is a program, not a terminal", args[0])
				}
				words := args[1:]
				if len(words) == 0 && !s.enter && !(s.close && term.IsTerminal(int(a.Stdin.Fd()))) {
					text, err := io.ReadAll(io.LimitReader(a.Stdin, maxStdinText+1))
					if err != nil {
						return fmt.Errorf("read stdin: %w", err)
					}
					if len(text) > maxStdinText {
						return fmt.Errorf("stdin is larger than %s", ui.BytesText(maxStdinText))
					}
					words, s.literal = []string{string(text)}, true
				}
				if err := s.send(ctx, c, words); err != nil {
					return err
				}
				if asJSON {
					return a.Stdout.JSON(s.result)
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeKeys,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&s.literal, "literal", "l", false, "type everything as text, even names of keys")
	flags.BoolVar(&s.paste, "paste", false, "paste the text instead of typing it")
	flags.BoolVar(&s.enter, "enter", false, "press enter at the end; for a program, end the line")
	flags.BoolVar(&s.close, "close", false, "end the input of a program, after the text")
	flags.StringVar(&s.id, "write-id", "", "an `ID` for this input: repeated with the same id, it is not typed again")
	flags.BoolVar(&asJSON, "json", false, "print the number of bytes written as JSON")
	return cmd
}

// sendRun is one `trl send`. One goroutine uses it.
type sendRun struct {
	session                      string
	program                      bool
	literal, paste, enter, close bool
	id                           string // of the whole input; random if the user gave none
	result                       api.SessionInputResult
}

// send sends the words in as few calls as possible: each call is a text and the keys after it.
func (s *sendRun) send(ctx context.Context, c *client.Client, words []string) error {
	var calls []api.SessionInputParams
	last := func() *api.SessionInputParams { return &calls[len(calls)-1] }
	add := func() { calls = append(calls, api.SessionInputParams{SessionID: s.session}) }
	for _, word := range words {
		key, isKey := "", false
		if !s.literal && !s.program {
			key, isKey = keyName(word)
		}
		switch {
		case isKey:
			if len(calls) == 0 {
				add()
			}
			last().Keys = append(last().Keys, key)
		case word != "":
			add()
			s.text(last(), word)
		}
	}
	if s.enter && s.program {
		add()
		last().Text = "\n"
	} else if s.enter {
		if len(calls) == 0 {
			add()
		}
		last().Keys = append(last().Keys, "enter")
	}
	if s.close {
		if len(calls) == 0 {
			add()
		}
		last().Close = true
	}
	if s.id == "" {
		s.id = rand.Text()
	}
	for i, p := range calls {
		p.WriteID = fmt.Sprintf("%s/%d", s.id, i+1)
		res, err := c.SessionInput(ctx, p)
		if err != nil {
			return err
		}
		res.Bytes += s.result.Bytes
		s.result = res
	}
	return nil
}

func (s *sendRun) text(p *api.SessionInputParams, text string) {
	switch {
	case s.paste && utf8.ValidString(text):
		p.Paste = text
	default:
		p.Text, p.DataBase64 = ui.TextOrBase64([]byte(text))
	}
}

// tmuxKeys are the names of keys in tmux.
var tmuxKeys = map[string]string{
	"bspace": "backspace", "btab": "shift-tab", "dc": "delete", "ic": "insert", "npage": "pagedown", "ppage": "pageup", "escape": "esc",
}

// maxKeyName is longer than the name of any key.
const maxKeyName = 32

// keyName returns the key that a word names, if it names one. A single character is text: typing
// it is the same as pressing its key.
func keyName(word string) (string, bool) {
	if len(word) > maxKeyName || utf8.RuneCountInString(word) < 2 {
		return "", false
	}
	prefix, rest := "", word
	for len(rest) > 2 && rest[1] == '-' {
		long, ok := map[byte]string{'C': "ctrl-", 'M': "alt-", 'S': "shift-"}[rest[0]]
		if !ok {
			break
		}
		prefix, rest = prefix+long, rest[2:]
	}
	if known, ok := tmuxKeys[strings.ToLower(rest)]; ok {
		rest = known
	}
	if isKey(prefix + rest) {
		return prefix + rest, true
	}
	return "", false
}

// isKey reports whether the terminal model knows a key in its widest mode. Some keys exist only
// if the program asks for them; the daemon checks that.
func isKey(name string) bool {
	t := vt.New(vt.Config{Cols: api.MinCols, Rows: api.MinRows})
	t.Write([]byte("\x1b[=1u"))
	_, err := t.Key(name)
	return err == nil
}

// completeKeys offers terminals, and after a terminal keys.
func (a *app) completeKeys(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeTerminals(cmd, args, prefix)
	}
	return keep(vt.KeyNames(), prefix), cobra.ShellCompDirectiveNoFileComp
}
