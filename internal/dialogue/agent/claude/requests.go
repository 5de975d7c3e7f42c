package claude

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// openRequest is a control request of the program that waits for an answer. The turn waits with
// it.
type openRequest struct {
	info        api.DialogueRequest // as published
	subtype     string
	input       json.RawMessage   // of the tool
	suggestions []json.RawMessage // rules that would allow the same from now on
}

// controlRequest has the fields of the control requests that TRL answers.
type controlRequest struct {
	Subtype string `json:"subtype"`
	// can_use_tool
	Tool        string            `json:"tool_name"`
	Input       json.RawMessage   `json:"input"`
	ToolUseID   string            `json:"tool_use_id"`
	AgentID     string            `json:"agent_id"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Reason      string            `json:"decision_reason"`
	BlockedPath string            `json:"blocked_path"`
	Suggestions []json.RawMessage `json:"permission_suggestions"`
	// elicitation
	Server  string          `json:"mcp_server_name"`
	Message string          `json:"message"`
	URL     string          `json:"url"`
	Schema  json.RawMessage `json:"requested_schema"`
	// request_user_dialog
	Dialog  string          `json:"dialog_kind"`
	Payload json.RawMessage `json:"payload"`
}

// request handles a control request of the program. It answers every request at once, except
// requests that a client or the policy has to answer.
func (p *protocol) request(l *wireLine) {
	var in controlRequest
	lenient(l.raw("request"), &in)
	native := l.text("request_id")
	if native == "" {
		p.unparsed("bad_shape")
		return
	}
	// A repeated request is ignored. Another request with the same id is not a repetition.
	if last, known := p.asked.Get(native); known && last == requestHash(l) {
		p.step.Ignored = l.Type + " (repeated)"
		return
	}
	p.asked.Put(native, requestHash(l))
	told := api.DialogueRequest{NativeID: native, ToolCallID: p.askingCall(in), TaskID: p.taskID(in.AgentID), Title: in.Title}
	switch in.Subtype {
	case "can_use_tool":
		p.askForTool(&told, in)
	case "elicitation":
		told.Kind, told.Tool, told.Input = "elicitation", in.Server, in.Schema
		if told.Subject = in.URL; in.URL != "" {
			told.SubjectKind, told.SubjectSource = "address", "request"
		}
		told.Title, told.Reason = cmp.Or(in.Title, in.Message), in.Description
		told.Options = allowOrDeny(nil)
	case "request_user_dialog":
		told.Kind, told.Subject, told.Input = "dialog", in.Dialog, in.Payload
		if in.Dialog != "" {
			told.SubjectSource = "request"
		}
		told.Options = allowOrDeny(nil)
	case "":
		p.reply(native, map[string]any{"subtype": "error", "error": "unsupported request: it has no subtype"})
		p.unparsed("bad_shape")
		return
	default:
		// It is for a hook or an MCP server of the host. TRL has none.
		p.reply(native, map[string]any{"subtype": "error", "error": "unsupported request: " + in.Subtype})
		p.notice("warning", "unknown_request", fmt.Sprintf("the agent asked for %.100q, which was refused", in.Subtype))
		return
	}
	told.RequestID = p.ids.Request()
	p.requests[told.RequestID] = &openRequest{info: told, subtype: in.Subtype, input: in.Input, suggestions: in.Suggestions}
	p.waiting = append(p.waiting, told.RequestID)
	p.publish(api.DialogueEvent{Type: api.DialogueEventRequestOpened, Request: &told})
	p.moveTool(told.ToolCallID, "awaiting_approval")
}

// requestHash identifies the content of a control request.
func requestHash(l *wireLine) string {
	sum := sha256.Sum256(l.raw("request"))
	return string(sum[:])
}

// waitingFor is the open request with the program's id; nil if there is none. Of several it is
// the last, because the program knows only that one.
func (p *protocol) waitingFor(native string) *openRequest {
	for _, id := range slices.Backward(p.waiting) {
		if r := p.requests[id]; r.info.NativeID == native {
			return r
		}
	}
	return nil
}

var ansi = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
})

// askForTool fills in a request to use a tool. The program also sends questions and plans as
// tools.
func (p *protocol) askForTool(told *api.DialogueRequest, in controlRequest) {
	told.Kind, told.Tool, told.Input, told.Editable = "permission", in.Tool, in.Input, true
	s := toolSubject(in.Tool, in.Input)
	switch {
	case s.text != "":
		told.SubjectSource = "input"
		if s.isTitle {
			told.SubjectSource = "title"
		}
	case in.BlockedPath != "" && !s.unclear:
		s.text, s.kind, told.SubjectSource = in.BlockedPath, "path", "request"
	}
	told.Subject, told.SubjectKind = s.text, s.kind
	told.Title = cmp.Or(in.Title, in.Description, s.title)
	told.Reason = ansi().ReplaceAllString(in.Reason, "")
	told.Options = allowOrDeny(in.Suggestions)
	switch in.Tool {
	case "ExitPlanMode":
		told.Kind, told.Editable = "plan", false
		if t := p.tools[told.ToolCallID]; t != nil && len(in.Input) <= len("{}") {
			told.Input = t.item.Tool.Input // the request has the plan only if it is in a file
		}
	case "AskUserQuestion":
		told.Kind, told.Options, told.Editable = "question", nil, false
		var ask struct {
			Questions []struct {
				Question string `json:"question"`
				Header   string `json:"header"`
				Multiple bool   `json:"multiSelect"`
				Options  []struct {
					Label       string `json:"label"`
					Description string `json:"description"`
				} `json:"options"`
			} `json:"questions"`
		}
		lenient(in.Input, &ask)
		for i, q := range ask.Questions {
			question := api.DialogueQuestion{ID: fmt.Sprintf("q%d", i+1), Question: q.Question, Header: q.Header, Multiple: q.Multiple}
			for _, o := range q.Options {
				question.Options = append(question.Options, api.DialogueOption{ID: o.Label, Label: o.Label, Description: o.Description})
			}
			told.Questions = append(told.Questions, question)
		}
	}
}

func allowOrDeny(suggestions []json.RawMessage) []api.DialogueOption {
	options := []api.DialogueOption{{ID: "allow", Label: "Allow", Kind: "allow"}}
	if rules := remembered(suggestions); len(rules) > 0 {
		texts := make([]string, len(rules))
		for i, r := range rules {
			texts[i] = string(r)
		}
		options = append(options, api.DialogueOption{ID: "allow_always", Label: "Allow from now on", Description: strings.Join(texts, " "), Kind: "allow_always"})
	}
	return append(options, api.DialogueOption{ID: "deny", Label: "Deny", Kind: "deny"})
}

// remembered picks the suggestions for "allow from now on": the rules, which allow the same
// again; only without rules the other ones, such as another mode, which allow more.
func remembered(suggestions []json.RawMessage) []json.RawMessage {
	var rules []json.RawMessage
	for _, s := range suggestions {
		var in struct {
			Type string `json:"type"`
		}
		if lenient(s, &in); in.Type == "addRules" {
			rules = append(rules, s)
		}
	}
	if rules == nil {
		return suggestions
	}
	return rules
}

// respond answers an open request.
func (p *protocol) respond(r *agent.Response) *api.Error {
	req := p.requests[r.RequestID]
	if req == nil {
		return api.Errorf(api.CodeConflict, "request %q: is not waiting for an answer", r.RequestID)
	}
	decision, remember, answers := r.Decision, r.Remember, r.Answers
	switch {
	case r.Option == "":
	case req.info.Kind == "question" && len(req.info.Questions) == 1 && answers == nil:
		answers = map[string]string{req.info.Questions[0].Question: r.Option}
	case slices.ContainsFunc(req.info.Options, func(o api.DialogueOption) bool { return o.ID == r.Option }):
		remember = remember || r.Option == "allow_always"
		decision, _, _ = strings.Cut(r.Option, "_")
	default:
		return req.invalid("there is no option %.60q", r.Option)
	}
	kind := req.info.Kind
	switch {
	case r.Decision != "" && r.Decision != decision:
		return req.invalid("option %.60q is not %s", r.Option, r.Decision)
	case len(answers) > 0 && kind != "question" && kind != "elicitation" && kind != "dialog":
		return req.invalid("a %s has no questions to answer", kind)
	case decision == "" && len(answers) == 0:
		return req.invalid("needs a decision or an answer")
	case r.Input != nil && !json.Valid(r.Input):
		return req.invalid("input is not JSON")
	}
	decision = cmp.Or(decision, "allow") // answers without a decision mean to continue
	if decision == "allow" && len(req.info.Questions) > 0 && len(answers) == 0 &&
		len(readFields(readFields(r.Input).raw("answers"))) == 0 {
		return req.invalid("a question is allowed by answers to it")
	}
	var response map[string]any
	switch req.subtype {
	case "can_use_tool":
		response = req.toolAnswer(decision, r, answers)
		if rules := remembered(req.suggestions); decision == "allow" && remember && len(rules) > 0 {
			response["updatedPermissions"] = rules // not null, for which the program refuses to run the tool
		}
	case "elicitation":
		response = map[string]any{"action": "decline"}
		if decision == "allow" {
			response = map[string]any{"action": "accept", "content": formContent(r.Input, answers)}
		}
	default:
		response = map[string]any{"behavior": "cancelled"}
		if decision == "allow" {
			response = map[string]any{"behavior": "completed", "result": formContent(r.Input, answers)}
		}
	}
	p.reply(req.info.NativeID, map[string]any{"subtype": "success", "response": response})
	told := req.info
	told.How, told.Decision, told.By, told.AnsweredBy = "answered", decision, r.By, r.AnsweredBy
	if decision == "allow" && (r.Input != nil || len(answers) > 0) {
		told.EffectiveInput = effectiveInput(req.input, response)
	}
	p.dropRequest(told)
	if decision == "allow" {
		p.moveTool(told.ToolCallID, "running")
	}
	if told.EffectiveInput != nil && req.subtype == "can_use_tool" && told.ToolCallID != "" {
		p.changeInput(told.ToolCallID, told.EffectiveInput)
	}
	return nil
}

func (q *openRequest) invalid(format string, args ...any) *api.Error {
	return api.Errorf(api.CodeInvalidParams, "request %q: %s", q.info.RequestID, fmt.Sprintf(format, args...))
}

// toolAnswer allows or denies the use of a tool. Old versions need the input in the answer, even
// an unchanged one.
func (q *openRequest) toolAnswer(decision string, r *agent.Response, answers map[string]string) map[string]any {
	if decision == "deny" {
		return map[string]any{"behavior": "deny", "message": cmp.Or(r.Message, "This was denied."), "interrupt": r.Interrupt}
	}
	input := map[string]json.RawMessage{}
	lenient(q.input, &input)
	if r.Input != nil {
		input = map[string]json.RawMessage{}
		lenient(r.Input, &input)
	}
	if len(answers) > 0 {
		byText := map[string]string{}
		for key, answer := range answers {
			for _, question := range q.info.Questions {
				if key == question.ID {
					key = question.Question
				}
			}
			byText[key] = answer
		}
		input["answers"], _ = json.Marshal(byText)
	}
	return map[string]any{"behavior": "allow", "updatedInput": input}
}

// formContent is the content of a form: an object, or answers by name.
func formContent(input json.RawMessage, answers map[string]string) any {
	switch {
	case input != nil:
		return input
	case answers != nil:
		return answers
	}
	return map[string]any{}
}

// effectiveInput is the input that an answer sets instead of the original one; nil if they are
// equal.
func effectiveInput(input json.RawMessage, response map[string]any) json.RawMessage {
	for _, field := range []string{"updatedInput", "content", "result"} {
		if given, ok := response[field]; ok {
			effective, _ := json.Marshal(given)
			var before, after any
			lenient(input, &before)
			lenient(effective, &after)
			if !reflect.DeepEqual(before, after) {
				return effective
			}
		}
	}
	return nil
}

func (p *protocol) reply(id string, response map[string]any) {
	response["request_id"] = id
	p.write(map[string]any{"type": "control_response", "response": response})
}

// closeRequest closes a request that needs no answer any more.
func (p *protocol) closeRequest(id, how string) {
	if req := p.requests[id]; req != nil {
		told := req.info
		told.How, told.By = how, "agent"
		p.dropRequest(told)
	}
}

func (p *protocol) dropRequest(told api.DialogueRequest) {
	delete(p.requests, told.RequestID)
	p.waiting = slices.DeleteFunc(p.waiting, func(s string) bool { return s == told.RequestID })
	p.publish(api.DialogueEvent{Type: api.DialogueEventRequestClosed, Request: &told})
}

func (p *protocol) moveTool(id, status string) {
	if t := p.tools[id]; t != nil && t.open() && t.item.Tool.Status != status {
		t.item.Tool.Status = status
		p.publishTool(t)
	}
}
