package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
)

// rpc is our side of a conversation in JSON-RPC, one message in a line, as Codex and the
// agents of ACP hold it. It numbers what we ask, knows what is to be done with the
// answers, and collects the step that is being made.
type rpc struct {
	version string // of JSON-RPC, told in every message; Codex leaves it out
	asked   int64  // the number of our last request
	pending map[int64]rpcPending
	step    Step
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
		why := "not_json"
		if json.Valid(line) {
			why = "bad_shape"
		}
		r.unparsed(line, why)
		return
	}
	if bytes.Equal(m.ID, []byte("null")) {
		m.ID = nil
	}
	var why, name string
	switch {
	case m.Method != "" && m.ID != nil:
		name = m.Method
		if why = peer.request(m); why != "" {
			code := rpcInvalidParams
			if why == "unknown_type" {
				code = rpcMethodNotFound
			}
			r.refuse(m.ID, code, m.Method+": the client cannot do this")
			r.notice("warning", "unknown_request", fmt.Sprintf("the agent asked for %.80q, which nobody here can answer", m.Method))
			why = ""
		}
	case m.Method != "":
		name = m.Method
		why = peer.notification(m)
	case m.ID != nil && (m.Result != nil || m.Error != nil):
		p, ok := r.pending[m.number()]
		if !ok {
			r.unparsed(line, "unknown_type")
			return
		}
		delete(r.pending, m.number())
		name = "answer to " + p.method
		p.then(m.Result, m.Error)
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
	if r.pending == nil {
		r.pending = map[int64]rpcPending{}
	}
	r.pending[r.asked] = rpcPending{method, then}
	r.write(rpcMessage{ID: strconv.AppendInt(nil, r.asked, 10), Method: method, Params: rpcJSON(params)})
}

func (r *rpc) notify(method string, params any) {
	r.write(rpcMessage{Method: method, Params: rpcJSON(params)})
}

func (r *rpc) reply(id json.RawMessage, result any) {
	r.write(rpcMessage{ID: id, Result: rpcJSON(result)})
}

func (r *rpc) refuse(id json.RawMessage, code int, text string) {
	r.write(rpcMessage{ID: id, Error: &rpcError{Code: code, Message: text}})
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
	r.tell(api.DialogueEvent{Type: api.ToldNotice, Notice: &api.DialogueNotice{Level: level, Code: code, Text: text}})
}

func (r *rpc) unparsed(line []byte, why string) {
	r.tell(api.DialogueEvent{Type: api.ToldUnparsed, Unparsed: &api.DialogueUnparsed{
		Why: why, Text: strings.ToValidUTF8(string(line[:min(len(line), 4096)]), "\uFFFD"), Bytes: int64(len(line)),
	}})
}

func (r *rpc) message(id, state string) {
	r.tell(api.DialogueEvent{Type: api.ToldMessage, Message: &api.DialogueMessage{MessageID: id, State: state}})
}

// sent tells of a message that was given to us to send.
func (r *rpc) sent(m Message) {
	item := &api.DialogueItem{ItemID: m.ID, Kind: "user", Status: "final"}
	for _, c := range m.Content {
		part := api.DialoguePart{Type: "text", Text: c.Text}
		if c.Type == "image" {
			part = api.DialoguePart{Type: "image", MediaType: c.MediaType, DataBase64: c.DataBase64}
		}
		item.Parts = append(item.Parts, part)
	}
	r.tell(api.DialogueEvent{Type: api.ToldItem, Item: item})
	r.message(m.ID, "sent")
}
