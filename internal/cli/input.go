package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

const (
	// inputChunk is the most of stdin that goes into one exec.input.
	inputChunk = 1 << 20
	// wholeChunk is the size of the pieces if they must be the same each time.
	wholeChunk = 256 << 10
)

func (a *app) inputCommand() *cobra.Command {
	in := &input{app: a}
	var bare bool
	cmd := &cobra.Command{
		Use:     "input EXEC|SESSION [TEXT...|-]",
		GroupID: groupCommands,
		Short:   "Write to the stdin of a command started with trl start --stdin",
		Long: `Write to the stdin of a command that was started with trl start --stdin. Name the command
by its id (see trl ps) or by its session.

TEXT is written with a newline after it, unless you use -n; several words are joined by
spaces. Without TEXT, or with -, trl passes your stdin on as it comes, byte for byte, to its
end. The command's stdin stays open until --close.

Nothing is written twice, even if the daemon restarts meanwhile: each piece has an id.
--write-id uses the same ids each time, so a whole trl input can be repeated safely.`,
		Example: `  id=$(trl start --stdin python3 -i)
  trl input $id 'print(6 * 7)'
  trl input $id --close < script.py
  trl input build -n y                 one letter, no newline`,
		Args: ui.NameThenTextArgs(1, -1, "a command or session and the text for it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.Join(args[1:], " ")
			fromStdin := text == "-" || len(args) == 1 && !(in.close && term.IsTerminal(int(a.Stdin.Fd())))
			if fromStdin && bare {
				return ui.UsageErrorf(cmd, "-n is for TEXT; stdin is passed on as it is")
			}
			if err := checkText("text", text); err != nil {
				return err
			}
			return a.withClientUntilSignal(cmd, func(ctx context.Context, c *client.Client) error {
				info, err := findExec(ctx, c, args[0])
				if err != nil {
					return err
				}
				in.exec = info.ExecID
				switch {
				case fromStdin:
					err = in.pass(ctx, c)
				case len(args) == 1:
					err = in.write(ctx, c, nil, true)
				default:
					if !bare {
						text += "\n"
					}
					err = in.write(ctx, c, []byte(text), in.close)
				}
				if err != nil {
					return inputHint(err)
				}
				if in.json {
					return a.Stdout.JSON(in.result)
				}
				if a.verbose {
					a.Stderr.Linef("trl: exec %s: has accepted %d bytes", in.exec, in.result.StdinBytes)
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeSessionsAndExecs,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&in.close, "close", false, "end the command's stdin, after the text")
	flags.BoolVarP(&bare, "no-newline", "n", false, "write no newline after TEXT")
	flags.StringVar(&in.id, "write-id", "", "an `ID` for this input: repeated with the same id, it is not written again")
	flags.BoolVar(&in.json, "json", false, "print the number of bytes that its stdin has accepted so far, as JSON")
	return cmd
}

// input is one `trl input`. One goroutine uses it.
type input struct {
	app   *app
	exec  string
	close bool
	id    string // of the whole input; random if the user gave none
	json  bool

	chunks int // written so far
	result api.ExecInputResult
}

// pass passes stdin on. If the user gave an id, all pieces but the last have the same size, so
// that a repetition has the same pieces; the size of a plain read depends on the writer.
func (in *input) pass(ctx context.Context, c *client.Client) error {
	stdin := in.app.Stdin
	var total int64
	if st, err := stdin.Stat(); err == nil && st.Mode().IsRegular() {
		total = st.Size()
	}
	progress := in.app.newProgress(total, term.IsTerminal(int(stdin.Fd())))
	defer progress.clear()
	whole := in.id != ""
	reads := make(chan read)
	go readInto(ctx, reads, stdin, whole)
	for {
		var r read
		select {
		case r = <-reads:
		case <-ctx.Done():
			return ctx.Err()
		}
		done := errors.Is(r.err, io.EOF)
		if len(r.data) > 0 || done && in.close {
			if err := in.write(ctx, c, r.data, done && in.close); err != nil {
				return err
			}
			progress.add(len(r.data))
		}
		if done {
			return nil
		}
		if r.err != nil {
			return fmt.Errorf("read stdin: %w", r.err)
		}
	}
}

// read is the result of one read of stdin.
type read struct {
	data []byte
	err  error
}

// readInto reads stdin in its own goroutine: a read of a terminal cannot be ended, except by the
// end of the program.
func readInto(ctx context.Context, to chan<- read, from *os.File, whole bool) {
	widen(from)
	b := make([]byte, inputChunk)
	if whole {
		b = b[:wholeChunk]
	}
	for {
		var r read
		var n int
		if whole {
			if n, r.err = io.ReadFull(from, b); errors.Is(r.err, io.ErrUnexpectedEOF) {
				r.err = io.EOF
			}
		} else {
			n, r.err = from.Read(b)
		}
		r.data = bytes.Clone(b[:n]) // the client keeps it
		select {
		case to <- r:
		case <-ctx.Done():
			return
		}
		if r.err != nil {
			return
		}
	}
}

// write writes one piece. It waits for a command that has not read its earlier input.
func (in *input) write(ctx context.Context, c *client.Client, data []byte, end bool) error {
	p := api.ExecInputParams{ExecID: in.exec, Bytes: data, Close: end, WriteID: in.nextID()}
	var pause ui.Backoff
	for {
		var err error
		in.result, err = c.ExecInput(ctx, p)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != api.CodeResourcePressure {
			return err
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// nextID returns the id of the next piece.
func (in *input) nextID() string {
	if in.id == "" {
		in.id = rand.Text()
	}
	in.chunks++
	return fmt.Sprintf("%s/%d", in.id, in.chunks)
}

// inputHint adds a hint to the error about a closed stdin.
func inputHint(err error) error {
	if errors.Is(err, (&api.Error{Code: api.CodeConflict}).Because(api.ReasonStdinClosed)) {
		return ui.WithHint(err, "`trl start --stdin` starts a command whose stdin is open")
	}
	return err
}
