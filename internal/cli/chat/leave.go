package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// signal handles a signal. The first Ctrl-C interrupts the agent, a second one leaves; any other
// signal leaves at once.
func (t *talk) signal(ctx context.Context, s os.Signal) error {
	if s != unix.SIGINT {
		return ui.ExitBySignal(s)
	}
	again := t.leaving || !t.pressed.IsZero() && (time.Since(t.pressed) < twice || !t.busy())
	t.pressed = time.Now()
	t.view.midLine = t.view.midLine || t.editor == nil // the terminal shows ^C
	t.view.endLine()
	t.promptAt, t.unfinished = -1, ""
	if t.editor != nil {
		history{t.editor}.dropPart()
	}
	switch {
	case again:
		return errLeaves
	case t.busy():
		t.view.note(ui.Dim, "interrupting; Ctrl-C again leaves")
		go t.interrupt(ctx)
	default:
		t.view.note(ui.Dim, "Ctrl-C again leaves")
	}
	if t.asking != nil { // the interrupt most likely closes the request
		t.promptAt = t.view.written
	}
	return nil
}

// leave ends the agent, unless it goes on, and prints the command that continues the dialogue.
func (t *talk) leave(ctx context.Context, signals <-chan os.Signal, cause error) error {
	if t.progress.end != nil || cause == nil || errors.Is(cause, io.EOF) {
		if e := t.progress.end; e != nil && e.Cause != "closed" && e.Cause != "exited" {
			cause = ui.ExitWith(ui.ExitBroken)
		} else {
			cause = nil
		}
		t.ours = false
	}
	if errors.Is(cause, errLeaves) {
		cause = nil
	}
	if errors.Is(cause, ui.ErrStopped) {
		return ui.WithHint(fmt.Errorf("dialogue %s: %w", t.dialogueName(), cause), "the agent has ended with it: `trl chat --resume %s` continues", t.info.DialogueID)
	}
	if errors.Is(cause, api.ErrRuntimeUnavailable) {
		return ui.WithHint(fmt.Errorf("dialogue %s: %w", t.dialogueName(), cause), "the agent keeps running: use `trl chat --dialogue %s` when a daemon runs", t.dialogueName())
	}
	next := "--resume"
	if !t.ours && t.progress.end == nil {
		next = "--dialogue"
	}
	err := t.closeOrInterrupt(ctx, signals, func() { t.view.note(ui.Dim, "ending the agent; Ctrl-C leaves without waiting") })
	t.streams.Stderr.Line(t.streams.Stderr.Paint(ui.Dim, fmt.Sprintf("trl: to continue: trl chat %s %s", next, t.info.DialogueID)))
	if cause != nil {
		return cause
	}
	return err
}
