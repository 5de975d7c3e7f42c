package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// interruptible is for commands that only look on: the first signal ends the context, and
// nothing else. The returned function tells what to answer then: the status of one that died
// of the signal, instead of the error that came of it.
func interruptible(parent context.Context) (ctx context.Context, answer func(error) error) {
	var signals []os.Signal
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
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

// untilSignal is done, with the signal as its cause, when the daemon shall end.
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
