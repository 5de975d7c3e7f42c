package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/cli/early"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// interruptible returns a context that the first signal ends, for commands that only watch.
// answer replaces the error that a signal caused by the exit status of that signal; it must be
// called once, at the end.
func interruptible(parent context.Context) (ctx context.Context, answer func(error) error) {
	var signals []os.Signal
	for _, s := range early.EndSignals {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	if len(signals) == 0 {
		return parent, func(err error) error { return err }
	}
	ctx, cancel := context.WithCancelCause(parent)
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, signals...)
	go func() { // ends with the context
		select {
		case s := <-arrived:
			cancel(ui.ExitBySignal(s))
		case <-ctx.Done():
		}
	}()
	return ctx, func(err error) error {
		defer cancel(nil)
		defer signal.Stop(arrived)
		if ctx.Err() != nil && err != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// untilSignal returns a context that ends, with the signal as its cause, when a signal asks the
// daemon to stop.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	go func() {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("got %s", unix.SignalName(s.(unix.Signal))))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}
