package cli

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
	// frameTime is how often the screen is drawn at most.
	frameTime = 16 * time.Millisecond
	// passAtOnce is how much output waits for a terminal that has not taken what it was given
	// last, and passedAtOnce the piece in which that is counted.
	passAtOnce, passedAtOnce = 32 << 10, 4 << 10
	// slowTime is how long a terminal may take for that. One that takes longer does not see
	// everything any more, see view.Window.Skip.
	slowTime = 100 * time.Millisecond
	// stuckTime is how long a terminal may take nothing at all until no more output is fetched
	// for it.
	stuckTime = time.Second
	// holdTime is how long the beginning of a key's sequence waits for its rest.
	holdTime = 50 * time.Millisecond
	// againTime is how long the key that leaves waits for a second press, which types it.
	againTime = 300 * time.Millisecond
	// measureTime is how long a window must have kept its size before it is told.
	measureTime = 40 * time.Millisecond
	// settleTime is how long a terminal may take to follow the size of the window.
	settleTime = 400 * time.Millisecond
)

// viewer is one person who looks at a terminal and types. The goroutine that calls run
// does all that touches the person's terminal.
//
// Goroutines: one that receives, one that reads what is typed, one that types it, one for
// each size that is told, and that of the ttyOut. All end with run.
type viewer struct {
	app      *app
	client   *client.Client
	session  string // its id
	name     string // as the person calls it
	readOnly bool
	take     bool
	asIs     bool // its terminal is given UTF-8, whatever the locale
	fresh    bool // it was made for this person, who sees all of it
	quiet    bool // that its program has ended needs no words
	keys     *view.Keys

	interrupt *view.Keys // ctrl-c, which leaves when it is read-only

	tty    *ui.Terminal
	out    *ttyOut
	window *view.Window
	stream *client.Stream
	typist *typist
	output []byte // was fetched, and is still to be shown

	events  chan happened
	typed   chan []byte // closed when the terminal is gone
	panics  chan any
	settle  *time.Timer // the terminal should have the window's size
	measure *time.Timer // the window has kept its size
	hold    *time.Timer // what is held back is let go
	slow    *time.Timer // the terminal has had the time to take what it was given
	again   *time.Timer // the key that leaves was pressed once
	outage  ui.Outage
	frame   time.Time // when the screen was drawn last
}

// happened is what the receiver tells.
type happened struct {
	ev   api.StreamEvent
	err  error // of the stream, which has ended
	away error // the connection is lost; nothing else is set
	back bool  // it is there again; nothing else is set
}

// seen is how the looking ended: the program's outcome, or none when the person left.
type seen struct{ outcome *api.ExecOutcome }

// run shows the terminal until its program ends or the person leaves.
func (v *viewer) run(parent context.Context) (end seen, err error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	cols, rows := v.tty.Size()
	p := api.SessionAttachParams{SessionID: v.session, ReadOnly: v.readOnly, Size: ui.ValidSize(cols, rows)}
	p.TakeSize = v.take && p.Size != nil
	if v.fresh { // also when its program has ended already
		p.FromOffset = new(int64)
	}
	s, err := v.client.SessionAttach(ctx, p)
	if err != nil {
		return end, err
	}
	defer s.Close()
	v.stream = s.(*client.Stream)
	v.out = &ttyOut{f: v.tty.Out}
	v.window = view.New(v.writer(), cols, rows)
	v.interrupt, _ = view.NewKeys("ctrl-c")
	v.events, v.typed, v.panics = make(chan happened, 1), make(chan []byte), make(chan any, 1)
	for _, t := range []**time.Timer{&v.settle, &v.measure, &v.hold, &v.again, &v.slow} {
		*t = time.NewTimer(time.Hour)
		(*t).Stop()
	}
	v.outage = ui.NewOutage()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP)
	defer signal.Stop(signals)
	if err := v.tty.Raw(); err != nil {
		return end, fmt.Errorf("terminal: %w", err)
	}
	defer func() { v.leave(end.outcome != nil) }() // also when this panics

	v.stream.Watch(func(lost error) { v.tell(ctx, happened{away: lost, back: lost == nil}) })
	v.start(func() { v.receive(ctx) })
	v.start(func() { v.read(ctx) })
	if !v.readOnly {
		v.typist = newTypist(v.client, v.session)
		v.start(func() { v.typist.run(ctx) })
	}
	return v.loop(ctx, signals)
}

// writer is where the window is written to.
func (v *viewer) writer() io.Writer {
	if v.asIs || unicodeTerminal() {
		return v.out
	}
	return asciiWriter{v.out}
}

// start runs f in a goroutine whose panic is that of the loop, which cleans up.
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

// leave makes the person's terminal what it was; with the last screen, when the program
// has ended.
func (v *viewer) leave(ended bool) {
	defer v.tty.Restore()
	v.tty.Stop()
	_ = v.window.Leave(ended)
	if !v.out.finish() {
		v.app.Stderr.Mute()
	}
}

// receive passes on what the stream brings.
func (v *viewer) receive(ctx context.Context) {
	for {
		ev, err := v.stream.Recv()
		if !v.tell(ctx, happened{ev: ev, err: err}) || err != nil {
			return
		}
	}
}

func (v *viewer) tell(ctx context.Context, h happened) bool {
	select {
	case v.events <- h:
		return true
	case <-ctx.Done():
		return false
	}
}

// read passes on what is typed.
func (v *viewer) read(ctx context.Context) {
	defer close(v.typed)
	for {
		b := make([]byte, 32<<10)
		n, err := v.tty.Read(b)
		if n > 0 {
			select {
			case v.typed <- b[:n]:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// loop is where everything comes together.
func (v *viewer) loop(ctx context.Context, signals <-chan os.Signal) (seen, error) {
	var failed <-chan error
	if v.typist != nil {
		failed = v.typist.failed
	}
	for {
		events, written := v.fetches(), (<-chan struct{})(nil)
		if more := events != nil && len(v.events) > 0 && time.Since(v.frame) < frameTime; !more && !v.out.busy() {
			_ = v.window.Flush() // an error is seen below
			v.frame = time.Now()
		}
		if v.out.busy() {
			written = v.out.written()
		}
		if v.out.failed() != nil {
			return seen{}, hungUp(signals)
		}
		select {
		case <-written:
		case h := <-events:
			if end, done, err := v.happen(h); done {
				return end, err
			}
		case p, ok := <-v.typed:
			if !ok {
				return seen{}, hungUp(signals)
			}
			if v.takeTyped(p) {
				return v.detach()
			}
		case <-v.slow.C: // see fetches
		case <-v.hold.C:
			v.send(v.keys.Release())
		case <-v.again.C:
			return v.detach()
		case s := <-signals:
			switch s {
			case unix.SIGWINCH:
				v.measure.Reset(measureTime)
			case unix.SIGTSTP:
				v.suspend()
			default:
				return seen{}, ui.ExitBySignal(s)
			}
		case <-v.measure.C:
			v.resized(ctx)
		case <-v.settle.C:
			v.window.Settle()
		case <-v.outage.Notice.C:
			v.window.Notice("trl: the daemon is away; reconnecting…")
		case <-v.outage.Stopped.C:
			return seen{}, ui.ErrStopped
		case err := <-failed:
			failed = nil // what has ended is told by the stream
			if !errors.Is(err, api.ErrSessionTerminated) && ctx.Err() == nil {
				return seen{}, err
			}
		case p := <-v.panics:
			panic(p)
		case <-ctx.Done():
			return seen{}, ctx.Err()
		}
	}
}

// fetches shows what was fetched as far as the terminal takes it, and returns where more
// comes from, or nil while there is enough. A terminal that is quick enough is given
// everything. One that is too slow is given the screen as it is whenever it has taken the one
// before: what is on its way to it stays small. Nothing is done for one that takes nothing at
// all, so that a window that somebody has stopped costs nothing.
func (v *viewer) fetches() <-chan happened {
	for {
		queued, stuck := v.out.waits()
		full := v.window.Pending() >= passAtOnce && !v.window.Skipping()
		switch {
		case queued == 0 && full: // it is written first
			_ = v.window.Flush() // an error is seen by loop
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

// hungUp is how it ends when the terminal is gone: by SIGHUP, unless another signal came
// before.
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
