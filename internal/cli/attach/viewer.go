package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/terminal/view"
)

const (
	// passAtOnce is how much output may wait while the person's terminal still writes; the
	// viewer passes it on in pieces of passedAtOnce.
	passAtOnce, passedAtOnce = 32 << 10, 4 << 10
	// slowTime is how long the person's terminal may take to write that much. A slower terminal
	// no longer gets all output, see view.Window.Skip.
	slowTime = 100 * time.Millisecond
	// stuckTime is how long the person's terminal may accept nothing before the viewer stops
	// fetching output.
	stuckTime = time.Second
	// holdTime is how long the beginning of a key's sequence waits for the rest.
	holdTime = 50 * time.Millisecond
	// againTime is how long the detach key waits for a second press, which types it.
	againTime = 300 * time.Millisecond
	// measureTime is how long a window must have kept its size before the viewer reports it.
	measureTime = 40 * time.Millisecond
	// settleTime is how long the session's terminal may take to follow the size of the window.
	settleTime = 400 * time.Millisecond
)

// viewer shows a terminal to one person. Only the goroutine that calls run touches the person's
// terminal.
//
// Goroutines: one receives from the stream, one reads keys, one types them into the session, one
// reports each new size of the window, and one belongs to the TerminalWriter. All end with run.
type viewer struct {
	Options
	streams ui.Streams
	client  *client.Client

	interrupt *view.Keys // Ctrl-C, which detaches a read-only viewer

	terminal *ui.Terminal
	out      *ui.TerminalWriter
	window   *view.Window
	stream   *client.Stream
	typist   *typist
	output   []byte // received, but not shown yet

	events  chan update
	typed   chan []byte // closed when the person's terminal hangs up
	panics  chan any
	settle  *time.Timer // the session's terminal should have the size of the window by now
	measure *time.Timer // the window has kept its size for a while
	hold    *time.Timer // the rest of a key's sequence did not come
	slow    *time.Timer // the person's terminal should have written its output by now
	again   *time.Timer // the detach key was not pressed again
	outage  ui.Outage
	frame   time.Time // when the viewer last drew the screen
}

// update is one message of the receiving goroutine.
type update struct {
	ev   api.StreamEvent
	err  error // the stream has ended with it
	away error // the connection is lost; nothing else is set
	back bool  // the connection is back; nothing else is set
}

// run shows the terminal until its program ends or the person detaches. The outcome is nil if
// the person detached.
func (v *viewer) run(parent context.Context) (outcome *api.ExecOutcome, err error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	cols, rows := v.terminal.Size()
	p := api.SessionAttachParams{SessionID: v.Session, ReadOnly: v.ReadOnly, Size: ui.ValidSize(cols, rows)}
	p.TakeSize = v.TakeSize && p.Size != nil
	if v.Fresh { // so that output is shown also if the program has already ended
		p.FromOffset = new(int64)
	}
	s, err := v.client.SessionAttach(ctx, p)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	v.stream = s.(*client.Stream)
	v.out = ui.NewTerminalWriter(v.terminal.Out)
	v.window = view.New(v.writer(), cols, rows)
	v.interrupt, _ = view.NewKeys("ctrl-c")
	v.events, v.typed, v.panics = make(chan update, 1), make(chan []byte), make(chan any, 1)
	for _, t := range []**time.Timer{&v.settle, &v.measure, &v.hold, &v.again, &v.slow} {
		*t = time.NewTimer(time.Hour)
		(*t).Stop()
	}
	v.outage = ui.NewOutage()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP)
	defer signal.Stop(signals)
	if err := v.terminal.Raw(); err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	defer func() { v.leave(outcome != nil) }() // also when this panics

	v.stream.Watch(func(lost error) { v.post(ctx, update{away: lost, back: lost == nil}) })
	v.start(func() { v.receive(ctx) })
	v.start(func() { ui.ReadChunks(v.terminal, 32<<10, v.typed, ctx.Done()) })
	if !v.ReadOnly {
		v.typist = newTypist(v.client, v.Session)
		v.start(func() { v.typist.run(ctx) })
	}
	return v.loop(ctx, signals)
}

// writer returns the writer that the window writes to.
func (v *viewer) writer() io.Writer {
	if v.UTF8 {
		return v.out
	}
	return v.out.InLocale()
}

// start runs f in a goroutine. A panic of f becomes a panic of the loop, which restores the
// person's terminal.
func (v *viewer) start(f func()) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				v.panics <- p
			}
		}()
		f()
	}()
}

// leave restores the person's terminal. If the program has ended, its last screen stays.
func (v *viewer) leave(ended bool) {
	defer v.terminal.Restore()
	v.terminal.Stop()
	_ = v.window.Leave(ended)
	if !v.out.Finish() {
		v.streams.Stderr.Mute()
	}
}

// receive passes on the events of the stream.
func (v *viewer) receive(ctx context.Context) {
	for {
		ev, err := v.stream.Recv()
		if !v.post(ctx, update{ev: ev, err: err}) || err != nil {
			return
		}
	}
}

// post passes an update to the loop. It reports whether the loop still runs.
func (v *viewer) post(ctx context.Context, u update) bool {
	select {
	case v.events <- u:
		return true
	case <-ctx.Done():
		return false
	}
}

// loop handles everything that happens, one thing at a time.
func (v *viewer) loop(ctx context.Context, signals <-chan os.Signal) (*api.ExecOutcome, error) {
	var failed <-chan error
	if v.typist != nil {
		failed = v.typist.failed
	}
	for {
		events, written := v.fetches(), (<-chan struct{})(nil)
		if more := events != nil && len(v.events) > 0 && time.Since(v.frame) < ui.FrameTime; !more && !v.out.Busy() {
			_ = v.window.Flush() // an error shows up below
			v.frame = time.Now()
		}
		if v.out.Busy() {
			written = v.out.Written()
		}
		if v.out.Failed() != nil {
			return nil, hungUp(signals)
		}
		select {
		case <-written:
		case u := <-events:
			if outcome, done, err := v.handle(u); done {
				return outcome, err
			}
		case p, ok := <-v.typed:
			if !ok {
				return nil, hungUp(signals)
			}
			if v.handleKeys(p) {
				return v.detach()
			}
		case <-v.slow.C: // see fetches
		case <-v.hold.C:
			v.send(v.Keys.Release())
		case <-v.again.C:
			return v.detach()
		case s := <-signals:
			switch s {
			case unix.SIGWINCH:
				v.measure.Reset(measureTime)
			case unix.SIGTSTP:
				v.suspend()
			default:
				return nil, ui.ExitBySignal(s)
			}
		case <-v.measure.C:
			v.resized(ctx)
		case <-v.settle.C:
			v.window.Settle()
		case <-v.outage.Notice.C:
			v.window.Notice("trl: the daemon is away; reconnecting…")
		case <-v.outage.Stopped.C:
			return nil, ui.ErrStopped
		case err := <-failed:
			failed = nil // the stream reports the end of the session
			if !errors.Is(err, api.ErrSessionTerminated) && ctx.Err() == nil {
				return nil, err
			}
		case p := <-v.panics:
			panic(p)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fetches shows received output as far as the person's terminal keeps up. It returns the channel
// with further updates, or nil while the terminal has enough to write. A fast terminal gets all
// output. A slow one gets the whole screen each time it has written the last one, so that little
// output is on its way to it. For a terminal that accepts nothing, the viewer does nothing: a
// stopped window costs nothing.
func (v *viewer) fetches() <-chan update {
	for {
		queued, stuck := v.out.Waits()
		full := v.window.Pending() >= passAtOnce && !v.window.Skipping()
		switch {
		case queued == 0 && full: // write that first
			_ = v.window.Flush() // loop sees an error
			continue
		case queued == 0 || !full && stuck < stuckTime:
		case stuck >= stuckTime:
			return nil
		case queued >= slowTime:
			v.window.Skip()
		default:
			v.slow.Reset(slowTime - queued)
			return nil
		}
		if len(v.output) == 0 {
			return v.events
		}
		n := min(len(v.output), passedAtOnce)
		v.window.Output(v.output[:n])
		v.output = v.output[n:]
	}
}

// hungUp returns the exit status after the person's terminal hung up: that of SIGHUP, unless
// another signal came first.
func hungUp(signals <-chan os.Signal) error {
	for {
		select {
		case s := <-signals:
			if s != unix.SIGWINCH && s != unix.SIGTSTP {
				return ui.ExitBySignal(s)
			}
		default:
			return ui.ExitBySignal(unix.SIGHUP)
		}
	}
}
