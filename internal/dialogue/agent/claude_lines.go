package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/trl-dev/trl/api"
)

// claudeLine is a line of the program. Types and subtypes grow with every version, so only
// what is needed is read, and a field of another type than expected counts as absent. The
// lines that come often are read at once, with the fields of all their types.
type claudeLine struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	UUID      string `json:"uuid"`
	SessionID string `json:"session_id"`
	// Scope is the tool call whose subagent speaks; of a tool_progress, the tool itself.
	Scope string `json:"parent_tool_use_id"`

	// assistant and user
	Message      claudeWords     `json:"message"`
	Replay       bool            `json:"isReplay"`
	Synthetic    bool            `json:"isSynthetic"`
	Aborted      bool            `json:"aborted"`
	Error        claudeText      `json:"error"` // also of api_retry and auth_status
	Supersedes   []string        `json:"supersedes"`
	Retracted    []string        `json:"retracted_message_uuids"`
	Structured   json.RawMessage `json:"tool_use_result"`
	UserMessages []string        `json:"user_message_uuids"` // also of result

	Event claudeEvent `json:"event"` // stream_event

	// control lines
	RequestID string          `json:"request_id"`
	Request   json.RawMessage `json:"request"`
	Response  struct {
		Subtype   string          `json:"subtype"`
		RequestID string          `json:"request_id"`
		Response  json.RawMessage `json:"response"`
		Error     claudeText      `json:"error"`
	} `json:"response"`

	// command_lifecycle, session_state_changed
	CommandUUID string `json:"command_uuid"`
	State       string `json:"state"`

	claudeAbout
	claudeResult
	claudeTaskLine

	raw []byte // all of it, for what is in rare lines only
}

// claudeWords is a message of the model, or to it.
type claudeWords struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // a text, or blocks
}

// claudeBlock is a block of a message.
type claudeBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    struct {
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`

	whole func() json.RawMessage // the block as it came; nil outside of a list
}

// claudeText is a text that may be missing, null or something else; then it is its JSON.
type claudeText json.RawMessage

func (t *claudeText) UnmarshalJSON(data []byte) error {
	*t = bytes.Clone(data)
	return nil
}

func (t claudeText) text() string {
	var s string
	if len(t) == 0 || string(t) == "null" || json.Unmarshal(t, &s) == nil {
		return s
	}
	return string(t)
}

// lenient reads what fits; what does not is left as it was.
func lenient(data []byte, v any) {
	if len(data) > 0 {
		_ = json.Unmarshal(data, v)
	}
}

// claudeBlocks reads the content of a message; ok says that it has a shape that is known.
func claudeBlocks(content json.RawMessage) (blocks []claudeBlock, ok bool) {
	switch {
	case len(content) == 0:
		return nil, false
	case content[0] == '"':
		var text string
		lenient(content, &text)
		return []claudeBlock{{Type: "text", Text: text}}, true
	case content[0] == '[':
		lenient(content, &blocks)
		// Few blocks are told as they came, so they are not copied before one is.
		all := sync.OnceValue(func() (all []json.RawMessage) {
			lenient(content, &all)
			return all
		})
		for i := range blocks {
			blocks[i].whole = func() json.RawMessage { return all()[i] }
		}
		return blocks, true
	}
	return nil, false
}

// Line takes a line of the program.
func (p *claudeProtocol) Line(line []byte) Step {
	p.begin()
	l := &p.line
	l.raw = line
	err := json.Unmarshal(line, l)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		p.unparsed("not_json")
	case l.Type == "":
		l.UUID = ""
		p.unparsed("bad_shape")
	case p.seen.before(l):
		p.step.Ignored = l.kind() + " (repeated)"
	default:
		p.follow(l)
		p.take(l)
	}
	if len(p.step.Events) == 0 && p.step.Ignored == "" {
		p.step.Ignored = l.kind()
	}
	return p.end()
}

func (l *claudeLine) kind() string {
	kind := l.Type
	if l.Type == "stream_event" {
		kind += "/" + l.Event.Type
	} else if l.Subtype != "" {
		kind += "/" + l.Subtype
	}
	if len(kind) > 100 {
		kind = strings.ToValidUTF8(kind[:100], "")
	}
	return kind
}

func (p *claudeProtocol) take(l *claudeLine) {
	switch l.Type {
	case "system":
		p.system(l)
	case "assistant":
		p.assistant(l)
	case "user":
		p.user(l)
	case "stream_event":
		p.streamed(l)
	case "result":
		p.result(l)
	case "control_response":
		p.answered(l)
	case "control_request":
		p.request(l)
	case "control_cancel_request":
		p.closeRequest(l.RequestID, "withdrawn")
	case "command_lifecycle":
		p.lifecycleOf(l)
	case "conversation_reset":
		// The line still has the old session id; the first one after it has the new.
		p.resetWhy = "cleared"
	case "rate_limit_event":
		p.rateLimit(l)
	case "auth_status":
		if text := l.Error.text(); text != "" {
			p.notice("error", "auth", text)
		}
	case "tool_progress", "tool_use_summary", "prompt_suggestion", "active_goal", "keep_alive":
		// A tool_progress names the tool itself as its parent: it is no sub-transcript.
	default:
		p.unparsed("unknown_type")
	}
}

// unparsed tells of a line that says nothing we know.
func (p *claudeProtocol) unparsed(why string) {
	const most = 4 << 10
	text := p.line.raw
	if len(text) > most {
		text = text[:most]
	}
	p.tell(api.DialogueEvent{Type: api.ToldUnparsed, Unparsed: &api.DialogueUnparsed{
		Why: why, Text: strings.ToValidUTF8(string(text), "\uFFFD"), Bytes: int64(len(p.line.raw)),
	}})
}

// claudeMemory knows the lines that were taken lately. The byte offset of the raw stream is
// what keeps a line from being taken twice; this is the second line of defence, against a
// program that says something again.
type claudeMemory struct {
	lines map[string]bool
	order []string // a ring
	next  int
}

const claudeMemorySize = 1 << 13

// before reports whether l was taken before, and remembers it. Control lines have no uuid:
// they are told apart by their request ids, where they are taken.
func (m *claudeMemory) before(l *claudeLine) bool {
	if l.UUID == "" {
		return false
	}
	key := l.Type + " " + l.SessionID + " " + l.UUID
	if m.lines[key] {
		return true
	}
	if m.lines == nil {
		m.lines = map[string]bool{}
	}
	if len(m.order) < claudeMemorySize {
		m.order = append(m.order, key)
	} else {
		delete(m.lines, m.order[m.next])
		m.order[m.next] = key
		m.next = (m.next + 1) % claudeMemorySize
	}
	m.lines[key] = true
	return false
}
