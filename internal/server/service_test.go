package server_test

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/trl-dev/trl/api"
)

// service is a small but real api.Service. What a command does is its first word:
//
//	echo TEXT   answers TEXT
//	wait        waits until its context ends
//	hold NAME   waits until release(NAME)
//	size N      answers N bytes
//	stdin       answers its stdin
//	traceparent answers the position of the caller in a trace
//	panic       panics
//
// and for exec.stream:
//
//	count N     pushes N pieces of 32 KiB
//	tick        pushes a piece per call of tick, until the context ends
//	broken      pushes one piece, then breaks off
//	bytes       pushes pieces of bytes, all in the same buffer
//	panic       pushes one piece, then panics
type service struct {
	api.Service // nil: what is not below is not called

	calls    atomic.Int64 // commands that were started
	running  atomic.Int64 // commands that have not ended
	started  chan string  // commands that wait or hold, as they start
	ticks    chan string
	received atomic.Int64 // pushes made
	epochs   atomic.Int64 // of the dialogue that is resumed all the time
	closed   chan string  // streams, as they are closed

	mu    sync.Mutex
	holds map[string]chan struct{}
	execs map[string]*oldExec // commands that were started before
}

func newService() *service {
	return &service{
		started: make(chan string, 4096), ticks: make(chan string), closed: make(chan string, 64),
		holds: map[string]chan struct{}{}, execs: map[string]*oldExec{},
	}
}

func (s *service) hold(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds[name] == nil {
		s.holds[name] = make(chan struct{})
	}
	return s.holds[name]
}

func (s *service) release(name string) { close(s.hold(name)) }

func (s *service) SystemPing(context.Context, api.SystemPingParams) (api.SystemPingResult, error) {
	return api.SystemPingResult{UptimeS: 1, Version: "test"}, nil
}

func (s *service) ExecRun(ctx context.Context, p api.ExecParams) (api.ExecResult, error) {
	if err := p.Check(); err != nil {
		return api.ExecResult{}, err
	}
	s.calls.Add(1)
	s.running.Add(1)
	defer s.running.Add(-1)
	verb, arg, _ := strings.Cut(p.Command, " ")
	switch verb {
	case "echo":
		return api.ExecResult{Stdout: arg}, nil
	case "size":
		n, _ := strconv.Atoi(arg)
		return api.ExecResult{Stdout: strings.Repeat("x", n)}, nil
	case "traceparent":
		return api.ExecResult{Stdout: api.Traceparent(ctx)}, nil
	case "stdin":
		data, _ := p.StdinData()
		text, b64 := api.Text(data)
		return api.ExecResult{Stdout: text, StdoutBase64: b64}, nil
	case "wait":
		s.started <- p.Command
		select {
		case <-ctx.Done():
		case <-api.Conn(ctx).Done():
		}
		return api.ExecResult{}, context.Cause(api.Conn(ctx))
	case "hold":
		s.started <- p.Command
		select {
		case <-s.hold(arg):
			if arg == "error" {
				return api.ExecResult{}, api.Errorf(api.CodeConflict, "as asked for")
			}
			return api.ExecResult{Stdout: arg}, nil
		case <-ctx.Done():
			return api.ExecResult{}, ctx.Err()
		}
	case "panic":
		panic("the secret of the panic")
	}
	return api.ExecResult{}, fmt.Errorf("command %q: unknown", verb)
}

func (s *service) ExecStream(ctx context.Context, p api.ExecStreamParams) (api.Stream, error) {
	if p.ExecID != "" {
		return s.replay(ctx, p)
	}
	verb, arg, _ := strings.Cut(p.Command, " ")
	n, _ := strconv.Atoi(arg)
	if verb == "bytes" {
		return &bytesStream{stream: stream{service: s, ctx: ctx, id: "x-" + p.SessionID}}, nil
	}
	return &stream{service: s, ctx: ctx, id: "x-" + p.SessionID, verb: verb, left: n}, nil
}

type stream struct {
	service *service
	ctx     context.Context
	id      string
	verb    string
	left    int
	seq     int64
	offset  int64
	ended   bool
}

func (s *stream) Start() api.StreamStart {
	return api.StreamStart{StreamID: s.id, ExecID: s.id, SessionID: "s"}
}

func (s *stream) Recv() (api.StreamEvent, error) {
	if s.ended {
		return api.StreamEvent{}, io.EOF
	}
	data := strings.Repeat("y", 32<<10)
	switch s.verb {
	case "count":
		if s.left--; s.left < 0 {
			s.ended = true
			return api.StreamEvent{StreamID: s.id, Seq: s.seq + 1, Type: api.EventExit, ExecOutcome: &api.ExecOutcome{ExitCode: 3}}, nil
		}
	case "tick":
		select {
		case data = <-s.service.ticks:
		case <-s.ctx.Done():
			return api.StreamEvent{}, s.ctx.Err()
		}
	case "broken":
		if s.seq > 0 {
			return api.StreamEvent{}, api.Errorf(api.CodeRuntimeUnavailable, "runner: gone")
		}
	case "panic":
		if s.seq > 0 {
			panic("in Recv")
		}
	}
	s.seq++
	s.service.received.Add(1)
	offset := s.offset
	s.offset += int64(len(data))
	return api.StreamEvent{StreamID: s.id, Seq: s.seq, Type: api.EventStdout, Offset: &offset, Data: data}, nil
}

func (s *stream) Close() error {
	s.service.closed <- s.id
	return nil
}

func (s *service) SystemStats(context.Context, api.SystemStatsParams) (api.SystemStatsResult, error) {
	return api.SystemStatsResult{}, nil
}

func (s *service) SystemInfo(context.Context, api.SystemInfoParams) (api.SystemInfoResult, error) {
	return api.SystemInfoResult{}, fmt.Errorf("system: plain error")
}

func (s *service) SessionCreate(_ context.Context, p api.SessionCreateParams) (api.SessionInfo, error) {
	return api.SessionInfo{SessionID: "s-1", Shell: p.Shell, Name: p.Name, TimeoutS: -1}, nil
}

func (s *service) SessionList(context.Context, api.SessionListParams) (api.SessionListResult, error) {
	return api.SessionListResult{Sessions: []api.SessionInfo{}}, nil
}

func (s *service) SessionInfo(_ context.Context, p api.SessionInfoParams) (api.SessionDetails, error) {
	return api.SessionDetails{}, api.Errorf(api.CodeSessionNotFound, "session %q: not found", p.SessionID)
}

func (s *service) SessionDestroy(_ context.Context, p api.SessionDestroyParams) (api.SessionDestroyResult, error) {
	return api.SessionDestroyResult{SessionID: p.SessionID, State: api.SessionTerminated, Killed: []api.KilledProcess{}}, nil
}

func (s *service) ExecCancel(context.Context, api.ExecCancelParams) (api.ExecInfo, error) {
	return api.ExecInfo{}, nil
}

func (s *service) ExecList(context.Context, api.ExecListParams) (api.ExecListResult, error) {
	return api.ExecListResult{Execs: []api.ExecInfo{}}, nil
}

func (s *service) AuditList(context.Context, api.AuditListParams) (api.AuditListResult, error) {
	return api.AuditListResult{Records: []api.AuditRecord{}}, nil
}

func (s *service) AuditVerify(context.Context, api.AuditVerifyParams) (api.AuditVerifyResult, error) {
	return api.AuditVerifyResult{OK: true}, nil
}

// UsageSubscribe measures no session.
func (s *service) UsageSubscribe(context.Context, api.UsageSubscribeParams) (api.Stream, error) {
	return nil, api.Errorf(api.CodeInternal, "nothing is measured")
}
