package audit

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/trl-dev/trl/api"
)

// Service is an api.Service whose calls that change something are recorded. It answers the methods of
// the audit log itself.
type Service struct {
	api.Service
	log *Log
	// caller stands for callers that are not known.
	caller  *api.Caller
	streams atomic.Int64 // the number of the last stream
}

// Wrap returns a Service that records calls. The caller is that of calls whose context has none.
func (l *Log) Wrap(s api.Service, caller *api.Caller) *Service {
	return &Service{Service: s, log: l, caller: caller}
}

// record makes one call and records it.
func record[P, R any](ctx context.Context, s *Service, method string, p P, f func(context.Context, P) (R, error)) (result R, err error) {
	if err := s.log.Ready(); err != nil {
		return result, err
	}
	caller := api.CallerOf(ctx)
	if caller == nil {
		caller = s.caller
	}
	c := s.log.begin(caller, method, p)
	panicked := true
	defer func() {
		if panicked {
			c.end(nil, api.Errorf(api.CodeInternal, "panic"))
		}
	}()
	result, err = f(ctx, p)
	panicked = false
	c.end(result, err)
	return result, err
}

// ReadOutput implements api.OutputReader.
func (s *Service) ReadOutput(ctx context.Context, p api.ExecOutputParams, wait bool) (api.OutputBytes, error) {
	reader, ok := s.Service.(api.OutputReader)
	if !ok {
		return api.OutputBytes{}, api.Errorf(api.CodeInternal, "output: cannot be read as bytes")
	}
	return reader.ReadOutput(ctx, p, wait)
}

// AuditList implements api.Service.
func (s *Service) AuditList(ctx context.Context, p api.AuditListParams) (api.AuditListResult, error) {
	if err := p.Check(); err != nil {
		return api.AuditListResult{}, err
	}
	return s.log.List(ctx, p)
}

// AuditVerify implements api.Service.
func (s *Service) AuditVerify(ctx context.Context, _ api.AuditVerifyParams) (api.AuditVerifyResult, error) {
	return s.log.Verify(ctx)
}

// AuditSubscribe implements api.Service.
func (s *Service) AuditSubscribe(ctx context.Context, p api.AuditSubscribeParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	sub := &subscription{log: s.log, id: "audit/" + strconv.FormatInt(s.streams.Add(1), 10), after: s.log.Last()}
	if p.AfterSeq != nil {
		if *p.AfterSeq > sub.after {
			return nil, api.InvalidParam("after_seq", "%d is beyond the last record, which is %d", *p.AfterSeq, sub.after)
		}
		sub.after = *p.AfterSeq
	}
	s.log.resolve(&p.AuditFilter)
	sub.last, sub.filter = sub.after, p.AuditFilter
	sub.ctx, sub.cancel = context.WithCancel(ctx)
	return sub, nil
}

// subscription reads the log at its own pace. It has no goroutine. Only one goroutine at a time may
// call Recv; Close may be called at any time.
type subscription struct {
	log    *Log
	id     string
	after  int64
	filter api.AuditFilter
	ctx    context.Context
	cancel context.CancelFunc

	// Used by Recv alone.
	ready []api.AuditRecord
	last  int64 // number of the last record that was pushed
}

// Start is the immediate answer.
func (s *subscription) Start() api.StreamStart {
	return api.StreamStart{StreamID: s.id, Seq: s.after}
}

// Close ends the subscription.
func (s *subscription) Close() error {
	s.cancel()
	return nil
}

// Recv returns the next record. It waits for one until the subscription is closed.
func (s *subscription) Recv() (api.StreamEvent, error) {
	for {
		for len(s.ready) > 0 && s.ready[0].Seq == s.last+1 && !matches(&s.ready[0], &s.filter) {
			s.last, s.ready = s.last+1, s.ready[1:]
		}
		if len(s.ready) > 0 {
			break
		}
		if err := s.log.Wait(s.ctx, s.last); err != nil {
			return api.StreamEvent{}, err
		}
		list, err := s.log.Read(s.last)
		if err != nil {
			return api.StreamEvent{}, err
		}
		s.ready = list
	}
	r := s.ready[0]
	if from := s.last + 1; r.Seq > from { // rotation has removed the others
		s.last = r.Seq - 1
		return api.StreamEvent{StreamID: s.id, Seq: s.last, Type: api.EventMissed, From: &from, To: &r.Seq}, nil
	}
	s.ready = s.ready[1:]
	s.last = r.Seq
	return api.StreamEvent{StreamID: s.id, Seq: r.Seq, Type: api.EventAudit, At: &r.At, Audit: &r}, nil
}
