package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// acp speaks the Agent Client Protocol, version 1: JSON-RPC 2.0 in lines.
type acp struct {
	*agent

	mu     sync.Mutex
	native string // guarded by mu; the id of the conversation
	mode   string // guarded by mu
	names  string // guarded by mu; the model
	calls  int    // guarded by mu; ids of our own requests

	now message // used by turns alone
}

func newACP(a *agent) *acp {
	return &acp{agent: a, mode: "default", names: a.model}
}

// hear takes a line of stdin.
func (c *acp) hear(line []byte) {
	var in struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
		Params obj    `json:"params"`
		Result obj    `json:"result"`
		Error  obj    `json:"error"`
	}
	if err := json.Unmarshal(line, &in); err != nil {
		c.out.line(obj{"jsonrpc": "2.0", "id": nil, "error": obj{"code": -32700, "message": "Parse error"}})
		return
	}
	switch {
	case in.Method == "" && in.Error != nil:
		c.answered(fmt.Sprint(in.ID), obj{"error": in.Error})
	case in.Method == "":
		if in.Result == nil {
			in.Result = obj{}
		}
		c.answered(fmt.Sprint(in.ID), in.Result)
	default:
		c.called(in.ID, in.Method, in.Params)
	}
}

// called does what the client asks for.
func (c *acp) called(id any, method string, params obj) {
	reply := func(result any) { c.out.line(obj{"jsonrpc": "2.0", "id": id, "result": result}) }
	c.mu.Lock()
	defer c.mu.Unlock()
	switch method {
	case "initialize":
		time.Sleep(c.slow)
		reply(obj{"protocolVersion": 1, "agentInfo": obj{"name": "fakeagent", "version": "1.0.0"}, "authMethods": []obj{},
			"agentCapabilities": obj{"loadSession": true, "promptCapabilities": obj{"image": true, "embeddedContext": true}}})
	case "session/new":
		c.native = c.uuid()
		reply(c.opened(obj{"sessionId": c.native}))
	case "session/load":
		c.native, _ = params["sessionId"].(string)
		if c.failResume {
			c.out.line(obj{"jsonrpc": "2.0", "id": id, "error": obj{"code": -32002, "message": "Resource not found: " + c.native}})
			return
		}
		c.resume = c.native
		c.update(obj{"sessionUpdate": "user_message_chunk", "content": obj{"type": "text", "text": "what was asked before"}})
		c.update(obj{"sessionUpdate": "agent_message_chunk", "content": obj{"type": "text", "text": "what was answered before"}})
		reply(c.opened(obj{}))
	case "session/prompt":
		c.enqueue(message{text: textOf(params["prompt"]), request: id})
	case "session/set_mode":
		c.mode, _ = params["modeId"].(string)
		reply(obj{})
		c.update(obj{"sessionUpdate": "current_mode_update", "currentModeId": c.mode})
	case "session/set_model":
		c.names, _ = params["modelId"].(string)
		reply(obj{})
	case "session/cancel":
		c.interrupt(func(open []string) {})
	default:
		if id != nil {
			c.out.line(obj{"jsonrpc": "2.0", "id": id, "error": obj{"code": -32601, "message": "Method not found: " + method}})
		}
	}
}

// opened adds what a conversation has to choose from.
func (c *acp) opened(o obj) obj {
	o["modes"] = obj{"currentModeId": c.mode, "availableModes": []obj{{"id": "default", "name": "Default"}, {"id": "plan", "name": "Plan"}}}
	o["models"] = obj{"currentModelId": c.names, "availableModels": []obj{{"modelId": c.names, "name": c.names}, {"modelId": "fake-2", "name": "Fake 2"}}}
	return o
}

// update sends an update of the conversation. Until the conversation is open, mu guards native.
func (c *acp) update(update obj) { c.out.line(c.updated(update)) }

func (c *acp) updated(update obj) obj {
	return obj{"jsonrpc": "2.0", "method": "session/update", "params": obj{"sessionId": c.native, "update": update}}
}

func (c *acp) begin(m message) { c.now = m }

func (c *acp) end(how error) {
	reply := obj{"jsonrpc": "2.0", "id": c.now.request}
	switch failed, ok := how.(failure); {
	case ok && failed.text == "refusal", ok && failed.text == "max_tokens":
		reply["result"] = obj{"stopReason": failed.text}
	case ok:
		reply["error"] = obj{"code": -32603, "message": failed.text}
	case how != nil:
		reply["result"] = obj{"stopReason": "cancelled"}
	default:
		reply["result"] = obj{"stopReason": "end_turn"}
	}
	c.rude = false
	c.out.line(reply)
}

func (c *acp) text(text string) obj {
	return c.updated(obj{"sessionUpdate": "agent_message_chunk", "content": obj{"type": "text", "text": text}})
}

func (c *acp) say(text string) { c.chunks("agent_message_chunk", text) }

func (c *acp) think(text string) { c.chunks("agent_thought_chunk", text) }

func (c *acp) chunks(kind, text string) {
	most := max(12, len(text)/50)
	for len(text) > 0 {
		n := min(most, len(text))
		if c.flat {
			n = len(text)
		}
		c.update(obj{"sessionUpdate": kind, "content": obj{"type": "text", "text": text[:n]}})
		text = text[n:]
	}
}

func (c *acp) call(name, subject, status string) string {
	id := "call_" + c.uuid()[:13]
	kind := map[string]string{"Bash": "execute", "Read": "read", "Edit": "edit", "Write": "edit", "WebFetch": "fetch"}[name]
	if kind == "" {
		kind = "other"
	}
	c.update(obj{"sessionUpdate": "tool_call", "toolCallId": id, "title": name + " " + subject, "kind": kind, "status": status, "rawInput": input(name, subject)})
	return id
}

func (c *acp) gives(id, status, text string) {
	c.update(obj{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
		"content": []obj{{"type": "content", "content": obj{"type": "text", "text": text}}}, "rawOutput": obj{"stdout": text}})
}

func (c *acp) tool(name, subject string) {
	c.gives(c.call(name, subject, "in_progress"), "completed", "done: "+subject)
}

// ask asks whether a tool may be used, and goes by the answer.
func (c *acp) ask(name, subject string) error {
	call := c.call(name, subject, "pending")
	return c.permit(subject, obj{"toolCallId": call, "title": name + " " + subject, "rawInput": input(name, subject)})
}

// permit asks whether a call may be made, in the words of about.
func (c *acp) permit(subject string, about obj) error {
	call := about["toolCallId"].(string)
	c.mu.Lock()
	c.calls++
	id := c.calls
	c.mu.Unlock()
	answered, stopped := c.expect(fmt.Sprint(id)), c.stopped()
	c.out.line(obj{"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": obj{"sessionId": c.native,
		"toolCall": about,
		"options": []obj{{"optionId": "yes", "name": "Allow", "kind": "allow_once"}, {"optionId": "always", "name": "Always", "kind": "allow_always"},
			{"optionId": "no", "name": "Reject", "kind": "reject_once"}}}})
	select {
	case got := <-answered:
		outcome, _ := got["outcome"].(obj)
		switch option := outcome["optionId"]; {
		case outcome["outcome"] == "selected" && option != "no":
			c.gives(call, "completed", fmt.Sprintf("done with %s: %s", option, subject))
		case outcome["outcome"] == "cancelled":
			c.gives(call, "failed", "cancelled")
			return errInterruptedTool
		default:
			c.gives(call, "failed", "not allowed: "+string(encode(got)))
		}
		return nil
	case <-stopped: // the client answers it all the same, with cancelled
		c.gives(call, "failed", "cancelled")
		return errInterruptedTool
	}
}

// do is what only this protocol has.
func (c *acp) do(command, rest string) (known bool, err error) {
	switch command {
	case "fail":
		return true, failure{rest}
	case "plan":
		var entries []obj
		for i, step := range strings.Split(rest, ",") {
			entries = append(entries, obj{"content": strings.TrimSpace(step), "priority": "medium", "status": []string{"in_progress", "pending"}[min(i, 1)]})
		}
		c.update(obj{"sessionUpdate": "plan", "entries": entries})
	case "unknown-request":
		c.mu.Lock()
		c.calls++
		id := c.calls
		c.mu.Unlock()
		answered := c.expect(fmt.Sprint(id))
		c.out.line(obj{"jsonrpc": "2.0", "id": id, "method": "mind/read", "params": obj{}})
		c.say("answered: " + string(encode(<-answered)))
	case "unknown-type":
		c.update(obj{"sessionUpdate": "from_the_future"})
	case "ask-titled": // as Gemini CLI does: the command is nowhere but in the title
		return true, c.permit(rest, obj{"toolCallId": "call_" + c.uuid()[:13], "status": "pending", "title": rest + " [current working directory /]", "content": []obj{}, "locations": []obj{}, "kind": "execute"})
	case "ask-untitled":
		return true, c.permit(rest, obj{"toolCallId": "call_" + c.uuid()[:13], "status": "pending", "kind": "execute"})
	case "ask-call": // with the fields of the tool call, and nothing else
		call := obj{"toolCallId": "call_" + c.uuid()[:13], "status": "pending"}
		if err := json.Unmarshal([]byte(rest), &call); err != nil {
			return true, err
		}
		return true, c.permit("true", call)
	case "settings":
		c.mu.Lock()
		text := c.names + " " + c.mode
		c.mu.Unlock()
		c.say(text)
	default:
		return false, nil
	}
	return true, nil
}

// over has nothing to say.
func (c *acp) over() {}
