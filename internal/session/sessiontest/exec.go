package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Exec is a command that runs in a Runner.
type Exec struct {
	Params link.ExecParams
	Stdin  []byte

	r      *Runner
	cancel context.CancelFunc
	// program says that it is that of a terminal or program session, which ends with it.
	program bool

	// Guarded by r.mu.
	info    api.ExecInfo
	chunks  []link.Chunk
	bytes   []byte // of all chunks, in their order
	seq     int64
	exit    int64     // the number of the exit, 0 before
	wrote   time.Time // when it last wrote
	input   []byte    // written to stdin and not read yet
	given   int64     // how much was written to stdin
	closed  bool      // stdin has come to its end
	writes  map[string]api.ExecInputResult
	waiting *api.Process
	held    chan struct{} // when not nil, its output stays open until this is closed
}

// Stdout writes to the command's stdout, Stderr to its stderr.
func (x *Exec) Stdout(text string) { x.write(api.EventStdout, text, &x.info.StdoutBytes) }

// Stderr writes to the command's stderr.
func (x *Exec) Stderr(text string) { x.write(api.EventStderr, text, &x.info.StderrBytes) }

func (x *Exec) write(stream, text string, offset *int64) {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	x.seq++
	x.chunks = append(x.chunks, link.Chunk{Seq: x.seq, Stream: stream, Offset: *offset, Len: int64(len(text))})
	x.bytes = append(x.bytes, text...)
	*offset += int64(len(text))
	x.wrote = time.Now()
	x.r.changedLocked()
}

// Gap drops n bytes of stdout. The record of it also covers the last
// bytes before, as that of a runner does.
func (x *Exec) Gap(n, before int64) {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	x.seq++
	x.chunks = append(x.chunks, link.Chunk{Seq: x.seq, Stream: api.EventStdout, Offset: x.info.StdoutBytes - before, Len: n + before, Gap: true})
	x.info.StdoutBytes += n
	x.r.changedLocked()
}

// Hold leaves the output open behind the end of the command, as a process in the
// background does, until release is called. It may still be written to.
func (x *Exec) Hold() (release func()) {
	held := make(chan struct{})
	x.r.mu.Lock()
	x.held = held
	x.r.mu.Unlock()
	return func() { close(held) }
}

// Input waits for input on stdin and returns it; "" at the end of stdin.
func (x *Exec) Input(ctx context.Context) string {
	stop := context.AfterFunc(ctx, func() { x.r.mu.Lock(); x.r.changedLocked(); x.r.mu.Unlock() })
	defer stop()
	x.r.wait(func() bool { return len(x.input) > 0 || x.closed || ctx.Err() != nil })
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	text := string(x.input)
	x.input = nil
	return text
}

// WaitsForInput says which process of the command waits for input; nil for none.
func (x *Exec) WaitsForInput(p *api.Process) {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	x.waiting = p
	x.r.changedLocked()
}

// Queue says that the command waits for its turn; Begin ends that.
func (x *Exec) Queue() {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	x.info.State, x.info.StartedAt = api.ExecQueued, nil
	x.r.changedLocked()
}

// Begin says that the command runs from now on.
func (x *Exec) Begin() {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	now := time.Now()
	x.info.State, x.info.StartedAt = api.ExecRunning, &now
	x.r.changedLocked()
}

// infoLocked is the answer to exec.info.
func (x *Exec) infoLocked() api.ExecInfo {
	info := x.info
	info.AgeMS = time.Since(info.QueuedAt).Milliseconds()
	if info.State == api.ExecRunning {
		running := time.Since(*info.StartedAt).Milliseconds()
		info.RunningMS = &running
	}
	info.LastSeq = x.seq
	info.StdinOpen = (x.Params.OpenStdin || x.program) && !x.closed && info.Outcome == nil
	if !x.wrote.IsZero() {
		quiet := time.Since(x.wrote).Milliseconds()
		info.QuietMS = &quiet
	}
	return info
}

// start starts a command, once for each run id. The end of caller ends it, if it is not
// detached and the connection is not what ended.
func (r *Runner) start(caller context.Context, params json.RawMessage, stdin []byte) (*Exec, error) {
	var p link.ExecParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	tie := func(x *Exec) {
		if p.Detach == nil || !*p.Detach {
			context.AfterFunc(caller, func() {
				if !errors.Is(context.Cause(caller), link.ErrLost) {
					x.cancel()
				}
			})
		}
	}
	r.mu.Lock()
	if x, again := r.runs[p.RunID]; again && p.RunID != "" && r.protocol() >= 3 {
		r.mu.Unlock()
		cancel()
		if x == nil {
			return nil, errDropped
		}
		tie(x)
		return x, nil
	}
	if r.info.State == api.SessionRunning {
		r.mu.Unlock()
		cancel()
		return nil, api.Errorf(api.CodeSessionBusy, "session %q: busy", r.id)
	}
	now := time.Now()
	x := &Exec{Params: p, Stdin: stdin, r: r, cancel: cancel, closed: !p.OpenStdin, writes: map[string]api.ExecInputResult{}}
	x.info = api.ExecInfo{ExecID: r.execID(len(r.order) + 1), SessionID: r.id, Command: p.Command, State: api.ExecRunning, QueuedAt: now, StartedAt: &now}
	r.execs[x.info.ExecID] = x
	r.runs[p.RunID] = x
	r.order = append(r.order, x)
	r.info.State, r.info.ExecID, r.info.LastActivity = api.SessionRunning, x.info.ExecID, now
	r.info.CommandCount++
	r.mu.Unlock()
	tie(x)
	r.tell()
	r.tellExec(x, api.ExecRunning, nil)
	r.tasks.Go(func() { r.run(ctx, x) })
	return x, nil
}

// errDropped is the answer to a request that was dropped before it arrived.
var errDropped = api.Errorf(api.CodeExecNotFound, "the command was dropped")

// drop ends the command of a run id, or keeps it from being started.
func (r *Runner) drop(params json.RawMessage) (any, []byte, error) {
	return decoded(params, func(p link.DropParams) (any, []byte, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if x, known := r.runs[p.RunID]; known {
			x.cancel()
		} else {
			r.runs[p.RunID] = nil
		}
		return struct{}{}, nil, nil
	})
}

// run runs the command.
func (r *Runner) run(ctx context.Context, x *Exec) {
	defer x.cancel()
	code := 0
	if r.rt.Command != nil {
		code = r.rt.Command(ctx, x)
	}
	now := time.Now()
	r.mu.Lock()
	outcome := &api.ExecOutcome{ExitCode: code, DurationMS: now.Sub(x.info.QueuedAt).Milliseconds(), StdoutBytes: x.info.StdoutBytes, StderrBytes: x.info.StderrBytes}
	if ctx.Err() != nil {
		outcome.Cancelled, outcome.ExitCode = true, api.ExitCancelled
	}
	if r.info.LastActivity = now; x.program {
		r.programEndedLocked(outcome.ExitCode, now)
	} else {
		r.info.State, r.info.ExecID = api.SessionIdle, ""
	}
	held := x.held
	r.mu.Unlock()
	if !x.program {
		r.tell() // before a caller can learn the outcome
	}
	r.mu.Lock()
	x.seq++
	x.exit = x.seq
	x.info.State, x.info.EndedAt, x.info.Outcome = api.ExecExited, &now, outcome
	r.changedLocked()
	r.mu.Unlock()
	r.tellExec(x, api.ExecExited, outcome)
	if held != nil {
		select {
		case <-held:
		case <-r.done:
		}
	}
	r.mu.Lock()
	x.info.State = api.ExecClosed
	r.changedLocked()
	r.mu.Unlock()
	r.tellExec(x, api.ExecClosed, nil)
	if x.program {
		r.tell()
	}
}

// changedLocked wakes every goroutine in wait.
func (r *Runner) changedLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// wait waits until ok, which it calls with mu held, returns true.
func (r *Runner) wait(ok func() bool) bool {
	for {
		r.mu.Lock()
		yes, changed := ok(), r.changed
		r.mu.Unlock()
		if yes {
			return true
		}
		select {
		case <-changed:
		case <-r.done:
			return false
		}
	}
}

// waitFor is wait with a context.
func (r *Runner) waitFor(ctx context.Context, ok func() bool) {
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changedLocked()
	})
	defer stop()
	r.wait(func() bool { return ok() || ctx.Err() != nil })
}
