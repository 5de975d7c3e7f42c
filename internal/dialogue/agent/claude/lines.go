package claude

import (
	"encoding/json"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// wireLine is a line of the program. Every version adds types and subtypes, so TRL reads only
// the fields that it needs.
type wireLine struct {
	fields
	whole     []byte // the line itself
	Type      string
	Subtype   string
	UUID      string
	SessionID string
	// Scope is the tool call whose subagent the line comes from: its native id, and our id
	// after resolveScope. Of a tool_progress it is the tool itself.
	Scope string
}

// readLine reads a line, and reuses the memory of the fields of an old one.
func readLine(line []byte, old fields) wireLine {
	f := appendFields(old[:0], line)
	return wireLine{
		fields: f, whole: line, Type: f.text("type"), Subtype: f.text("subtype"),
		UUID: f.text("uuid"), SessionID: f.text("session_id"), Scope: f.text("parent_tool_use_id"),
	}
}

// block is a block of a message.
type block struct {
	fields
	whole     []byte // the block itself
	Type      string
	Text      string
	ID        string
	Name      string
	ToolUseID string
}

func readBlock(text []byte) block {
	f := appendFields(make(fields, 0, 5), text)
	return block{
		fields: f, whole: text, Type: f.text("type"), Text: f.text("text"),
		ID: f.text("id"), Name: f.text("name"), ToolUseID: f.text("tool_use_id"),
	}
}

// readBlocks reads the content of a message: a text, or blocks. It is not ok for anything else.
func readBlocks(content []byte) (blocks []block, ok bool) {
	if len(content) > 0 && content[0] == '"' {
		return []block{{Type: "text", Text: readText(content)}}, true
	}
	elements, ok := readElements(content)
	for _, e := range elements {
		blocks = append(blocks, readBlock(e))
	}
	return blocks, ok
}

// Line implements agent.Protocol.
func (p *protocol) Line(line []byte) agent.Step {
	if !json.Valid(line) {
		p.begin(wireLine{whole: line})
		p.unparsed("not_json")
		return p.end()
	}
	p.begin(readLine(line, p.room))
	l := &p.line
	p.room = l.fields
	switch {
	case l.Type == "":
		l.UUID = ""
		p.unparsed("bad_shape")
	case p.isRepeated(l):
		p.step.Ignored = l.kind() + " (repeated)"
	default:
		p.follow(l)
		p.resolveScope(l)
		p.handle(l)
	}
	if len(p.step.Events) == 0 && p.step.Ignored == "" {
		p.step.Ignored = l.kind()
	}
	return p.end()
}

func (l *wireLine) kind() string {
	kind := l.Type
	if l.Type == "stream_event" {
		kind += "/" + readFields(l.raw("event")).text("type")
	} else if l.Subtype != "" {
		kind += "/" + l.Subtype
	}
	if len(kind) > 100 {
		kind = strings.ToValidUTF8(kind[:100], "")
	}
	return kind
}

// handle passes a line on by its type.
func (p *protocol) handle(l *wireLine) {
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
		if r := p.waitingFor(l.text("request_id")); r != nil {
			p.closeRequest(r.info.RequestID, "withdrawn")
		}
	case "command_lifecycle":
		p.lifecycleOf(l)
	case "conversation_reset":
		// This line still has the old session id. The next line has the new one, which
		// means the same, also in versions that have no such line: see follow.
	case "rate_limit_event":
		p.rateLimit(l)
	case "auth_status":
		if text := l.wording("error"); text != "" {
			p.notice("error", "auth", text)
		}
	case "tool_progress", "tool_use_summary", "prompt_suggestion", "active_goal", "keep_alive":
		// The parent of a tool_progress is the tool itself, so it is not in a sub-transcript.
	default:
		p.unparsed("unknown_type")
	}
}

// unparsed publishes a line that TRL does not understand.
func (p *protocol) unparsed(why string) {
	const most = 4 << 10
	text := p.line.whole
	if len(text) > most {
		text = text[:most]
	}
	p.publish(api.DialogueEvent{Type: api.DialogueEventUnparsed, Unparsed: &api.DialogueUnparsed{
		Why: why, Text: strings.ToValidUTF8(string(text), "\uFFFD"), Bytes: int64(len(p.line.whole)),
	}})
}

// isRepeated reports whether a line came before, and remembers it. The dialogue already drops
// repeated output by its byte offset; this protects against a program that repeats a line.
// Control lines have no uuid, and are compared by their request ids where they are handled.
func (p *protocol) isRepeated(l *wireLine) bool {
	if l.UUID == "" {
		return false
	}
	key := l.Type + " " + l.SessionID + " " + l.UUID
	if l.Type == "stream_event" { // events of several blocks may have the same uuid
		ev := readFields(l.raw("event"))
		key += " " + ev.text("type") + " " + string(ev.raw("index"))
	}
	if p.seen.Has(key) {
		return true
	}
	p.seen.Put(key, true)
	return false
}
