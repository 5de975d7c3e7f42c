package sessiontest

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// screen is what a Runner has of kind terminal: a size, and its changes. It shows all that
// its program has written; a snapshot is that with the size before it.
type screen struct {
	cols, rows int
	resizes    []link.ResizeResult
	recording  *api.RecordingInfo
}

// startProgram starts the command of a terminal or program session. It is what Command
// of the Runtime does, with the program and its arguments as one text.
func (r *Runner) startProgram(p link.CreateParams) {
	ctx, cancel := context.WithCancel(context.Background())
	now := time.Now()
	x := &Exec{r: r, cancel: cancel, program: true, writes: map[string]api.ExecInputResult{}}
	x.Params.Command = strings.Join(p.Params.Command, " ")
	r.mu.Lock()
	x.info = api.ExecInfo{ExecID: r.execID(1), SessionID: r.id, Command: x.Params.Command, State: api.ExecRunning, QueuedAt: now, StartedAt: &now}
	r.execs[x.info.ExecID], r.order = x, []*Exec{x}
	r.info.State, r.info.ExecID, r.info.Command, r.info.CommandCount = api.SessionRunning, x.info.ExecID, p.Params.Command, 1
	if r.info.Kind == api.KindTerminal {
		r.screen.cols, r.screen.rows = p.Params.Size()
		if p.Params.Record {
			r.screen.recording = &api.RecordingInfo{Input: p.Params.RecordInput}
		}
		r.updateSizeLocked()
	}
	r.mu.Unlock()
	r.tasks.Go(func() { r.run(ctx, x) })
}

// updateSizeLocked puts the present size into the info of the session.
func (r *Runner) updateSizeLocked() {
	r.info.Terminal = &api.TerminalInfo{Cols: r.screen.cols, Rows: r.screen.rows, Recording: r.screen.recording}
}

// programEndedLocked puts the end of the program into the info of the session.
func (r *Runner) programEndedLocked(code int, now time.Time) {
	now = now.Add(r.skew)
	r.info.State, r.info.TerminatedAt, r.info.ExitCode = api.SessionTerminated, &now, &code
	r.info.Cause = fmt.Sprintf("the program exited with status %d", code)
}

// handleTerminal answers the calls of terminals and programs.
func (r *Runner) handleTerminal(ctx context.Context, name string, params json.RawMessage, body []byte) (any, []byte, error) {
	r.mu.Lock()
	var x *Exec
	if len(r.order) > 0 && r.order[0].program {
		x = r.order[0]
	}
	r.mu.Unlock()
	if x == nil {
		return nil, nil, api.Errorf(api.CodeMethodNotFound, "%s: unknown", name)
	}
	switch name {
	case link.Input.Name:
		return decoded(params, func(p link.SessionInputParams) (any, []byte, error) { return r.typed(x, p, body) })
	case link.Resize.Name:
		return decoded(params, func(p link.ResizeParams) (any, []byte, error) { return r.resize(x, p), nil, nil })
	case link.Screen.Name:
		r.mu.Lock()
		defer r.mu.Unlock()
		return api.SessionScreenResult{
			Version: uint64(x.seq), Offset: x.info.StdoutBytes, Cols: r.screen.cols, Rows: r.screen.rows, Text: string(x.streamLocked(api.EventStdout)),
		}, nil, nil
	case link.Wait.Name:
		return decoded(params, func(p api.SessionWaitParams) (any, []byte, error) { return r.awaitScreen(ctx, x, p) })
	case link.Snapshot.Name:
		r.mu.Lock()
		defer r.mu.Unlock()
		s := r.screen
		return link.SnapshotResult{Offset: x.info.StdoutBytes, Cols: s.cols, Rows: s.rows, Version: uint64(x.seq), Resizes: int64(len(s.resizes))},
			append([]byte(fmt.Sprintf("<%dx%d>", s.cols, s.rows)), x.streamLocked(api.EventStdout)...), nil
	}
	return decoded(params, func(p link.FollowParams) (any, []byte, error) { return r.follow(ctx, x, p) })
}

func decoded[P any](params json.RawMessage, f func(P) (any, []byte, error)) (any, []byte, error) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, nil, err
	}
	return f(p)
}

// typed gives the program input; a key is its name in brackets.
func (r *Runner) typed(x *Exec, p link.SessionInputParams, data []byte) (any, []byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := api.SessionInputResult{Written: x.given}
	if _, again := x.writes[p.WriteID]; again && p.WriteID != "" {
		result.Repeated = true
		return result, nil, nil
	}
	if x.info.Outcome != nil {
		return nil, nil, api.Errorf(api.CodeSessionTerminated, "session %q: has ended", r.id)
	}
	for _, key := range p.Keys {
		data = append(data, "<"+key+">"...)
	}
	x.input = append(x.input, data...)
	x.given += int64(len(data))
	x.closed = p.Close
	x.writes[p.WriteID] = api.ExecInputResult{}
	r.changedLocked()
	return api.SessionInputResult{Bytes: int64(len(data)), Written: x.given}, nil, nil
}

func (r *Runner) resize(x *Exec, p link.ResizeParams) link.ResizeResult {
	r.mu.Lock()
	now := link.ResizeResult{Cols: p.Cols, Rows: p.Rows, Offset: x.info.StdoutBytes}
	same := r.screen.cols == p.Cols && r.screen.rows == p.Rows
	if !same {
		r.screen.cols, r.screen.rows = p.Cols, p.Rows
		r.screen.resizes = append(r.screen.resizes, now)
		r.updateSizeLocked()
		r.changedLocked()
	}
	r.mu.Unlock()
	if !same {
		r.tell()
	}
	return now
}

// Sizes lists the sizes that the terminal was given, one after another.
func (r *Runner) Sizes() []api.TerminalSize {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []api.TerminalSize
	for _, s := range r.screen.resizes {
		list = append(list, api.TerminalSize{Cols: s.Cols, Rows: s.Rows})
	}
	return list
}

// awaitScreen waits for a text, a time, or the end.
func (r *Runner) awaitScreen(ctx context.Context, x *Exec, p api.SessionWaitParams) (any, []byte, error) {
	if timeout := p.Timeout(); timeout != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *timeout)
		defer cancel()
	}
	pattern := regexp.MustCompile(p.Text)
	var match string
	r.waitFor(ctx, func() bool {
		match = pattern.FindString(string(x.streamLocked(api.EventStdout)))
		return x.info.Outcome != nil || p.Text != "" && match != ""
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case p.Text != "" && match != "":
		return api.SessionWaitResult{Reason: api.WaitText, Match: match}, nil, nil
	case x.info.Outcome != nil:
		return api.SessionWaitResult{Reason: api.WaitExit, ExitCode: &x.info.Outcome.ExitCode}, nil, nil
	}
	return api.SessionWaitResult{Reason: api.WaitTimeout, TimedOut: true}, nil, nil
}

// follow reads on, up to the next change of size.
func (r *Runner) follow(ctx context.Context, x *Exec, p link.FollowParams) (any, []byte, error) {
	s := &r.screen
	pending := func() int {
		if p.Resizes >= 0 {
			return int(p.Resizes)
		}
		at := len(s.resizes)
		for at > 0 && s.resizes[at-1].Offset >= p.Offset {
			at--
		}
		return at
	}
	if p.Wait {
		r.waitFor(ctx, func() bool {
			return x.info.StdoutBytes > p.Offset || pending() < len(s.resizes) || x.info.Outcome != nil
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text, end := x.streamLocked(api.EventStdout), x.info.StdoutBytes
	gone := end - int64(len(text))
	if p.Offset < gone || p.Backlog > 0 && end-p.Offset > p.Backlog {
		return link.FollowResult{Behind: true}, nil, nil
	}
	stop := min(end, p.Offset+int64(p.Limit))
	result := link.FollowResult{Resizes: int64(pending()), Cols: s.cols, Rows: s.rows}
	if n := pending(); n < len(s.resizes) && s.resizes[n].Offset <= stop {
		stop, result.Resize = s.resizes[n].Offset, &s.resizes[n]
		result.Resizes++
		result.Cols, result.Rows = result.Resize.Cols, result.Resize.Rows
	}
	if stop == end && result.Resizes == int64(len(s.resizes)) && x.info.Outcome != nil {
		result.Outcome = x.info.Outcome
	}
	return result, text[p.Offset-gone : stop-gone], nil
}
