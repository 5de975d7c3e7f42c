package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
)

// codexRequest is a request of Codex that waits for an answer.
type codexRequest struct {
	id     string          // ours; Codex counts anew in every process
	native json.RawMessage // Codex's own
	method string
	kind   string
	thread *codexThread
	item   string // that it is about
	// decisions are the answers that Codex offers for a command, by what they are called.
	decisions map[string]json.RawMessage
	asked     codexAsked
}

// codexAsked is what requests tell: the fields of all of them.
type codexAsked struct {
	ThreadID, TurnID, ItemID, Reason, Command, Cwd string
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

func (c *codexProtocol) request(m rpcMessage) (why string) {
	r := &codexRequest{
		id: fmt.Sprintf("r%d.%s", c.options.Epoch, strings.Trim(string(m.ID), `"`)), native: m.ID, method: m.Method,
	}
	json.Unmarshal(m.Params, &r.asked)
	a := r.asked
	ask := &api.DialogueRequest{RequestID: r.id, Kind: "permission", ToolCallID: a.ItemID, Reason: a.Reason}
	switch m.Method {
	case "item/commandExecution/requestApproval":
		ask.Tool, ask.Subject = "commandExecution", codexCommand(a.Command)
		ask.Input = rpcJSON(codexParams{"command": a.Command, "cwd": a.Cwd})
		r.offer(ask, a.AvailableDecisions)
	case "item/fileChange/requestApproval":
		ask.Tool, ask.Subject = "fileChange", a.GrantRoot
		r.offer(ask, nil)
	case "item/permissions/requestApproval":
		ask.Tool, ask.Subject, ask.Input = "permissions", a.Cwd, rpcNotNull(a.Permissions)
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
		ask.Subject, ask.Input = a.URL, rpcNotNull(a.RequestedSchema)
	default:
		return "unknown_type"
	}
	if c.main == nil || a.ThreadID == "" {
		return "bad_shape"
	}
	r.kind, r.thread, r.item = ask.Kind, c.thread(a.ThreadID), a.ItemID
	if t := r.thread.task; t != nil {
		ask.TaskID = t.TaskID
	}
	if o := r.thread.find(r.item); o != nil && o.item.Tool != nil {
		if m.Method == "item/fileChange/requestApproval" {
			if ask.Subject == "" {
				ask.Subject = o.item.Tool.Subject
			}
			ask.Input = o.item.Tool.Input
		}
		o.item.Tool.Status = "awaiting_approval"
		c.scoped(r.thread, api.DialogueEvent{Type: api.ToldItem, NativeID: r.item, Item: o.tool("awaiting_approval")})
	}
	c.requests = append(c.requests, r)
	c.scoped(r.thread, api.DialogueEvent{Type: api.ToldRequestOpened, Request: ask})
	return ""
}

// offer lists the answers to an approval. A decision is a word, or an object whose key is
// the word; decline is understood also when it is not listed.
func (r *codexRequest) offer(ask *api.DialogueRequest, listed []json.RawMessage) {
	if listed == nil {
		listed = []json.RawMessage{[]byte(`"accept"`), []byte(`"acceptForSession"`)}
	}
	listed = append(slices.Clone(listed), []byte(`"decline"`), []byte(`"cancel"`))
	r.decisions = map[string]json.RawMessage{}
	for _, raw := range listed {
		word, detail := codexDecision(raw)
		if _, twice := r.decisions[word]; twice || word == "" {
			continue
		}
		r.decisions[word] = raw
		option := api.DialogueOption{ID: word, Label: word, Description: detail, Kind: "allow"}
		switch word {
		case "accept":
		case "decline":
			option.Kind = "deny"
		case "cancel":
			option.Kind, option.Description = "deny", "and end the turn"
		case "applyNetworkPolicyAmendment":
			if option.Kind = "allow_always"; strings.Contains(detail, `"deny"`) {
				option.Kind = "deny_always"
			}
		default:
			option.Kind = "allow_always"
		}
		ask.Options = append(ask.Options, option)
	}
}

func codexDecision(raw json.RawMessage) (word, detail string) {
	if json.Unmarshal(raw, &word) == nil {
		return word, ""
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil && len(object) == 1 {
		for key, value := range object {
			return key, string(value)
		}
	}
	return "", ""
}

// respond answers a request.
func (c *codexProtocol) respond(a Response) *api.Error {
	i := slices.IndexFunc(c.requests, func(r *codexRequest) bool { return r.id == a.RequestID })
	if i < 0 {
		return api.Errorf(api.CodeConflict, "request %q does not wait for an answer", a.RequestID)
	}
	r := c.requests[i]
	result, decision, err := r.answer(a)
	if err != nil {
		return err
	}
	c.requests = slices.Delete(c.requests, i, i+1)
	c.reply(r.native, result)
	c.scoped(r.thread, api.DialogueEvent{Type: api.ToldRequestClosed, Request: &api.DialogueRequest{RequestID: r.id, Kind: r.kind, How: "answered", Decision: decision, By: a.By}})
	c.resume(r)
	// A refusal has no room for words, so they are added to the turn.
	if decision == "deny" && a.Message != "" && !a.Interrupt && r.thread.turn != "" {
		c.ask("turn/steer", codexParams{"threadId": r.thread.id, "expectedTurnId": r.thread.turn,
			"input": []codexParams{{"type": "text", "text": a.Message, "text_elements": []any{}}}}, func(json.RawMessage, *rpcError) {})
	}
	return nil
}

// resume tells that a tool call that waited goes on.
func (c *codexProtocol) resume(r *codexRequest) {
	if o := r.thread.find(r.item); o != nil && o.item.Tool != nil && o.item.Tool.Status == "awaiting_approval" {
		o.item.Tool.Status = "running"
		c.scoped(r.thread, api.DialogueEvent{Type: api.ToldItem, NativeID: r.item, Item: o.tool("running")})
	}
}

// answer is what Codex is told, and whether that allows or denies.
func (r *codexRequest) answer(a Response) (result any, decision string, err *api.Error) {
	decision = a.Decision
	if decision == "" {
		decision = "allow"
	}
	if a.Input != nil && r.method != "mcpServer/elicitation/request" {
		return nil, "", api.Errorf(api.CodeInvalidParams, "input: codex does not let the input of a tool be changed")
	}
	allow := decision == "allow"
	switch r.method {
	case "item/tool/requestUserInput":
		return r.userInput(a), decision, nil
	case "mcpServer/elicitation/request":
		switch {
		case !allow && a.Interrupt:
			return codexParams{"action": "cancel", "content": nil, "_meta": nil}, decision, nil
		case !allow:
			return codexParams{"action": "decline", "content": nil, "_meta": nil}, decision, nil
		case a.Input != nil:
			return codexParams{"action": "accept", "content": a.Input, "_meta": nil}, decision, nil
		case len(a.Answers) > 0:
			return codexParams{"action": "accept", "content": a.Answers, "_meta": nil}, decision, nil
		}
		return codexParams{"action": "accept", "content": codexParams{}, "_meta": nil}, decision, nil
	case "item/permissions/requestApproval":
		granted, scope := codexParams{}, "turn"
		if allow {
			var asked map[string]json.RawMessage
			json.Unmarshal(r.asked.Permissions, &asked)
			for name, what := range asked {
				if rpcNotNull(what) != nil {
					granted[name] = what
				}
			}
		}
		if allow && a.Remember {
			scope = "session"
		}
		return codexParams{"permissions": granted, "scope": scope}, decision, nil
	}
	word := a.Option
	switch {
	case word != "":
		if _, known := r.decisions[word]; !known {
			return nil, "", api.Errorf(api.CodeInvalidParams, "option %.80q is not one of the request's", word)
		}
		if decision = "allow"; word == "decline" || word == "cancel" {
			decision = "deny"
		}
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
		raw = rpcJSON(word)
	}
	return codexParams{"decision": raw}, decision, nil
}

// userInput are the answers to questions, which are given by their ids or texts.
func (r *codexRequest) userInput(a Response) codexParams {
	answers := codexParams{}
	for _, q := range r.asked.Questions {
		text, given := a.Answers[q.ID]
		if !given {
			text, given = a.Answers[q.Question]
		}
		if given {
			answers[q.ID] = codexParams{"answers": []string{text}}
		}
	}
	return codexParams{"answers": answers}
}

// resolved closes a request that Codex no longer wants to be answered. It also comes, for
// nothing, after our own answer.
func (c *codexProtocol) resolved(native json.RawMessage) {
	c.withdrawn(func(r *codexRequest) bool { return string(r.native) == string(native) })
}

// withdraw closes what a thread asked when its turn has ended.
func (c *codexProtocol) withdraw(t *codexThread) {
	c.withdrawn(func(r *codexRequest) bool { return r.thread == t })
}

func (c *codexProtocol) withdrawn(which func(*codexRequest) bool) {
	c.requests = slices.DeleteFunc(c.requests, func(r *codexRequest) bool {
		if !which(r) {
			return false
		}
		c.scoped(r.thread, api.DialogueEvent{Type: api.ToldRequestClosed, Request: &api.DialogueRequest{RequestID: r.id, Kind: r.kind, How: "withdrawn", By: "agent"}})
		c.resume(r)
		return true
	})
}
