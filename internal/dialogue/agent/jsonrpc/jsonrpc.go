// Package jsonrpc is the host's side of JSON-RPC with one message per line, as Codex and the
// agents of ACP speak it. It also has what these two protocols share beyond JSON-RPC: blocks of
// content as MCP defines them, and figures.
package jsonrpc

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/recent"
)

// Conn is TRL's side of the conversation with one process, for a protocol to embed. It numbers
// the requests of TRL, passes their answers on, and collects the current Step.
type Conn struct {
	IDs  agent.IDs
	Step agent.Step // the step so far; TakeStep ends it

	version string // of JSON-RPC
	asked   int64  // the number of TRL's last request
	pending map[int64]pendingCall
	refused Seen // requests that TRL cannot answer; each gets one notice
}

// New makes the connection with the process of an epoch. Every message carries the version of
// JSON-RPC, unless it is empty: Codex leaves it out.
func New(version string, epoch int) Conn {
	return Conn{version: version, pending: map[int64]pendingCall{}, IDs: agent.NewIDs(epoch), refused: NewSeen()}
}

// Seen recognises repeated texts. It keeps hashes of the newest texts, because a text may be
// long.
type Seen struct{ sums *recent.Map[struct{}] }

// NewSeen makes an empty Seen, which holds 1000 texts.
func NewSeen() Seen { return Seen{recent.New[struct{}](1000)} }

// Again reports whether it was called with this text before.
func (s Seen) Again(text string) bool {
	sum := sha256.Sum256([]byte(text))
	id := string(sum[:])
	if s.sums.Has(id) {
		return true
	}
	s.sums.Put(id, struct{}{})
	return false
}

// pendingCall is a request of TRL that the program has not answered.
type pendingCall struct {
	method string
	then   func(result json.RawMessage, err *Error)
}

// Message is a message in either direction: a request has an id and a method, a notification
// only a method, an answer only an id.
type Message struct {
	Version string          `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Error is the error in an answer.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// UnmarshalJSON reads an error of any shape. If it has no message, its JSON is the message.
func (e *Error) UnmarshalJSON(raw []byte) error {
	type known Error
	var k known
	if json.Unmarshal(raw, &k); k.Message == "" {
		k.Message = string(raw[:min(len(raw), 4096)])
	}
	*e = Error(k)
	return nil
}

// Text is the error for people, with the cause that some programs give only in the data.
func (e *Error) Text() string {
	var d struct{ Message, Details string }
	if json.Unmarshal(e.Data, &d) == nil {
		for _, more := range []string{d.Message, d.Details} {
			if more != "" && !strings.Contains(e.Message, more) {
				return e.Message + ": " + more
			}
		}
	}
	return e.Message
}

// The codes of JSON-RPC for requests that TRL rejects.
const (
	invalidRequest = -32600
	methodNotFound = -32601
	invalidParams  = -32602
)

// Peer is the protocol that handles the messages of the program, except answers. Both methods
// return "", or the reason why they do not understand the message, for the event unparsed.
type Peer interface {
	Request(m Message) (why string)
	Notification(m Message) (why string)
}

// Receive handles a line of the program. The step has an event for it, or names it as ignored.
func (r *Conn) Receive(line []byte, peer Peer) {
	var m Message
	if err := json.Unmarshal(line, &m); err != nil {
		var field *json.UnmarshalTypeError
		switch {
		case !json.Valid(line):
			r.unparsed(line, "not_json")
			return
		case !errors.As(err, &field) || field.Field == "":
			r.unparsed(line, "bad_shape")
			return
		}
		// A field of an unexpected shape counts as absent.
	}
	var why, name string
	switch {
	case m.Method != "" && m.ID != nil:
		name = m.Method
		why = r.requested(m, peer)
	case m.Method != "":
		name = m.Method
		why = peer.Notification(m)
	case m.ID != nil:
		p, ok := r.pending[m.number()]
		switch {
		case ok: // with a result or without: some programs leave out an empty one
			delete(r.pending, m.number())
			name = "answer to " + p.method
			p.then(m.Result, m.Error)
		case m.Result != nil || m.Error != nil:
			why = "unknown_type"
		default:
			why = "bad_shape"
		}
	default:
		why = "bad_shape"
	}
	if why != "" {
		r.unparsed(line, why)
	}
	if len(r.Step.Events) == 0 && r.Step.Ignored == "" {
		r.Step.Ignored = name
	}
}

// requested passes a request to the peer. It rejects a request that TRL cannot answer, so
// that the program does not wait for it, and ignores a repeated one (see Asked).
func (r *Conn) requested(m Message, peer Peer) (why string) {
	code := invalidRequest
	switch c := m.ID[0]; {
	case c == 'n': // null: some programs give such an id to their notifications
		if why = peer.Notification(m); why != "unknown_type" {
			return why
		}
		code = methodNotFound
	case (c == '"' || c == '-' || c >= '0' && c <= '9') && len(m.ID) <= maxID:
		switch peer.Request(m) {
		case "":
			return ""
		case "unknown_type":
			code = methodNotFound
		default:
			code = invalidParams
		}
	}
	r.write(Message{ID: m.ID, Error: &Error{Code: code, Message: m.Method + ": the client cannot do this"}})
	if r.refused.Again(string(m.ID) + m.Method + string(m.Params)) {
		return ""
	}
	r.Notice("warning", "unknown_request", fmt.Sprintf("the agent sent the request %.80q, which TRL cannot answer", m.Method))
	return ""
}

// maxID is the maximum length of the id of a request, which is published with the request.
const maxID = 200

// NativeID is the program's id of a request, as events carry it: 7 is another id than "7".
func (m Message) NativeID() string {
	if m.ID[0] == '"' {
		if text := m.ID[1 : len(m.ID)-1]; !json.Valid(text) {
			return string(text)
		}
	}
	return string(m.ID)
}

// Asked identifies an open request of the program by its id and its content. A program may use
// an id again after its answer, so an id alone does not identify a request.
type Asked struct{ ID, params json.RawMessage }

// Asked identifies the request.
func (m Message) Asked() Asked { return Asked{m.ID, m.Params} }

// Is reports whether m repeats the request.
func (a Asked) Is(m Message) bool {
	return bytes.Equal(a.ID, m.ID) && bytes.Equal(a.params, m.Params)
}

// number is the number of the request that m answers. Some programs make it a string.
func (m Message) number() int64 {
	n, err := strconv.ParseInt(strings.Trim(string(m.ID), `"`), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// TakeStep returns the step, and begins the next one.
func (r *Conn) TakeStep() agent.Step {
	s := r.Step
	r.Step = agent.Step{}
	return s
}

// Ask sends a request. The answer of the program calls then.
func (r *Conn) Ask(method string, params any, then func(result json.RawMessage, err *Error)) {
	r.asked++
	r.pending[r.asked] = pendingCall{method, then}
	r.write(Message{ID: strconv.AppendInt(nil, r.asked, 10), Method: method, Params: Encode(params)})
}

// Notify sends a notification.
func (r *Conn) Notify(method string, params any) {
	r.write(Message{Method: method, Params: Encode(params)})
}

// Reply answers a request of the program.
func (r *Conn) Reply(id json.RawMessage, result any) {
	r.write(Message{ID: id, Result: Encode(result)})
}

func (r *Conn) write(m Message) {
	m.Version = r.version
	r.Step.Write = append(r.Step.Write, append(Encode(m), '\n'))
}

// Encode encodes a value that TRL made, which cannot fail.
func Encode(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("jsonrpc: encode " + fmt.Sprintf("%T", v) + ": " + err.Error())
	}
	return b
}

// Answer reports the result of a call.
func (r *Conn) Answer(call string, err *api.Error) {
	r.Step.Answers = append(r.Step.Answers, agent.Answer{ID: call, Err: err})
}

// Publish adds an event to the step.
func (r *Conn) Publish(ev api.DialogueEvent) { r.Step.Events = append(r.Step.Events, ev) }

// Notice publishes a notice.
func (r *Conn) Notice(level, code, text string) {
	r.Publish(api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{Level: level, Code: code, Text: text}})
}

func (r *Conn) unparsed(line []byte, why string) {
	r.Publish(api.DialogueEvent{Type: api.DialogueEventUnparsed, Unparsed: &api.DialogueUnparsed{
		Why: why, Text: strings.ToValidUTF8(string(line[:min(len(line), 4096)]), "\uFFFD"), Bytes: int64(len(line)),
	}})
}

// PublishMessage publishes the state of a message.
func (r *Conn) PublishMessage(id, state string) {
	r.Publish(api.DialogueEvent{Type: api.DialogueEventMessage, Message: &api.DialogueMessage{MessageID: id, State: state}})
}

// PublishSent publishes a message that a client has sent: its item and its first state.
func (r *Conn) PublishSent(m agent.Message) {
	r.Publish(api.DialogueEvent{Type: api.DialogueEventItem, Item: &api.DialogueItem{ItemID: m.ID, Kind: "user", Status: "final", Parts: ContentParts(m.Content)}})
	r.PublishMessage(m.ID, "sent")
}

// Decision is the decision, allow or deny, that choosing an option means. An answer that also
// has a decision must not contradict its option.
func Decision(a agent.Response, chosen api.DialogueOption) (string, *api.Error) {
	decision, _, _ := strings.Cut(chosen.Kind, "_")
	decision = cmp.Or(decision, a.Decision, "allow")
	if a.Decision != "" && a.Decision != decision {
		return "", api.Errorf(api.CodeInvalidParams, "decision: option %.80q means %s, not %s", chosen.ID, decision, a.Decision)
	}
	return decision, nil
}
