package runner

import (
	"context"
	"errors"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/recent"
	"github.com/trl-dev/trl/internal/shell"
)

// writesKept is how many write ids an exec remembers.
const writesKept = 1024

// input is exec.input. It answers when the bytes are in the queue of the exec's stdin.
func (r *Runner) input(ctx context.Context, q *link.Request[*link.InputParams, *api.ExecInputResult]) error {
	p := *q.Params
	e, err := r.find(p.ExecID)
	if err != nil {
		return err
	}
	var res api.ExecInputResult
	if p.Pty != nil {
		if err := e.resize(*p.Pty); err != nil {
			return err
		}
	}
	if t := terminalOf(e); t != nil {
		var typed api.SessionInputResult
		typed, err = t.Input(ctx, link.SessionInputParams{WriteID: p.WriteID, Close: p.Close}, q.Body)
		res = api.ExecInputResult{ExecID: e.ID, StdinBytes: typed.Written, Repeated: typed.Repeated}
	} else {
		res, err = e.input(ctx, p, q.Body)
	}
	if err == nil {
		q.Answer(&res, nil)
	}
	return err
}

// resize changes the size of the terminal of a program beside the shell.
func (e *Exec) resize(size api.PTYSize) error {
	b := besideOf(e)
	if b == nil || b.pty == nil {
		return api.Errorf(api.CodeInvalidParams, `params.pty: exec %q was not started with "pty"`, e.ID)
	}
	run := b.run.Load()
	if run == nil {
		return api.Errorf(api.CodeConflict, "exec %q: has not started", e.ID)
	}
	if err := run.tty.Resize(size.Cols, size.Rows); err != nil {
		return api.Errorf(api.CodeConflict, "exec %q: its terminal is closed", e.ID)
	}
	return nil
}

func (e *Exec) input(ctx context.Context, p link.InputParams, data []byte) (api.ExecInputResult, error) {
	if b := besideOf(e); b != nil && b.pty != nil && p.Close {
		return api.ExecInputResult{}, api.Errorf(api.CodeInvalidParams, "params.close: exec %q has a terminal, where the character ctrl-d ends the input", e.ID)
	}
	res, wake, err := e.write(p, data)
	if wake {
		e.task.wake()
	}
	if errors.Is(err, shell.ErrInputUnread) {
		if len(data) == 0 && p.Close { // the stdin is closed, as the caller wants it
			return res, nil
		}
		if e.task.Running() {
			return res, api.Errorf(api.CodeConflict, "exec %q: its stdin is closed; no process reads it", e.ID)
		}
		select { // the command is about to end
		case <-e.ended:
			return res, e.hasEnded()
		case <-ctx.Done():
			return res, ctx.Err()
		}
	}
	return res, err
}

// write hands data to the command. Writes are serialised, so that a repetition finds the answer
// of the first.
func (e *Exec) write(p link.InputParams, data []byte) (res api.ExecInputResult, wake bool, err error) {
	e.writeMu.Lock()
	defer e.writeMu.Unlock()
	if e.writes != nil && p.WriteID != "" {
		if res, ok := e.writes.Get(p.WriteID); ok {
			res.Repeated = true
			return res, false, nil
		}
	}
	in := e.task.stdin()
	select {
	case <-e.ended:
		if in == nil || len(data) > 0 || !p.Close {
			return res, false, e.hasEnded()
		}
		// A caller that only closes the input may come too late, when the command has read enough.
		// That is no error.
	default:
	}
	switch {
	case in == nil:
		return res, false, api.Errorf(api.CodeConflict, `exec %q: was not started with open stdin; set "stdin_open": true in exec.start or exec.stream`, e.ID).Because(api.ReasonStdinClosed)
	case e.maxStdin > 0 && int64(len(data)) > e.maxStdin:
		return res, false, api.Errorf(api.CodeRequestTooLarge, "params.data: %d bytes, at most %d (max_stdin_bytes)", len(data), e.maxStdin)
	}
	taken, pending, wake, err := in.Write(data, p.Close)
	res = api.ExecInputResult{ExecID: e.ID, StdinBytes: taken, Closed: p.Close}
	switch {
	case errors.Is(err, shell.ErrInputClosed):
		err = api.Errorf(api.CodeConflict, "exec %q: its input is already closed", e.ID)
	case errors.Is(err, shell.ErrInputFull):
		err = api.Errorf(api.CodeResourcePressure, "exec %q: %d bytes of input are waiting, and %d more would exceed %d (max_stdin_bytes); try again later",
			e.ID, pending, len(data), e.maxStdin)
	case err == nil:
		if p.WriteID == "" {
			break
		}
		if e.writes == nil {
			e.writes = recent.New[api.ExecInputResult](writesKept)
		}
		e.writes.Put(p.WriteID, res)
	}
	return res, wake, err
}

// hasEnded is the error of a write to an ended exec.
func (e *Exec) hasEnded() error {
	oc, err := e.result()
	if oc == nil {
		return api.Errorf(api.CodeConflict, "exec %q: could not be run: %s", e.ID, err)
	}
	return api.Errorf(api.CodeConflict, "exec %q: has ended (exit code %d)", e.ID, oc.ExitCode)
}
