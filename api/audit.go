package api

import (
	"context"
	"time"
)

// EventAudit is the type of a push of audit.subscribe.
const EventAudit = "audit"

// Outcomes of calls in the audit log. Any other outcome is the code of an error.
const (
	AuditOK = "ok"
	// AuditStarted says that the call had not ended when it was recorded. The record of its end
	// follows, unless the daemon was killed.
	AuditStarted = "started"
	// AuditError selects every outcome that is the code of an error, in audit.list.
	AuditError = "error"
)

// Limits of audit.list.
const (
	DefaultAuditLimit = 100
	MaxAuditLimit     = 1000
)

// Caller is the client that made a call: the process on the socket, or the token or login on HTTP
// and gRPC.
type Caller struct {
	// Transport is how the client is connected: socket, stdio, http, websocket, grpc or mcp.
	Transport string `json:"transport"`
	UID       *int   `json:"uid,omitempty"`     // user of the process, on the socket
	PID       int    `json:"pid,omitempty"`     // the process, on the socket
	Address   string `json:"address,omitempty"` // address without port, over a network
	// Token is the beginning of the SHA-256 digest of the caller's token, in hexadecimal.
	Token   string `json:"token,omitempty"`
	LoginID string `json:"login_id,omitempty"` // login of the console, as web.list has it
	ShareID string `json:"share_id,omitempty"` // share that the login is of
	Label   string `json:"label,omitempty"`    // label of the connection, from system.hello; the client chose it
	// Certificate is the common name of the client's certificate, over gRPC without a token.
	Certificate string `json:"certificate,omitempty"`
}

type callerKey struct{}

// WithCaller returns a context that says which client makes the call.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the client that makes the call, nil for a call from within the process. The caller
// must not change it.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// AuditRecord is one entry of the audit log: a call that changed something, or tried to. It has no
// command text, input or answer, unless the setting audit_content is on.
type AuditRecord struct {
	Seq    int64     `json:"seq"`    // number of the record, without gaps
	At     time.Time `json:"at"`     // when the call began
	Method string    `json:"method"` // the method; web.login, web.logout, or auth for a wrong token; empty for a note
	// Outcome is ok, started or the code of the error.
	Outcome    string `json:"outcome"`
	DurationMS int64  `json:"duration_ms"` // until the answer; 0 for outcome started
	// Count is how many calls the record stands for. Repeated input of one caller to one target
	// is counted, for at most ten seconds. Absent: 1.
	Count      int64   `json:"count,omitempty"`
	Caller     *Caller `json:"caller,omitempty"`      // absent for the daemon itself
	SessionID  string  `json:"session_id,omitempty"`  // the session, or the name that the caller gave
	ExecID     string  `json:"exec_id,omitempty"`     // the command
	DialogueID string  `json:"dialogue_id,omitempty"` // the dialogue, or the name that the caller gave
	RequestID  string  `json:"request_id,omitempty"`  // the answered request, for dialogue.respond
	LoginID    string  `json:"login_id,omitempty"`    // the login that began or ended
	// Content is the parameters as JSON, if audit_content is on. Values of variables are left out.
	Content string `json:"content,omitempty"`
	// Note says what happened to the log itself, such as calls that could not be recorded.
	Note string `json:"note,omitempty"`
	// Prev is the hash of the previous record; empty for the first.
	Prev string `json:"prev"`
	// Hash is the SHA-256 digest of this record's line in the file, without this field.
	Hash string `json:"hash,omitempty"`
}

// AuditFilter selects records of the audit log. A record must meet every condition that the caller sets.
type AuditFilter struct {
	Since  *time.Time `json:"since,omitempty"`  // only calls that began at this time or later
	Method string     `json:"method,omitempty"` // a method, or the beginning of its name up to a dot, such as session
	// Caller selects by transport, address, process id, label, login or the beginning of the token's digest.
	Caller     string `json:"caller,omitempty"`
	SessionID  string `json:"session_id,omitempty"`  // a session, by id or name
	DialogueID string `json:"dialogue_id,omitempty"` // a dialogue, by id or name
	Outcome    string `json:"outcome,omitempty"`     // ok, started, error or the code of an error
}

// AuditListParams asks for a page of the audit log.
type AuditListParams struct {
	AuditFilter
	// BeforeSeq selects only records with a lower number: next_before_seq of the previous page.
	BeforeSeq int64 `json:"before_seq,omitempty"`
	// Limit is the maximum number of records. Absent: 100; at most 1000.
	Limit int `json:"limit,omitempty"`
}

// Check reports the first invalid parameter.
func (p AuditListParams) Check() error {
	switch {
	case p.BeforeSeq < 0:
		return InvalidParam("before_seq", "must not be negative")
	case p.Limit < 0 || p.Limit > MaxAuditLimit:
		return InvalidParam("limit", "must be from 1 to %d", MaxAuditLimit)
	}
	return nil
}

// AuditListResult is one page of the audit log.
type AuditListResult struct {
	Records []AuditRecord `json:"records"` // the newest that match, in order of their numbers
	// NextBeforeSeq continues the list with older records, as before_seq. Absent: there are no more.
	NextBeforeSeq int64 `json:"next_before_seq,omitempty"`
	LastSeq       int64 `json:"last_seq"` // number of the newest record of the log
	// Fault says why the log cannot be written now; absent if it can.
	Fault string `json:"fault,omitempty"`
}

// AuditVerifyParams has no fields.
type AuditVerifyParams struct{}

// AuditVerifyResult reports whether the hash chain of the audit log is whole.
type AuditVerifyResult struct {
	OK       bool   `json:"ok"`        // every record follows from the one before
	Records  int64  `json:"records"`   // records that were checked
	FirstSeq int64  `json:"first_seq"` // number of the oldest record that is kept; 0 if there is none
	LastSeq  int64  `json:"last_seq"`  // number of the last record that is right
	LastHash string `json:"last_hash"` // its hash. Keep it elsewhere to prove later what the log had
	// Broken is the first wrong line; absent if ok.
	Broken *AuditFault `json:"broken,omitempty"`
}

// AuditFault is a place in the audit log that is not as it was written.
type AuditFault struct {
	File   string `json:"file"`   // the file
	Line   int    `json:"line"`   // number of the line in the file, from 1
	Reason string `json:"reason"` // what is wrong there
}

// AuditSubscribeParams asks for the records of the audit log as they are written.
type AuditSubscribeParams struct {
	AuditFilter
	// AfterSeq is the number of the last record that the subscriber has. Absent: only new
	// records; 0: all records that are kept.
	AfterSeq *int64 `json:"after_seq,omitempty"`
}

// Check reports the first invalid parameter.
func (p AuditSubscribeParams) Check() error {
	if p.AfterSeq != nil && *p.AfterSeq < 0 {
		return InvalidParam("after_seq", "must not be negative")
	}
	return nil
}
