package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// happen takes what the receiver tells. It reports whether that was the end.
func (v *viewer) happen(h happened) (end seen, done bool, err error) {
	switch {
	case h.away != nil:
		v.outage.Begin(h.away)
		return end, false, nil
	case h.back:
		v.outage.End()
		v.window.Notice("")
		return end, false, nil
	case errors.Is(h.err, io.EOF):
		return end, true, errors.New("the daemon did not report how the program ended")
	case h.err != nil:
		return end, true, h.err
	}
	ev := h.ev
	switch data := api.Data(ev.Data, ev.DataBase64); ev.Type {
	case api.EventSnapshot:
		v.window.Status(v.status(ev))
		v.window.Snapshot(data, ev.Cols, ev.Rows)
	case api.EventOutput:
		v.output = data // shown by fetches
	case api.EventResize:
		v.window.Status(v.status(ev))
		if !v.window.Shown() { // the first push of a stream from the beginning
			v.window.Snapshot(nil, ev.Cols, ev.Rows)
		}
		v.window.Resize(ev.Cols, ev.Rows)
	case api.EventExit:
		if ev.ExecOutcome == nil {
			ev.ExecOutcome = &api.ExecOutcome{}
		}
		return seen{ev.ExecOutcome}, true, v.window.Flush()
	}
	return end, false, nil
}

// status is what a person whose window has another size is told.
func (v *viewer) status(ev api.StreamEvent) string {
	size := fmt.Sprintf("%s: %dx%d", v.name, ev.Cols, ev.Rows)
	switch {
	case v.readOnly:
		return size + ", read-only"
	case ev.OwnerID == "":
		return size
	case ev.OwnerID == v.stream.Start().ViewerID:
		return size + ", following this window"
	}
	return size + ", the size of another viewer; --take makes it yours"
}

// takeTyped takes what was typed. It reports whether the key to leave was among it.
func (v *viewer) takeTyped(p []byte) (detach bool) {
	v.keys.Encoded = v.window.Encoded()
	typed, detach := v.keys.Scan(p)
	v.send(typed)
	v.hold.Stop()
	if v.keys.Held() {
		v.hold.Reset(holdTime)
	}
	v.again.Stop()
	if v.keys.Pressed() {
		v.again.Reset(againTime)
	}
	if v.readOnly && !detach {
		_, detach = v.interrupt.Scan(typed) // ctrl-c has nobody else to go to
	}
	return detach
}

func (v *viewer) send(typed []byte) {
	if v.typist == nil || len(typed) == 0 {
		return
	}
	if typed = v.window.Typed(typed); len(typed) > 0 && !v.typist.add(typed) {
		_, _ = v.out.Write([]byte("\a"))
	}
}

// detach leaves, when what was typed before is where it belongs.
func (v *viewer) detach() (seen, error) {
	if v.typist != nil {
		v.typist.finish()
	}
	return seen{}, nil
}

// resized measures the window and tells its size.
func (v *viewer) resized(ctx context.Context) {
	cols, rows := v.tty.Size()
	v.window.Measure(cols, rows)
	v.settle.Reset(settleTime)
	if size := ui.ValidSize(cols, rows); size != nil && !v.readOnly {
		// An error needs no answer: the size is told again when the stream is attached again.
		v.start(func() { _, _ = v.stream.Resize(ctx, size.Cols, size.Rows) })
	}
}

// suspend stops the program, with a terminal that others can use meanwhile.
func (v *viewer) suspend() {
	_ = v.window.Leave(false)
	v.out.finish()
	v.tty.Restore()
	_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	_ = v.tty.Raw()
	v.window.Measure(v.tty.Size())
	v.window.Repaint()
	v.measure.Reset(measureTime)
}
