package agent

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
	"github.com/trl-dev/trl/internal/recent"
)

// rpc is our side of a conversation in JSON-RPC, one message in a line, as Codex and the
// agents of ACP hold it. It numbers what we ask, knows what is to be done with the
// answers, and collects the step that is being made.
type rpc struct {
	version string // of JSON-RPC, told in every message; Codex leaves it out
	asked   int64  // the number of our last request
	pending map[int64]rpcPending
	ids     IDs
	refused rpcSeen // requests that nobody can answer; of each it is told once
	step    Step
}

// newRPC makes the connection with a process. The version of JSON-RPC is sent in every
// message; empty leaves it out, as Codex wants it.
func newRPC(version string, epoch int) rpc {
	return rpc{version: version, pending: map[int64]rpcPending{}, ids: NewIDs(epoch), refused: newRPCSeen()}
}

// rpcSeen recognises texts that come again. It keeps hashes of the newest texts, because the
// texts may be long.
type rpcSeen struct{ sums *recent.Map[struct{}] }

func newRPCSeen() rpcSeen { return rpcSeen{recent.New[struct{}](1000)} }

// again reports whether a text came before, and remembers it.
func (s rpcSeen) again(text string) bool {
	sum := sha256.Sum256([]byte(text))
	id := string(sum[:])
	if s.sums.Has(id) {
		return true
	}
	s.sums.Put(id, struct{}{})
	return false
}

type rpcPending struct {
	method string
	then   func(result json.RawMessage, err *rpcError)
}

// rpcMessage is any message: a request has an id and a method, a notification only a
// method, an answer only an id.
type rpcMessage struct {
	Version string          `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// UnmarshalJSON takes any shape: what is not one of JSON-RPC is an error all the same.
func (e *rpcError) UnmarshalJSON(raw []byte) error {
	type known rpcError
	var k known
	if json.Unmarshal(raw, &k); k.Message == "" {
		k.Message = string(raw[:min(len(raw), 4096)])
	}
	*e = rpcError(k)
	return nil
}

// text is the error for people: some programs say what is wrong only in the data.
func (e *rpcError) text() string {
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

// The codes of JSON-RPC for requests that we refuse.
const (
	rpcInvalidRequest = -32600
	rpcMethodNotFound = -32601
	rpcInvalidParams  = -32602
)

// rpcPeer is what a protocol does with messages that are not answers. Both return why the
// message says nothing that is known, in a word for the event unparsed; empty when it was taken.
type rpcPeer interface {
	request(m rpcMessage) (why string)
	notification(m rpcMessage) (why string)
}

// line takes a line of the program. Every line leaves a trace in the step.
func (r *rpc) line(line []byte, peer rpcPeer) {
	var m rpcMessage
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
		// A field of another shape than we know is as if it were absent.
	}
	var why, name string
	switch {
	case m.Method != "" && m.ID != nil:
		name = m.Method
		why = r.requested(m, peer)
	case m.Method != "":
		name = m.Method
		why = peer.notification(m)
	case m.ID != nil:
		p, ok := r.pending[m.number()]
		switch {
		case ok: // Some programs leave out a result that is nothing.
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
	if len(r.step.Events) == 0 && r.step.Ignored == "" {
		r.step.Ignored = name
	}
}

// requested passes a request to the peer. It rejects a request that TRL cannot answer, so
// that the program does not wait for it, and ignores a repeated one (see rpcAsked).
func (r *rpc) requested(m rpcMessage, peer rpcPeer) (why string) {
	code := rpcInvalidRequest
	switch c := m.ID[0]; {
	case c == 'n': // Some programs give their notifications an id, which is null.
		if why = peer.notification(m); why != "unknown_type" {
			return why
		}
		code = rpcMethodNotFound
	case (c == '"' || c == '-' || c >= '0' && c <= '9') && len(m.ID) <= maxID:
		switch peer.request(m) {
		case "":
			return ""
		case "unknown_type":
			code = rpcMethodNotFound
		default:
			code = rpcInvalidParams
		}
	}
	r.write(rpcMessage{ID: m.ID, Error: &rpcError{Code: code, Message: m.Method + ": the client cannot do this"}})
	if r.refused.again(string(m.ID) + m.Method + string(m.Params)) {
		return ""
	}
	r.notice("warning", "unknown_request", fmt.Sprintf("the agent asked for %.80q, which nobody here can answer", m.Method))
	return ""
}

// maxID is the maximum length of the id of a request, which is published with the request.
const maxID = 200

// name is the program's id of a request as we tell it: 7 is another id than "7".
func (m rpcMessage) name() string {
	if m.ID[0] == '"' {
		if text := m.ID[1 : len(m.ID)-1]; !json.Valid(text) {
			return string(text)
		}
	}
	return string(m.ID)
}

// rpcAsked is a request of the program as it came. A program may use an id again when it has
// its answer; what comes again before that is not asked again.
type rpcAsked struct{ id, params json.RawMessage }

func (m rpcMessage) asked() rpcAsked { return rpcAsked{m.ID, m.Params} }

func (a rpcAsked) is(m rpcMessage) bool {
	return bytes.Equal(a.id, m.ID) && bytes.Equal(a.params, m.Params)
}

// number is the id of an answer as the number that we gave; some programs make it a string.
func (m rpcMessage) number() int64 {
	n, err := strconv.ParseInt(strings.Trim(string(m.ID), `"`), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// take returns the step that was made, and begins the next one.
func (r *rpc) take() Step {
	s := r.step
	r.step = Step{}
	return s
}

func (r *rpc) ask(method string, params any, then func(result json.RawMessage, err *rpcError)) {
	r.asked++
	r.pending[r.asked] = rpcPending{method, then}
	r.write(rpcMessage{ID: strconv.AppendInt(nil, r.asked, 10), Method: method, Params: rpcJSON(params)})
}

func (r *rpc) notify(method string, params any) {
	r.write(rpcMessage{Method: method, Params: rpcJSON(params)})
}

func (r *rpc) reply(id json.RawMessage, result any) {
	r.write(rpcMessage{ID: id, Result: rpcJSON(result)})
}

func (r *rpc) write(m rpcMessage) {
	m.Version = r.version
	r.step.Write = append(r.step.Write, append(rpcJSON(m), '\n'))
}

// rpcJSON encodes what we made ourselves, which always can be.
func rpcJSON(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("agent: encode " + fmt.Sprintf("%T", v) + ": " + err.Error())
	}
	return b
}

// answered says what became of a call.
func (r *rpc) answered(call string, err *api.Error) {
	r.step.Answers = append(r.step.Answers, Answer{ID: call, Err: err})
}

func (r *rpc) tell(ev api.DialogueEvent) { r.step.Events = append(r.step.Events, ev) }

func (r *rpc) notice(level, code, text string) {
	r.tell(api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{Level: level, Code: code, Text: text}})
}

func (r *rpc) unparsed(line []byte, why string) {
	r.tell(api.DialogueEvent{Type: api.DialogueEventUnparsed, Unparsed: &api.DialogueUnparsed{
		Why: why, Text: strings.ToValidUTF8(string(line[:min(len(line), 4096)]), "\uFFFD"), Bytes: int64(len(line)),
	}})
}

func (r *rpc) message(id, state string) {
	r.tell(api.DialogueEvent{Type: api.DialogueEventMessage, Message: &api.DialogueMessage{MessageID: id, State: state}})
}

// sent tells of a message that was given to us to send.
func (r *rpc) sent(m Message) {
	r.tell(api.DialogueEvent{Type: api.DialogueEventItem, Item: &api.DialogueItem{ItemID: m.ID, Kind: "user", Status: "final", Parts: rpcContent(m.Content)}})
	r.message(m.ID, "sent")
}

// rpcDecision is what it decides to choose an option, which must not be the opposite of the
// decision that is given beside it.
func rpcDecision(a Response, chosen api.DialogueOption) (string, *api.Error) {
	decision, _, _ := strings.Cut(chosen.Kind, "_")
	decision = cmp.Or(decision, a.Decision, "allow")
	if a.Decision != "" && a.Decision != decision {
		return "", api.Errorf(api.CodeInvalidParams, "decision: option %.80q is to %s, not to %s", chosen.ID, decision, a.Decision)
	}
	return decision, nil
}

// rpcContent is what is sent as an item shows it.
func rpcContent(content []api.DialogueContent) (parts []api.DialoguePart) {
	for _, c := range content {
		part := api.DialoguePart{Type: "text", Text: c.Text}
		if c.Type == "image" {
			part = api.DialoguePart{Type: "image", MediaType: c.MediaType, DataBase64: c.DataBase64}
		}
		parts = append(parts, part)
	}
	return parts
}

func rpcNotNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// rpcNumber reads a number; nil when there is none, or it is too large.
func rpcNumber[T int | float64](raw json.RawMessage) *T {
	var n *T
	if json.Unmarshal(raw, &n) != nil {
		return nil
	}
	return n
}

// rpcTokens is a number of tokens; one that cannot be counts as none, so that sums are right.
func rpcTokens(n int64) int64 {
	if n < 0 || n > 1<<50 {
		return 0
	}
	return n
}
