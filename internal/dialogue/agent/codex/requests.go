package codex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// request is an open request of Codex.
type request struct {
	id     json.RawMessage // Codex's id
	name   string          // our id
	method string
	kind   string
	thread *thread
	item   string // Codex's id of the item that it is about
	// options are the answers that Codex offers; decisions are the values to send for them.
	options   []api.DialogueOption
	decisions map[string]json.RawMessage
	asked     requestParams
}

// requestParams has the fields of all requests.
type requestParams struct {
	ThreadID, TurnID, ItemID, Reason, Command, Cwd string
	Kind                                           string // what a command asks for
	NetworkApprovalContext                         struct{ Protocol, Host string }
	AvailableDecisions                             []json.RawMessage
	GrantRoot                                      string
	Questions                                      []struct {
		ID, Header, Question string
		Options              []struct{ Label, Description string }
	}
	ServerName, Mode, Message, URL string
	RequestedSchema                json.RawMessage
	Permissions                    json.RawMessage
}

// Request implements jsonrpc.Peer.
func (c *protocol) Request(m jsonrpc.Message) (why string) {
	if c.lines.Again(m.Method + m.NativeID() + string(m.Params)) { // Codex never uses an id again
		c.Step.Ignored = m.Method + " (repeated)"
		return ""
	}
	r := &request{id: m.ID, method: m.Method}
	json.Unmarshal(m.Params, &r.asked)
	a := r.asked
	ask := &api.DialogueRequest{NativeID: m.NativeID(), Kind: "permission", Reason: a.Reason, SubjectSource: "request"}
	switch m.Method {
	case "item/commandExecution/requestApproval":
		switch host := a.NetworkApprovalContext.Host; {
		case host != "": // the running command wants to reach this host
			ask.Tool, ask.Subject, ask.SubjectKind = "network", a.NetworkApprovalContext.Protocol+"://"+host, "address"
		case a.Kind != "" && a.Kind != "command": // the request is about a running command, such as to write to it
			ask.Tool = a.Kind
		default:
			ask.Tool, ask.Subject, ask.SubjectKind = "commandExecution", innerCommand(a.Command), "command"
		}
		ask.Input = jsonrpc.Encode(params{"command": a.Command, "cwd": a.Cwd})
		r.offer(a.AvailableDecisions)
	case "item/fileChange/requestApproval":
		ask.Tool, ask.SubjectKind = "fileChange", "path"
		if a.GrantRoot != "" { // the request is for the whole directory
			ask.Subject = strings.TrimSuffix(path.Clean(a.GrantRoot), "/") + "/"
		}
		r.offer(nil)
	case "item/permissions/requestApproval":
		// The request may be for several permissions at once, so it has no subject: a rule for
		// a path must not allow the network.
		ask.Tool, ask.Input = "permissions", jsonrpc.NotNull(a.Permissions)
	case "item/tool/requestUserInput":
		ask.Kind, ask.Tool = "question", "requestUserInput"
		for _, q := range a.Questions {
			question := api.DialogueQuestion{ID: q.ID, Question: q.Question, Header: q.Header}
			for _, o := range q.Options {
				question.Options = append(question.Options, api.DialogueOption{Label: o.Label, Description: o.Description})
			}
			ask.Questions = append(ask.Questions, question)
		}
	case "mcpServer/elicitation/request":
		ask.Kind, ask.Tool, ask.Title = "elicitation", "mcp__"+a.ServerName, a.Message
		ask.Subject, ask.SubjectKind, ask.Input = a.URL, "address", jsonrpc.NotNull(a.RequestedSchema)
	default:
		return "unknown_type"
	}
	if c.main == nil || a.ThreadID == "" {
		return "bad_shape"
	}
	r.kind, r.thread, r.item = ask.Kind, c.thread(a.ThreadID), a.ItemID
	r.name = c.IDs.Request()
	ask.RequestID = r.name
	if t := r.thread.task; t != nil {
		ask.TaskID = t.TaskID
	}
	if o := r.thread.find(r.item); o != nil && o.item.Tool != nil {
		ask.ToolCallID = o.item.ItemID
		if m.Method == "item/fileChange/requestApproval" {
			if ask.Subject == "" {
				ask.Subject, ask.SubjectSource = o.item.Tool.Subject, "input"
			}
			ask.Input = o.item.Tool.Input
			var input struct{ Changes []fileChange }
			json.Unmarshal(ask.Input, &input)
			ask.Paths = agent.OtherPaths(ask.Subject, changedFiles(input.Changes))
		}
		o.item.Tool.Status = "awaiting_approval"
		c.scoped(r.thread, api.DialogueEvent{Type: api.DialogueEventItem, NativeID: r.item, Item: o.tool("awaiting_approval")})
	}
	ask.Options = r.options
	if ask.Subject == "" {
		ask.SubjectKind, ask.SubjectSource = "", ""
	}
	c.requests = append(c.requests, r)
	c.scoped(r.thread, api.DialogueEvent{Type: api.DialogueEventRequestOpened, Request: ask})
	return ""
}

// offer lists the answers to an approval. A decision is a word, or an object with the word as its
// key. Codex understands decline and cancel even if it does not list them.
func (r *request) offer(listed []json.RawMessage) {
	if listed == nil {
		listed = []json.RawMessage{[]byte(`"accept"`), []byte(`"acceptForSession"`)}
	}
	listed = append(slices.Clone(listed), []byte(`"decline"`), []byte(`"cancel"`))
	r.decisions = map[string]json.RawMessage{}
	for _, raw := range listed {
		word, detail := decisionWord(raw)
		if word == "" {
			continue
		}
		id := word
		for n := 2; r.decisions[id] != nil && string(r.decisions[id]) != string(raw); n++ {
			id = fmt.Sprint(word, "-", n) // allowing and denying a host have the same word
		}
		if r.decisions[id] != nil {
			continue
		}
		r.decisions[id] = raw
		option := api.DialogueOption{ID: id, Label: word, Description: string(detail), Kind: "allow"}
		switch word {
		case "accept":
		case "decline":
			option.Kind = "deny"
		case "cancel":
			option.Kind, option.Description = "deny", "and end the turn"
		case "applyNetworkPolicyAmendment":
			var rule struct {
				Amendment struct{ Action string } `json:"network_policy_amendment"`
			}
			json.Unmarshal(detail, &rule)
			if option.Kind = "allow_always"; rule.Amendment.Action == "deny" {
				option.Kind = "deny_always"
			}
		default:
			option.Kind = "allow_always"
		}
		r.options = append(r.options, option)
	}
}

// decisionWord splits a decision into its word and the rest of the object.
func decisionWord(raw json.RawMessage) (word string, detail json.RawMessage) {
	if json.Unmarshal(raw, &word) == nil {
		return word, nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil && len(object) == 1 {
		for key, value := range object {
			return key, value
		}
	}
	return "", nil
}

// respond answers a request.
func (c *protocol) respond(a agent.Response) *api.Error {
	i := slices.IndexFunc(c.requests, func(r *request) bool { return r.name == a.RequestID })
	if i < 0 {
		return api.Errorf(api.CodeConflict, "request %q is not waiting for an answer", a.RequestID)
	}
	r := c.requests[i]
	result, decision, err := r.answer(a)
	if err != nil {
		return err
	}
	c.requests = slices.Delete(c.requests, i, i+1)
	c.Reply(r.id, result)
	closed := &api.DialogueRequest{RequestID: r.name, Kind: r.kind, How: "answered", Decision: decision, By: a.By, AnsweredBy: a.AnsweredBy}
	if decision == "allow" {
		closed.EffectiveInput = a.Input
	}
	c.scoped(r.thread, api.DialogueEvent{Type: api.DialogueEventRequestClosed, Request: closed})
	c.resume(r)
	// A denial has no field for a message, so the message goes into the turn.
	if decision == "deny" && a.Message != "" && !a.Interrupt && r.thread.turn != "" {
		c.Ask("turn/steer", params{"threadId": r.thread.id, "expectedTurnId": r.thread.turn,
			"input": []params{{"type": "text", "text": a.Message, "text_elements": []any{}}}}, func(json.RawMessage, *jsonrpc.Error) {})
	}
	return nil
}

// resume publishes that the tool call of a request continues.
func (c *protocol) resume(r *request) {
	if o := r.thread.find(r.item); o != nil && o.item.Tool != nil && o.item.Tool.Status == "awaiting_approval" {
		o.item.Tool.Status = "running"
		c.scoped(r.thread, api.DialogueEvent{Type: api.DialogueEventItem, NativeID: r.item, Item: o.tool("running")})
	}
}

// answer returns the answer for Codex, and whether it allows or denies.
func (r *request) answer(a agent.Response) (result any, decision string, err *api.Error) {
	decision = cmp.Or(a.Decision, "allow")
	allow := decision == "allow"
	switch {
	case r.kind == "question":
		result, err = r.userInput(a, allow)
		return result, decision, err
	case a.Option != "":
		i := slices.IndexFunc(r.options, func(o api.DialogueOption) bool { return o.ID == a.Option })
		if i < 0 {
			return nil, "", api.Errorf(api.CodeInvalidParams, "option %.80q is not one of the request's", a.Option)
		}
		if decision, err = jsonrpc.Decision(a, r.options[i]); err != nil {
			return nil, "", err
		}
	}
	if r.kind == "elicitation" {
		return r.elicited(a, allow), decision, nil
	}
	switch {
	case a.Input != nil:
		return nil, "", api.Errorf(api.CodeInvalidParams, "input: codex does not let the input of a tool be changed")
	case len(a.Answers) > 0:
		return nil, "", api.Errorf(api.CodeInvalidParams, "answers: a permission needs a decision or an option")
	case r.method == "item/permissions/requestApproval":
		return r.permissions(allow, allow && a.Remember), decision, nil
	}
	word := a.Option
	switch {
	case word != "":
	case !allow && a.Interrupt:
		word = "cancel"
	case !allow:
		word = "decline"
	case a.Remember:
		for _, word = range []string{"acceptForSession", "acceptWithExecpolicyAmendment", "accept"} {
			if r.decisions[word] != nil {
				break
			}
		}
	default:
		word = "accept"
	}
	raw := r.decisions[word]
	if raw == nil {
		raw = jsonrpc.Encode(word)
	}
	return params{"decision": raw}, decision, nil
}

// elicited answers a form of an MCP server.
func (r *request) elicited(a agent.Response, allow bool) params {
	action, content := "accept", any(params{})
	switch {
	case !allow && a.Interrupt:
		action, content = "cancel", nil
	case !allow:
		action, content = "decline", nil
	case a.Input != nil:
		content = a.Input
	case len(a.Answers) > 0:
		content = a.Answers
	}
	return params{"action": action, "content": content, "_meta": nil}
}

// permissions grants the requested permissions, or none.
func (r *request) permissions(allow, remember bool) params {
	granted, scope := params{}, "turn"
	if allow {
		var asked map[string]json.RawMessage
		json.Unmarshal(r.asked.Permissions, &asked)
		for name, what := range asked {
			if jsonrpc.NotNull(what) != nil {
				granted[name] = what
			}
		}
	}
	if remember {
		scope = "session"
	}
	return params{"permissions": granted, "scope": scope}
}

// userInput translates the answers to questions. A client names a question by its id or text; the
// answer to a single question may also be the chosen option.
func (r *request) userInput(a agent.Response, allow bool) (params, *api.Error) {
	answers := params{}
	for _, q := range r.asked.Questions {
		text, given := a.Answers[q.ID]
		if !given {
			text, given = a.Answers[q.Question]
		}
		if !given && a.Option != "" && len(r.asked.Questions) == 1 {
			text, given = a.Option, true
		}
		if given && allow {
			answers[q.ID] = params{"answers": []string{text}}
		}
	}
	switch {
	case a.Input != nil:
		return nil, api.Errorf(api.CodeInvalidParams, "input: a question is answered with answers")
	case allow && len(answers) == 0:
		return nil, api.Errorf(api.CodeInvalidParams, "answers: give one to a question of the request, by its text or id")
	}
	return params{"answers": answers}, nil
}

// resolved closes a request that needs no answer any more. Codex also sends it after TRL's own
// answer, where it has no effect.
func (c *protocol) resolved(native json.RawMessage) {
	c.withdrawn(func(r *request) bool { return string(r.id) == string(native) })
}

// withdraw closes the requests of a thread whose turn has ended.
func (c *protocol) withdraw(t *thread) {
	c.withdrawn(func(r *request) bool { return r.thread == t })
}

func (c *protocol) withdrawn(which func(*request) bool) {
	c.requests = slices.DeleteFunc(c.requests, func(r *request) bool {
		if !which(r) {
			return false
		}
		c.scoped(r.thread, api.DialogueEvent{Type: api.DialogueEventRequestClosed, Request: &api.DialogueRequest{RequestID: r.name, Kind: r.kind, How: "withdrawn", By: "agent"}})
		c.resume(r)
		return true
	})
}
