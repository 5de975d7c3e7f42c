package attach

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// handle takes an update of the stream. done reports that it was the last.
func (v *viewer) handle(u update) (outcome *api.ExecOutcome, done bool, err error) {
	switch {
	case u.away != nil:
		v.outage.Begin(u.away)
		return nil, false, nil
	case u.back:
		v.outage.End()
		v.window.Notice("")
		return nil, false, nil
	case errors.Is(u.err, io.EOF):
		return nil, true, errors.New("the daemon did not report how the program ended")
	case u.err != nil:
		return nil, true, u.err
	}
	ev := u.ev
	switch data := api.Data(ev.Data, ev.DataBase64); ev.Type {
	case api.EventSnapshot:
		v.window.Status(v.status(ev))
		v.window.Snapshot(data, ev.Cols, ev.Rows)
	case api.EventOutput:
		v.output = data // fetches shows it
	case api.EventResize:
		v.window.Status(v.status(ev))
		if !v.window.Shown() { // the first event of a stream that starts at the beginning
			v.window.Snapshot(nil, ev.Cols, ev.Rows)
		}
		v.window.Resize(ev.Cols, ev.Rows)
	case api.EventExit:
		if ev.ExecOutcome == nil {
			ev.ExecOutcome = &api.ExecOutcome{}
		}
		return ev.ExecOutcome, true, v.window.Flush()
	}
	return nil, false, nil
}

// status is the status line for a window whose size differs from that of the terminal.
func (v *viewer) status(ev api.StreamEvent) string {
	size := fmt.Sprintf("%s: %dx%d", v.Name, ev.Cols, ev.Rows)
	switch {
	case v.ReadOnly:
		return size + ", read-only"
	case ev.OwnerID == "":
		return size
	case ev.OwnerID == v.stream.Start().ViewerID:
		return size + ", following this window"
	}
	return size + ", the size of another viewer; --take makes it yours"
}

// handleKeys takes keys. It reports whether the detach key was among them.
func (v *viewer) handleKeys(p []byte) (detach bool) {
	v.Keys.Encoded = v.window.Encoded()
	typed, detach := v.Keys.Scan(p)
	v.send(typed)
	v.hold.Stop()
	if v.Keys.Held() {
		v.hold.Reset(holdTime)
	}
	v.again.Stop()
	if v.Keys.Pressed() {
		v.again.Reset(againTime)
	}
	if v.ReadOnly && !detach {
		_, detach = v.interrupt.Scan(typed) // no program gets the Ctrl-C of a read-only viewer
	}
	return detach
}

// send types keys into the session, and rings the bell if too many are waiting.
func (v *viewer) send(typed []byte) {
	if v.typist == nil || len(typed) == 0 {
		return
	}
	if typed = v.window.Typed(typed); len(typed) > 0 && !v.typist.add(typed) {
		_, _ = v.out.Write([]byte("\a"))
	}
}

// detach leaves once the earlier keys have arrived.
func (v *viewer) detach() (*api.ExecOutcome, error) {
	if v.typist != nil {
		v.typist.finish()
	}
	return nil, nil
}

// resized measures the window and reports its size to the session.
func (v *viewer) resized(ctx context.Context) {
	cols, rows := v.terminal.Size()
	v.window.Measure(cols, rows)
	v.settle.Reset(settleTime)
	if size := ui.ValidSize(cols, rows); size != nil && !v.ReadOnly {
		// After an error, the stream reports the size again when it reconnects.
		v.start(func() { _, _ = v.stream.Resize(ctx, size.Cols, size.Rows) })
	}
}

// suspend stops trl, as Ctrl-Z does elsewhere, and restores the terminal for other programs
// meanwhile.
func (v *viewer) suspend() {
	_ = v.window.Leave(false)
	v.out.Finish()
	v.terminal.Restore()
	_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	_ = v.terminal.Raw()
	v.window.Measure(v.terminal.Size())
	v.window.Repaint()
	v.measure.Reset(measureTime)
}
