package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/terminal/cast"
	"github.com/trl-dev/trl/internal/terminal/view"
)

func (a *app) playCommand() *cobra.Command {
	p := &player{app: a}
	var idle ui.SecondsFlag
	cmd := &cobra.Command{
		Use:     "play FILE|SESSION",
		GroupID: groupTerminals,
		Short:   "Play a recording",
		Long: `Play a recording: a file (asciicast, version 2 or 3), or the recording of a session. Space
pauses and continues, q or Ctrl-C leaves.

If stdout is not a terminal, all of it is printed at once.`,
		Example: `  trl play demo.cast
  trl play demo.cast --speed 3 --idle-limit 1
  trl play demo.cast > all             the whole output, without pauses`,
		Args: ui.NameArgs(1, 1, "one file or session"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(p.speed >= minSpeed && p.speed <= maxSpeed) { // also rejects NaN
				return ui.UsageErrorf(cmd, "--speed: %v: must be %v to %d", p.speed, minSpeed, maxSpeed)
			}
			if idle.Value != nil {
				p.idle = time.Duration(*idle.Value * float64(time.Second))
			}
			ctx, answer := interruptible(cmd.Context())
			var c *client.Client
			if !isFile(args[0]) {
				var err error
				if c, err = a.connect(cmd); err != nil {
					return err
				}
				defer c.Close()
			}
			r, closeFile, err := a.openRecording(ctx, c, args[0])
			if err != nil {
				return answer(err)
			}
			defer closeFile()
			if idle.Value == nil {
				p.idle = r.Header().IdleLimit
			}
			if !a.Stdout.TTY {
				err = p.print(ctx, r)
			} else {
				err = p.play(ctx, r)
			}
			var f *ui.Failure
			switch {
			case errors.Is(err, errLeft):
				err = nil
			case err != nil && !errors.As(err, &f):
				err = fmt.Errorf("%s: %w", args[0], err)
			}
			return answer(err)
		},
		ValidArgsFunction: a.completeRecordings,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Float64Var(&p.speed, "speed", 1, "play faster by this factor")
	flags.Var(&idle, "idle-limit", "pause at most this long (default: from the recording)")
	return cmd
}

// The bounds of --speed.
const (
	minSpeed = 0.001
	maxSpeed = 1_000_000
)

// longestPause bounds a pause, so that it does not overflow.
const longestPause = 365 * 24 * time.Hour

// player is one `trl play`. One goroutine uses it.
//
// Goroutines: one reads keys, until the end of the program; the TerminalWriter has its own.
type player struct {
	app   *app
	speed float64
	idle  time.Duration // longest pause; 0 for no limit

	tty    *ui.Terminal
	out    *ui.TerminalWriter
	window *view.Window
	keys   chan byte
	due    time.Time // when to show the next event
	last   time.Duration
	frame  time.Time // when the screen was last drawn
}

// errLeft is the result of play when the person leaves.
var errLeft = errors.New("left")

// print prints the whole output of the recording.
func (p *player) print(ctx context.Context, r *cast.Reader) error {
	p.out = ui.NewTerminalWriter(p.app.Stdout.File)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Code != cast.Output {
			continue
		}
		_, _ = p.out.Write([]byte(e.Data))
		select {
		case <-p.out.Written():
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := p.out.Failed(); err != nil {
			return err
		}
	}
}

// play shows the recording at its speed.
func (p *player) play(ctx context.Context, r *cast.Reader) error {
	if err := ui.CheckWindow("trl play", "`trl export FILE --text` prints the last screen"); err != nil {
		return err
	}
	p.tty = ui.NewTerminal(p.app.Stdin, p.app.Stdout.File)
	p.keys = make(chan byte)
	if term.IsTerminal(int(p.tty.In.Fd())) {
		if err := p.tty.Raw(); err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		defer p.tty.Restore()
		defer p.tty.Stop()
		go readKeys(ctx, p.tty, p.keys)
	}
	p.out = ui.NewTerminalWriter(p.tty.Out)
	p.window = view.New(p.out.InLocale(), 0, 0)
	p.window.Measure(p.tty.Size())
	defer func() {
		_ = p.window.Leave(true)
		if !p.out.Finish() {
			p.app.Stderr.Mute()
		}
	}()
	h := r.Header()
	p.window.Status(fmt.Sprintf("%dx%d", h.Cols, h.Rows))
	p.window.Snapshot(nil, max(h.Cols, api.MinCols), h.Rows)
	p.due = time.Now()
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			p.frame = time.Time{}
			return p.wait(ctx)
		}
		if err != nil {
			return err
		}
		if err := p.show(ctx, e); err != nil {
			return err
		}
	}
}

// show waits until an event is due, and shows it.
func (p *player) show(ctx context.Context, e cast.Event) error {
	pause := e.At - p.last
	p.last = e.At
	if p.idle > 0 {
		pause = min(pause, p.idle)
	}
	p.due = p.due.Add(time.Duration(min(float64(pause)/p.speed, float64(longestPause))))
	if err := p.wait(ctx); err != nil {
		return err
	}
	switch e.Code {
	case cast.Output:
		p.window.Output([]byte(e.Data))
	case cast.Resize:
		if cols, rows, err := e.Size(); err == nil && cols <= api.MaxCols && rows <= api.MaxRows {
			p.window.Status(fmt.Sprintf("%dx%d", cols, rows))
			p.window.Resize(max(cols, api.MinCols), rows)
		}
	}
	return nil
}

// wait waits until the next event is due, not counting pauses, and the terminal has accepted the
// output.
func (p *player) wait(ctx context.Context) error {
	left := time.Until(p.due)
	if left > 0 || time.Since(p.frame) > ui.FrameTime {
		_ = p.window.Flush() // an error shows up below
		p.frame = time.Now()
	}
	timer := time.NewTimer(max(left, 0))
	defer timer.Stop()
	var written <-chan struct{} // when it is due
	paused, since := false, time.Time{}
	for {
		select {
		case <-timer.C:
			written = p.out.Written()
		case <-written:
			if p.out.Failed() != nil { // the terminal hung up
				return ui.ExitBySignal(unix.SIGHUP)
			}
			return nil
		case key := <-p.keys:
			switch {
			case key == 'q' || key == 'Q' || key == 0x03:
				return errLeft
			case key == ' ' && !paused:
				paused, since = true, time.Now()
				timer.Stop()
				written = nil
			case key == ' ':
				paused = false
				p.due = p.due.Add(time.Since(since))
				timer.Reset(max(time.Until(p.due), 0))
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readKeys passes on the keys, byte by byte.
func readKeys(ctx context.Context, from io.Reader, to chan<- byte) {
	b := make([]byte, 256)
	for {
		n, err := from.Read(b)
		for _, key := range b[:n] {
			select {
			case to <- key:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
