package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// errDead is the error of calls to a runner that has ended. Its connection is closed, so no daemon
// sees it.
var errDead = errors.New("the runner is dead")

// Event takes none.
func (r *Runner) Event(string, json.RawMessage, []byte) {}

// protocol returns the protocol that it speaks.
func (r *Runner) protocol() int {
	if r.Protocol != 0 {
		return r.Protocol
	}
	return link.Protocol
}

// Handle is the runner's side of the link.
func (r *Runner) Handle(ctx context.Context, in *link.Incoming) error {
	r.mu.Lock()
	r.asked[in.Name]++
	r.mu.Unlock()
	if r.loses(&r.miss, in.Name) {
		r.Break()
		return errDead
	}
	result, data, err := r.handle(ctx, in.Name, in.Params, in.Body)
	if r.loses(&r.lose, in.Name) {
		r.Break()
	}
	if err == nil {
		in.Answer(result, data)
	}
	return err
}

func (r *Runner) handle(ctx context.Context, name string, params json.RawMessage, body []byte) (any, []byte, error) {
	switch name {
	case link.Input.Name, link.Resize.Name, link.Screen.Name, link.Wait.Name, link.Snapshot.Name, link.Follow.Name:
		return r.handleTerminal(ctx, name, params, body)
	case link.Recording.Name:
		return decoded(params, r.readRecording)
	case link.Hello.Name:
		if r.Refuse != nil {
			return nil, nil, r.Refuse
		}
		r.mu.Lock()
		r.hellos++
		r.mu.Unlock()
		return link.HelloResult{Version: "memory", Protocol: r.protocol(), SessionID: r.id, PID: 1, Created: r.Created() != nil}, nil, nil
	case link.Create.Name:
		return r.create(ctx, params)
	case link.Set.Name:
		return r.set(params)
	case link.Info.Name:
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.detailsLocked(), nil, nil
	case link.ExecRun.Name:
		x, err := r.start(ctx, params, body)
		if err != nil {
			return nil, nil, err
		}
		return r.result(x)
	case link.ExecStart.Name:
		x, err := r.start(context.Background(), params, body)
		if err != nil {
			return nil, nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return x.infoLocked(), nil, nil
	case link.ExecRead.Name:
		return r.read(ctx, params)
	case link.ExecOutput.Name:
		return r.output(ctx, params)
	case link.ExecGrep.Name:
		return decoded(params, func(p link.GrepParams) (any, []byte, error) { return r.grep(ctx, p) })
	case link.ExecMatch.Name:
		return decoded(params, func(p link.MatchParams) (any, []byte, error) { return r.match(ctx, p) })
	case link.ExecInput.Name:
		return r.input(params, body)
	case link.ExecAwait.Name:
		return r.await(ctx, params)
	case link.ExecCancel.Name:
		return r.cancel(params)
	case link.ExecDrop.Name:
		return r.drop(params)
	case link.ExecInfo.Name:
		var p api.ExecInfoParams
		x, err := r.find(params, &p, &p.ExecID)
		if err != nil {
			return nil, nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return x.infoLocked(), nil, nil
	case link.ExecList.Name:
		r.mu.Lock()
		defer r.mu.Unlock()
		return api.ExecListResult{Execs: r.list()}, nil, nil
	case link.Destroy.Name:
		return r.destroy(ctx, params)
	case link.Export.Name:
		r.leaveIfFetched(func() { r.exporting = false })
		return link.ExportResult{}, nil, nil
	case link.Trim.Name:
		var p link.TrimParams
		_ = json.Unmarshal(params, &p)
		info, err := r.trim(p)
		return info, nil, err
	}
	return nil, nil, api.Errorf(api.CodeMethodNotFound, "%s: unknown", name)
}

// find decodes parameters and finds the command they name.
func (r *Runner) find(params json.RawMessage, p any, id *string) (*Exec, error) {
	if err := json.Unmarshal(params, p); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.execs[*id]; x != nil {
		return x, nil
	}
	return nil, api.Errorf(api.CodeExecNotFound, "exec %q: not found", *id)
}

func (r *Runner) list() []api.ExecInfo {
	list := []api.ExecInfo{}
	for _, x := range r.order {
		list = append(list, x.infoLocked())
	}
	return list
}

func (r *Runner) set(params json.RawMessage) (any, []byte, error) {
	var p link.SetParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var enforced []api.EnforcedLimit
	if p.Limits != nil && r.Limit != nil {
		if err := r.Limit(p); err != nil {
			return nil, nil, err
		}
		enforced = p.Enforced
		r.limits = p.Limits.Report(api.LimitReport{Enforced: enforced})
	}
	if p.Name != nil {
		r.info.Name = *p.Name
	}
	if p.Tags != nil {
		r.info.Tags = *p.Tags
	}
	if p.LifetimeS != nil {
		r.created.Params.LifetimeS = p.LifetimeS
	}
	if p.IdleTimeoutS != nil {
		r.created.Params.IdleTimeoutS = p.IdleTimeoutS
	}
	return link.SetResult{SessionInfo: r.reportLocked(), Enforced: enforced}, nil, nil
}

func (r *Runner) create(ctx context.Context, params json.RawMessage) (any, []byte, error) {
	var p link.CreateParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, nil, err
	}
	if r.CreateError != nil {
		return nil, nil, r.CreateError
	}
	r.mu.Lock()
	r.created, r.born = &p, time.Now()
	r.info = api.SessionInfo{
		SessionID: r.id, Name: p.Params.Name, Kind: p.Params.Kind, Runtime: p.Runtime, Shell: p.Params.Shell, WorkingDir: p.Params.WorkingDir,
		State: api.SessionIdle, CreatedAt: p.CreatedAt, LastActivity: time.Now(), Tags: p.Params.Tags,
	}
	r.mu.Unlock()
	if p.Params.Kind != api.KindShell {
		r.startProgram(p)
	} else {
		r.tell()
	}
	if r.Creating != nil {
		r.Creating(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.detailsLocked(), nil, nil
}

// tell sends the session event.
func (r *Runner) tell() {
	r.mu.Lock()
	conn, info := r.conn, r.reportLocked()
	r.mu.Unlock()
	if conn != nil {
		_ = conn.Notify(link.EventSession, info, nil)
	}
}

func (r *Runner) tellExec(x *Exec, state api.ExecState, outcome *api.ExecOutcome) {
	r.mu.Lock()
	conn, id := r.conn, x.info.ExecID
	r.mu.Unlock()
	if conn != nil {
		_ = conn.Notify(link.EventExec, link.ExecEvent{ExecID: id, State: state, At: time.Now(), Outcome: outcome}, nil)
	}
}

// Decide sends decisions of the session's proxy, and sends them again on each later connection.
func (r *Runner) Decide(e link.NetworkEvent) {
	r.mu.Lock()
	conn := r.conn
	r.decisions = append(r.decisions, e)
	r.mu.Unlock()
	if conn != nil {
		_ = conn.Notify(link.EventNetwork, e, nil)
	}
}

// Say changes the runner's report and sends it.
func (r *Runner) Say(change func(*api.SessionInfo)) {
	r.mu.Lock()
	change(&r.info)
	r.mu.Unlock()
	r.tell()
}

// Name returns the name that the runner has for its session.
func (r *Runner) Name() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.info.Name
}

// result waits for the end of a command and makes the answer of exec.run.
func (r *Runner) result(x *Exec) (any, []byte, error) {
	if !r.wait(func() bool { return x.info.State == api.ExecClosed || x.info.Outcome != nil && x.held != nil }) {
		return nil, nil, errDead
	}
	out := x.stream(api.EventStdout)
	r.mu.Lock()
	defer r.mu.Unlock()
	return link.RunResult{ExecID: x.info.ExecID, StdoutLen: len(out), ExecOutcome: *x.info.Outcome}, append(out, x.streamLocked(api.EventStderr)...), nil
}

// stream returns the kept part of one stream.
func (x *Exec) stream(name string) []byte {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	return x.streamLocked(name)
}

func (x *Exec) streamLocked(name string) []byte {
	var text []byte
	at := int64(0)
	for _, c := range x.chunks {
		if c.Gap {
			continue
		}
		if c.Stream == name {
			text = append(text, x.bytes[at:at+c.Len]...)
		}
		at += c.Len
	}
	return text
}

func (r *Runner) read(ctx context.Context, params json.RawMessage) (any, []byte, error) {
	var p link.ReadParams
	x, err := r.find(params, &p, &p.ExecID)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	last := x.seq
	r.mu.Unlock()
	if p.AfterSeq > last {
		return nil, nil, api.InvalidParam("after_seq", "%d is beyond the last number, %d", p.AfterSeq, last)
	}
	if p.Wait {
		r.waitFor(ctx, func() bool { return x.exit > 0 || x.seq > p.AfterSeq || x.info.State == api.ExecClosed })
	}
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
		if c.Seq > p.AfterSeq && (x.exit == 0 || c.Seq < x.exit) {
			if len(body) > 0 && int64(len(body))+n > int64(p.Limit) {
				return result, body, nil
			}
			result.Chunks = append(result.Chunks, c)
			body = append(body, x.bytes[at:at+n]...)
		}
		at += n
	}
	if x.info.Outcome != nil {
		result.Outcome, result.Seq = x.info.Outcome, x.exit
	}
	return result, body, nil
}

// output reads one stream. Its chunks follow each other, but for one gap.
func (r *Runner) output(ctx context.Context, params json.RawMessage) (any, []byte, error) {
	var p link.OutputParams
	x, err := r.find(params, &p, &p.ExecID)
	if err != nil {
		return nil, nil, err
	}
	total := func() int64 {
		if p.Stream == api.EventStderr {
			return x.info.StderrBytes
		}
		return x.info.StdoutBytes
	}
	if p.Wait {
		r.waitFor(ctx, func() bool { return total() > p.Offset || x.info.State == api.ExecClosed })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	result := link.OutputResult{Offset: p.Offset, Total: total(), State: x.info.State}
	if p.Tail > 0 {
		result.Offset = max(0, total()-p.Tail)
	}
	if result.Offset > total() {
		return nil, nil, api.InvalidParam("offset", "%d is behind the end, %d", result.Offset, total())
	}
	var body []byte
	at := int64(0)
	for _, c := range x.chunks {
		data := x.bytes[at:]
		if !c.Gap {
			at += c.Len
		}
		next := result.Offset + int64(len(body))
		if c.Stream != p.Stream || c.Offset+c.Len <= next {
			continue
		}
		if !c.Gap && len(body) >= p.Limit {
			break
		}
		if c.Gap {
			if len(body) > 0 {
				break
			}
			result.Gap = &api.Span{From: result.Offset, To: c.Offset + c.Len}
			result.Offset = c.Offset + c.Len
			continue
		}
		piece := data[next-c.Offset : c.Len]
		body = append(body, piece[:min(len(piece), p.Limit-len(body))]...)
	}
	result.Complete = x.info.State == api.ExecClosed && result.Offset+int64(len(body)) == total()
	return result, body, nil
}

func (r *Runner) input(params json.RawMessage, data []byte) (any, []byte, error) {
	var p link.InputParams
	x, err := r.find(params, &p, &p.ExecID)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, ok := x.writes[p.WriteID]; ok && p.WriteID != "" {
		before.Repeated = true
		return before, nil, nil
	}
	if x.info.Outcome != nil || x.closed {
		return nil, nil, api.Errorf(api.CodeConflict, "exec %q: its stdin is closed", p.ExecID)
	}
	x.input = append(x.input, data...)
	x.given += int64(len(data))
	x.closed = p.Close
	result := api.ExecInputResult{ExecID: p.ExecID, StdinBytes: x.given, Closed: x.closed}
	x.writes[p.WriteID] = result
	r.changedLocked()
	return result, nil, nil
}

func (r *Runner) await(ctx context.Context, params json.RawMessage) (any, []byte, error) {
	var p api.ExecInfoParams
	x, err := r.find(params, &p, &p.ExecID)
	if err != nil {
		return nil, nil, err
	}
	r.waitFor(ctx, func() bool { return x.waiting != nil || x.info.Outcome != nil })
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.info.Outcome != nil {
		return link.AwaitResult{}, nil, nil
	}
	return link.AwaitResult{Process: x.waiting}, nil, nil
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
	return x.infoLocked(), nil, nil
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
	return r.goodbye(p, result)
}

// Wait waits for everything the runner does, after its end.
func (r *Runner) Wait() { r.tasks.Wait() }
