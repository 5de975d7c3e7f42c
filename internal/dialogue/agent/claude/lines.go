package claude

import (
	"encoding/json"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// wireLine is a line of the program. Types and subtypes grow with every version, so only
// what is needed is read of it.
type wireLine struct {
	fields
	whole     []byte // as it came
	Type      string
	Subtype   string
	UUID      string
	SessionID string
	// Scope is the tool call whose subagent speaks, by our id once it is looked up; of a
	// tool_progress, the tool itself.
	Scope string
}

// readLine reads a line, with the memory of one that is not needed any more.
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
	whole     []byte // as it came
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

// readBlocks reads the content of a message, a text or blocks; ok says that it is one.
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

// Line takes a line of the program.
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
	case p.before(l):
		p.step.Ignored = l.kind() + " (repeated)"
	default:
		p.follow(l)
		p.heardFrom(l)
		p.take(l)
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

func (p *protocol) take(l *wireLine) {
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
			p.closeRequest(r.told.RequestID, "withdrawn")
		}
	case "command_lifecycle":
		p.lifecycleOf(l)
	case "conversation_reset":
		// The line still has the old session id; the first one after it has the new, and
		// says the same, also of versions that have no such line.
	case "rate_limit_event":
		p.rateLimit(l)
	case "auth_status":
		if text := l.wording("error"); text != "" {
			p.notice("error", "auth", text)
		}
	case "tool_progress", "tool_use_summary", "prompt_suggestion", "active_goal", "keep_alive":
		// A tool_progress names the tool itself as its parent: it is no sub-transcript.
	default:
		p.unparsed("unknown_type")
	}
}

// unparsed tells of a line that says nothing we know.
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

// before reports whether a line was taken before, and remembers it. The byte offset of the
// raw stream is what keeps a line from being taken twice; this is the second line of defence,
// against a program that says something again. Control lines have no uuid: they are told
// apart by their request ids, where they are taken.
func (p *protocol) before(l *wireLine) bool {
	if l.UUID == "" {
		return false
	}
	key := l.Type + " " + l.SessionID + " " + l.UUID
	if l.Type == "stream_event" { // pieces of several blocks may have come as one
		ev := readFields(l.raw("event"))
		key += " " + ev.text("type") + " " + string(ev.raw("index"))
	}
	if p.seen.Has(key) {
		return true
	}
	p.seen.Put(key, true)
	return false
}
