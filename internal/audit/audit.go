// Package audit records the calls that change something: who made them, from where, on which
// session or dialogue, with which outcome. The records are lines of JSON in append-only files. Each
// has the hash of the one before, so that a change of a line, or a missing line, is found.
//
// A call only appends its record to a queue; one goroutine writes. A daemon that is killed loses the
// records of the queue, which is what happened in its last milliseconds. A call that takes longer than
// a second is recorded twice: while it runs, and at its end.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/metrics"
)

const (
	// maxQueue bounds the records that wait to be written.
	maxQueue = 8192
	// maxRecent is how many records are kept in memory for subscribers, at least; at most twice as many.
	maxRecent = 1024
	// startedAfter is how long a call runs before it is recorded as started.
	startedAfter = time.Second
	// repeatWindow is how long repeated input is counted before it is recorded.
	repeatWindow = 10 * time.Second
	// gatherTime is how long a record may wait for those that follow.
	gatherTime = 20 * time.Millisecond
	// retryEvery is how often writing is tried again after it failed.
	retryEvery = time.Second
	// maxRepeats bounds how many kinds of repeated input are counted at a time.
	maxRepeats = 256
	// maxContent bounds the parameters that a record has, in bytes.
	maxContent = 8 << 10
	// maxName bounds the ids and names that callers send.
	maxName = 128
)

// Config configures a Log.
type Config struct {
	Dir string // of the files; made if it is missing
	// MaxBytes bounds the size of all files together; the oldest are removed.
	MaxBytes int64
	// Content says that records have the parameters of the calls.
	Content bool
	// Require refuses calls that change something while the log cannot be written.
	Require bool
	Logger  *slog.Logger // nil discards
	// Resolve returns the ids of the session and the dialogue with these names or ids. Nil: names stay.
	Resolve func(session, dialogue string) (string, string)
}

// Log is an open audit log. It is safe for concurrent use.
//
// Goroutines: one, which writes; Close waits for it.
type Log struct {
	cfg  Config
	wake chan struct{} // has an entry if there is something to write
	stop chan struct{} // closed by Close
	// readers has channels that are closed when everything queued is written.
	readers chan chan struct{}
	done    chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	queue   []api.AuditRecord // guarded by mu; not written yet, the oldest first
	lost    int64             // guarded by mu; calls that found the queue full and are not reported by a record yet
	missing int64             // guarded by mu; all calls that found the queue full
	fault   error             // guarded by mu; why the last write failed
	closed  bool              // guarded by mu
	last    int64             // guarded by mu; number of the last written record
	recent  []api.AuditRecord // guarded by mu; the last written records
	changed chan struct{}     // guarded by mu; closed when last changes

	files files // used under its own lock
	// Used by the goroutine alone.
	repeats map[string]*repeat
}

// repeat counts calls that are alike.
type repeat struct {
	until  time.Time
	record api.AuditRecord // the last of them; Count is how many are not recorded
}

// Open opens the log and repairs what a killed daemon has left.
func Open(c Config) (*Log, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{
		cfg: c, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		changed: make(chan struct{}), readers: make(chan chan struct{}), repeats: map[string]*repeat{},
	}
	cut, err := l.files.open(c.Dir, c.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l.last = l.files.seq
	if cut > 0 {
		c.Logger.Warn("audit log ended within a record", "bytes", cut)
		l.add(api.AuditRecord{At: time.Now(), Note: fmt.Sprintf("%d bytes of an unfinished record were removed: the daemon was killed while it wrote", cut)})
	}
	go l.run()
	return l, nil
}

// Close writes what waits to be written.
func (l *Log) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.stop)
	}
	l.mu.Unlock()
	<-l.done
	return l.files.close()
}

// add queues a record.
func (l *Log) add(r api.AuditRecord) {
	l.mu.Lock()
	if len(l.queue) >= maxQueue {
		l.lost++
		l.missing++
	} else {
		l.queue = append(l.queue, r)
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// WriteMetrics writes whether calls are recorded.
func (l *Log) WriteMetrics(p *metrics.Page) {
	l.mu.Lock()
	queued, missing, failing := len(l.queue), l.missing, 0
	if l.fault != nil {
		failing = 1
	}
	l.mu.Unlock()
	p.Single("trl_audit_queued_records", "gauge", "Records of calls that wait to be written to the audit log.", float64(queued))
	p.Single("trl_audit_lost_total", "counter", "Calls that are missing in the audit log, because it could not be written in time.", float64(missing))
	p.Single("trl_audit_failing", "gauge", "Whether the last write to the audit log failed: 1, else 0.", float64(failing))
}

// Ready returns an error if calls that change something must be refused now.
func (l *Log) Ready() error {
	if !l.cfg.Require {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.fault != nil:
		return refusal(l.fault)
	case len(l.queue) >= maxQueue:
		return refusal(errors.New("too many calls wait to be recorded"))
	}
	return nil
}

func refusal(why error) error {
	e := api.Errorf(api.CodeResourcePressure, "audit log: cannot be written, so the call is refused (audit is require): %s", why)
	e.Details = map[string]any{"reason": "audit"}
	return e
}

// call is one call that is being recorded.
type call struct {
	log    *Log
	begin  time.Time
	timer  *time.Timer
	mu     sync.Mutex
	record api.AuditRecord // guarded by mu
	ended  bool            // guarded by mu
}

// begin starts to record a call.
func (l *Log) begin(caller *api.Caller, method string, params any) *call {
	now := time.Now()
	c := &call{log: l, begin: now, record: api.AuditRecord{At: now.UTC(), Method: method, Caller: caller}}
	l.target(&c.record, params)
	if l.cfg.Content {
		c.record.Content = content(params)
	}
	c.timer = time.AfterFunc(startedAfter, c.started)
	return c
}

// started records that the call has begun and not ended.
func (c *call) started() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		r := c.record
		r.Outcome = api.AuditStarted
		c.log.add(r)
	}
}

// end records the outcome of the call.
func (c *call) end(result any, err error) {
	c.timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	r := &c.record
	r.Outcome, r.DurationMS = api.AuditOK, time.Since(c.begin).Milliseconds()
	if err != nil {
		r.Outcome = string(api.AsError(err).Code)
	} else if s, ok := result.(api.Stream); ok && s != nil {
		c.log.target(r, s.Start())
	} else {
		c.log.target(r, result)
	}
	c.log.add(*r)
}

// Record records a call that did not reach the service, or a login. Err is nil if it succeeded.
func (l *Log) Record(caller *api.Caller, method string, params json.RawMessage, loginID string, err error) {
	r := api.AuditRecord{At: time.Now().UTC(), Method: method, Caller: caller, LoginID: loginID, Outcome: api.AuditOK}
	var p struct {
		SessionID  string `json:"session_id"`
		ExecID     string `json:"exec_id"`
		DialogueID string `json:"dialogue_id"`
	}
	if json.Unmarshal(params, &p) == nil {
		l.target(&r, p)
	}
	if err != nil {
		r.Outcome = string(api.AsError(err).Code)
	}
	l.add(r)
}

// target takes the ids of parameters or of a result into a record.
func (l *Log) target(r *api.AuditRecord, v any) {
	value := reflect.ValueOf(v)
	if value.Kind() != reflect.Struct {
		return
	}
	fields := fieldsOf(value.Type())
	for i, to := range []*string{&r.SessionID, &r.ExecID, &r.DialogueID, &r.RequestID, &r.LoginID, &r.SessionID} {
		if fields[i] == nil {
			continue
		}
		if f, err := value.FieldByIndexErr(fields[i]); err == nil && f.String() != "" {
			*to = f.String()[:min(len(f.String()), maxName)]
		}
	}
	if l.cfg.Resolve != nil {
		r.SessionID, r.DialogueID = l.cfg.Resolve(r.SessionID, r.DialogueID)
	}
}

// targetFields are the fields with ids. The id of a recording is that of its session.
var targetFields = [...]string{"SessionID", "ExecID", "DialogueID", "RequestID", "LoginID", "RecordingID"}

// indexes caches where the ids of a type are.
var indexes sync.Map // reflect.Type → [len(targetFields)][]int

func fieldsOf(t reflect.Type) [len(targetFields)][]int {
	if known, ok := indexes.Load(t); ok {
		return known.([len(targetFields)][]int)
	}
	var list [len(targetFields)][]int
	for i, name := range targetFields {
		if f, ok := t.FieldByName(name); ok && f.Type.Kind() == reflect.String {
			list[i] = f.Index
		}
	}
	indexes.Store(t, list)
	return list
}

// content returns parameters as JSON, without the values of variables.
func content(params any) string {
	text, err := json.Marshal(params)
	if err != nil {
		return ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) == nil && fields["env"] != nil {
		var env map[string]json.RawMessage
		_ = json.Unmarshal(fields["env"], &env)
		for name := range env {
			env[name] = json.RawMessage(`"…"`)
		}
		if fields["env"], err = json.Marshal(env); err == nil {
			text, _ = json.Marshal(fields)
		}
	}
	if len(text) > maxContent {
		text = append(text[:maxContent:maxContent], "…"...)
	}
	return string(text)
}
