package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
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

	// Guarded by r.mu.
	info   api.ExecInfo
	chunks []link.Chunk
	bytes  []byte // of all chunks, in their order
	seq    int64
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
	x.r.change()
}

// Gap says that n bytes of stdout are gone. The record of it also covers the last
// bytes before, as that of a runner does.
func (x *Exec) Gap(n, before int64) {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	x.seq++
	x.chunks = append(x.chunks, link.Chunk{Seq: x.seq, Stream: api.EventStdout, Offset: x.info.StdoutBytes - before, Len: n + before, Gap: true})
	x.info.StdoutBytes += n
	x.r.change()
}

// errDead is what nobody hears.
var errDead = errors.New("the runner is dead")

// change wakes everyone who waits for something to change. mu is held.
func (r *Runner) change() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Event takes none.
func (r *Runner) Event(string, json.RawMessage, []byte) {}

// Handle is the runner's side of the link.
func (r *Runner) Handle(ctx context.Context, name string, params json.RawMessage, body []byte) (any, []byte, error) {
	switch name {
	case link.CallHello:
		protocol := link.Protocol
		if r.Protocol != 0 {
			protocol = r.Protocol
		}
		return link.HelloResult{Version: "memory", Protocol: protocol, SessionID: r.id, PID: 1, Created: r.Created() != nil}, nil, nil
	case link.CallCreate:
		return r.create(params)
	case link.CallInfo:
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.details(), nil, nil
	case link.CallExecRun:
		x, err := r.start(ctx, params, body)
		if err != nil {
			return nil, nil, err
		}
		if !r.wait(func() bool { return x.info.Outcome != nil }) {
			return nil, nil, errDead
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		var out, errs []byte
		at := int64(0)
		for _, c := range x.chunks {
			if c.Gap {
				continue
			}
			if c.Stream == api.EventStdout {
				out = append(out, x.bytes[at:at+c.Len]...)
			} else {
				errs = append(errs, x.bytes[at:at+c.Len]...)
			}
			at += c.Len
		}
		return link.RunResult{ExecID: x.info.ExecID, StdoutLen: len(out), ExecOutcome: *x.info.Outcome}, append(out, errs...), nil
	case link.CallExecStart:
		x, err := r.start(context.Background(), params, body)
		if err != nil {
			return nil, nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return x.info, nil, nil
	case link.CallExecRead:
		return r.read(ctx, params)
	case link.CallExecCancel:
		return r.cancel(params)
	case link.CallExecInfo:
		var p api.ExecInfoParams
		_ = json.Unmarshal(params, &p)
		r.mu.Lock()
		defer r.mu.Unlock()
		if x := r.execs[p.ExecID]; x != nil {
			return x.info, nil, nil
		}
		return nil, nil, api.Errorf(api.CodeExecNotFound, "exec %q: not found", p.ExecID)
	case link.CallExecList:
		r.mu.Lock()
		defer r.mu.Unlock()
		return api.ExecListResult{Execs: r.list()}, nil, nil
	case link.CallDestroy:
		return r.destroy(ctx, params)
	}
	return nil, nil, api.Errorf(api.CodeMethodNotFound, "%s: unknown", name)
}

func (r *Runner) list() []api.ExecInfo {
	list := []api.ExecInfo{}
	for _, x := range r.order {
		list = append(list, x.info)
	}
	return list
}

func (r *Runner) create(params json.RawMessage) (any, []byte, error) {
	var p link.CreateParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, nil, err
	}
	if r.CreateError != nil {
		return nil, nil, r.CreateError
	}
	r.mu.Lock()
	r.created = &p
	r.info = api.SessionInfo{
		SessionID: r.id, Name: p.Params.Name, Kind: "shell", Shell: p.Params.Shell, WorkingDir: p.Params.WorkingDir,
		State: api.SessionIdle, CreatedAt: p.CreatedAt, LastActivity: time.Now(), Tags: p.Params.Tags,
	}
	r.mu.Unlock()
	r.tell()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.details(), nil, nil
}

// tell sends the session event.
func (r *Runner) tell() {
	r.mu.Lock()
	conn, info := r.conn, r.info
	r.mu.Unlock()
	if conn != nil {
		_ = conn.Notify(link.EventSession, info, nil)
	}
}

// Say changes what the runner tells of itself, and tells it.
func (r *Runner) Say(change func(*api.SessionInfo)) {
	r.mu.Lock()
	change(&r.info)
	r.mu.Unlock()
	r.tell()
}

// start starts a command. The end of caller ends it, if it is not detached.
func (r *Runner) start(caller context.Context, params json.RawMessage, stdin []byte) (*Exec, error) {
	var p link.ExecParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if p.Detach == nil || !*p.Detach {
		context.AfterFunc(caller, cancel)
	}
	r.mu.Lock()
	if r.info.State == api.SessionRunning {
		r.mu.Unlock()
		cancel()
		return nil, api.Errorf(api.CodeSessionBusy, "session %q: busy", r.id)
	}
	now := time.Now()
	x := &Exec{Params: p, Stdin: stdin, r: r, cancel: cancel}
	x.info = api.ExecInfo{ExecID: r.execID(len(r.order) + 1), SessionID: r.id, Command: p.Command, State: api.ExecRunning, QueuedAt: now, StartedAt: &now}
	r.execs[x.info.ExecID] = x
	r.order = append(r.order, x)
	r.info.State, r.info.ExecID, r.info.LastActivity = api.SessionRunning, x.info.ExecID, now
	r.info.CommandCount++
	r.mu.Unlock()
	r.tell()
	r.tasks.Go(func() {
		defer cancel()
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
		r.info.State, r.info.ExecID, r.info.LastActivity = api.SessionIdle, "", now
		r.mu.Unlock()
		r.tell() // before anybody can hear the outcome
		r.mu.Lock()
		x.info.State, x.info.EndedAt, x.info.Outcome = api.ExecClosed, &now, outcome
		r.change()
		r.mu.Unlock()
	})
	return x, nil
}

// wait waits until ok, which is called with mu held.
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

func (r *Runner) read(ctx context.Context, params json.RawMessage) (any, []byte, error) {
	var p link.ReadParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, nil, err
	}
	var once sync.Once
	stop := context.AfterFunc(ctx, func() { once.Do(func() { r.mu.Lock(); r.change(); r.mu.Unlock() }) })
	defer stop()
	r.mu.Lock()
	x := r.execs[p.ExecID]
	r.mu.Unlock()
	if x == nil {
		return nil, nil, api.Errorf(api.CodeExecNotFound, "exec %q: not found", p.ExecID)
	}
	r.wait(func() bool { return !p.Wait || x.seq > p.AfterSeq || x.info.Outcome != nil || ctx.Err() != nil })
	r.mu.Lock()
	defer r.mu.Unlock()
	var result link.ReadResult
	var body []byte
	at := int64(0)
	for _, c := range x.chunks {
		n := c.Len
		if c.Gap {
			n = 0
		}
		if c.Seq > p.AfterSeq {
			if len(body) > 0 && int64(len(body))+n > int64(p.Limit) {
				return result, body, nil
			}
			result.Chunks = append(result.Chunks, c)
			body = append(body, x.bytes[at:at+n]...)
		}
		at += n
	}
	if x.info.Outcome != nil {
		result.Outcome, result.Seq = x.info.Outcome, x.seq+1
	}
	return result, body, nil
}

func (r *Runner) cancel(params json.RawMessage) (any, []byte, error) {
	var p api.ExecCancelParams
	_ = json.Unmarshal(params, &p)
	r.mu.Lock()
	if p.ExecID == "" {
		p.ExecID = r.info.ExecID
	}
	x := r.execs[p.ExecID]
	r.mu.Unlock()
	if x == nil {
		return nil, nil, api.Errorf(api.CodeExecNotFound, "exec %q: not found", p.ExecID)
	}
	x.cancel()
	r.wait(func() bool { return x.info.Outcome != nil })
	r.mu.Lock()
	defer r.mu.Unlock()
	return x.info, nil, nil
}

func (r *Runner) destroy(ctx context.Context, params json.RawMessage) (any, []byte, error) {
	var p link.DestroyParams
	_ = json.Unmarshal(params, &p)
	if r.Stubborn && !p.Force {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	r.mu.Lock()
	for _, x := range r.order {
		x.cancel()
	}
	r.mu.Unlock()
	r.wait(func() bool {
		for _, x := range r.order {
			if x.info.Outcome == nil {
				return false
			}
		}
		return true
	})
	r.mu.Lock()
	result := link.DestroyResult{Info: r.details(), Execs: r.list(), Killed: []api.KilledProcess{}}
	r.mu.Unlock()
	// The answer leaves first, then the runner ends.
	r.tasks.Go(func() {
		time.Sleep(time.Millisecond)
		r.exit()
	})
	return result, nil, nil
}

// Wait waits for everything the runner does, after its end.
func (r *Runner) Wait() { r.tasks.Wait() }
