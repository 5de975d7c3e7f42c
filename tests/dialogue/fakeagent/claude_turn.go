package main

import (
	"fmt"
	"strings"
)

// block is what a message of the model's consists of.
func (c *claude) assistant(id string, block obj, parent string, more obj) obj {
	o := obj{"type": "assistant", "uuid": c.uuid(), "session_id": c.session(), "parent_tool_use_id": nil,
		"message": obj{"id": id, "type": "message", "role": "assistant", "model": c.model, "content": []obj{block}, "stop_reason": nil,
			"usage": obj{"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}}}
	if parent != "" {
		o["parent_tool_use_id"] = parent
	}
	for k, v := range more {
		o[k] = v
	}
	return o
}

func (c *claude) messageID() string {
	c.steps++
	return "msg_" + c.uuid()[:13]
}

// user is a line of the program's in the place of the user.
func (c *claude) user(content []obj, parent string, more obj) {
	o := obj{"message": obj{"role": "user", "content": content}, "parent_tool_use_id": nil}
	if parent != "" {
		o["parent_tool_use_id"] = parent
	}
	for k, v := range more {
		o[k] = v
	}
	c.line("user", "", o)
}

// text is also the answer that the result repeats, but for what would make that as long.
func (c *claude) text(text string) obj {
	c.answer = text[:min(len(text), 100)]
	return c.assistant(c.messageID(), obj{"type": "text", "text": text}, "", nil)
}

func (c *claude) say(text string) {
	c.answer = text
	c.write(obj{"type": "text", "text": text}, "text_delta", "text", text)
}

func (c *claude) think(text string) {
	c.write(obj{"type": "thinking", "thinking": text, "signature": ""}, "thinking_delta", "thinking", text)
}

// write writes a message of one block, in pieces too if those are wanted.
func (c *claude) write(block obj, delta, field, text string) {
	id := c.messageID()
	c.open(id, block, delta, field, text)
	c.out.line(c.assistant(id, block, "", nil))
	c.close(id, "end_turn")
}

// open writes the pieces of a block.
func (c *claude) open(id string, block obj, delta, field, text string) {
	if !c.partials {
		return
	}
	empty := obj{}
	for k, v := range block {
		empty[k] = v
	}
	if delta == "input_json_delta" {
		empty["input"] = obj{}
	} else {
		empty[field] = ""
	}
	c.event(id, obj{"type": "message_start", "message": obj{"id": id, "type": "message", "role": "assistant", "model": c.model, "content": []obj{},
		"usage": obj{"input_tokens": 10, "output_tokens": 1}}})
	c.event(id, obj{"type": "content_block_start", "index": 0, "content_block": empty})
	most := max(12, len(text)/50)
	for len(text) > 0 {
		n := min(most, len(text))
		c.event(id, obj{"type": "content_block_delta", "index": 0, "delta": obj{"type": delta, field: text[:n]}})
		text = text[n:]
	}
}

func (c *claude) close(id, why string) {
	if !c.partials {
		return
	}
	c.event(id, obj{"type": "content_block_stop", "index": 0})
	c.event(id, obj{"type": "message_delta", "delta": obj{"stop_reason": why, "stop_sequence": nil}, "usage": obj{"output_tokens": 20}})
	c.event(id, obj{"type": "message_stop"})
}

func (c *claude) event(id string, event obj) {
	c.line("stream_event", "", obj{"event": event, "parent_tool_use_id": nil, "api_message_id": id})
}

// input is that of a tool.
func input(name, subject string) obj {
	switch name {
	case "Bash":
		return obj{"command": subject, "description": "Do " + subject}
	case "Read", "Edit", "Write":
		return obj{"file_path": subject}
	case "WebFetch":
		return obj{"url": subject}
	case "Agent":
		return obj{"description": subject, "prompt": subject, "subagent_type": "general-purpose"}
	}
	return obj{"what": subject}
}

// call writes that a tool is used, and returns the id of the call.
func (c *claude) call(name string, in obj) string {
	id := "toolu_" + c.uuid()[:13]
	block := obj{"type": "tool_use", "id": id, "name": name, "input": in}
	message := c.messageID()
	c.open(message, block, "input_json_delta", "partial_json", string(encode(in)))
	c.out.line(c.assistant(message, block, "", nil))
	c.close(message, "tool_use")
	return id
}

// gives writes the result of a call.
func (c *claude) gives(id, text string, failed bool, parent string) {
	content := []obj{{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed}}
	more := obj{}
	if !failed {
		more["tool_use_result"] = obj{"stdout": text, "stderr": "", "interrupted": false}
	}
	c.user(content, parent, more)
}

func (c *claude) tool(name, subject string) {
	c.gives(c.call(name, input(name, subject)), "done: "+subject, false, "")
}

const rejected = "The user doesn't want to proceed with this tool use."

// ask asks whether a tool may be used, and goes by the answer.
func (c *claude) ask(name, subject string) error {
	in := input(name, subject)
	call := c.call(name, in)
	got, err := c.request(obj{"subtype": "can_use_tool", "tool_name": name, "display_name": name, "input": in, "tool_use_id": call,
		"description": "Do " + subject, "permission_suggestions": []obj{{"type": "addRules", "behavior": "allow", "destination": "localSettings",
			"rules": []obj{{"toolName": name, "ruleContent": subject}}}}})
	if err != nil {
		c.gives(call, rejected, true, "")
		return err
	}
	switch got["behavior"] {
	case "allow":
		if given, ok := got["updatedInput"].(obj); ok {
			in = given
		}
		c.gives(call, "done: "+string(encode(in)), false, "")
		if rules, ok := got["updatedPermissions"]; ok {
			c.say("remembered: " + string(encode(rules)))
		}
	case "deny":
		c.denials = append(c.denials, obj{"tool_name": name, "tool_use_id": call, "tool_input": in})
		c.gives(call, fmt.Sprint(got["message"]), true, "")
		if stop, _ := got["interrupt"].(bool); stop {
			return errInterruptedTool
		}
	default: // the real one fails closed
		c.gives(call, "Tool permission request failed: "+string(encode(got)), true, "")
	}
	return nil
}

// request asks the host and waits for its answer.
func (c *claude) request(request obj) (answer, error) {
	id := c.uuid()
	whole := obj{"type": "control_request", "request_id": id, "request": request}
	c.mu.Lock()
	c.pending = append(c.pending, whole)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.pending = c.pending[:len(c.pending)-1]
		c.mu.Unlock()
	}()
	answered, stopped := c.expect(id), c.stopped()
	c.tell("requires_action")
	c.out.line(whole)
	defer c.tell("running")
	select {
	case got, ok := <-answered:
		if !ok {
			return obj{"error": "AbortError: stdin has ended"}, nil
		}
		return got, nil
	case <-stopped:
		return nil, errInterruptedTool
	}
}

// do is what only Claude does.
func (c *claude) do(command, rest string) (known bool, err error) {
	name, more, _ := strings.Cut(rest, " ")
	switch command {
	case "fail-tool": // NAME SUBJECT
		c.gives(c.call(name, input(name, more)), "it went wrong", true, "")
	case "exit-tool": // CODE LINES COMMAND: a command that prints so many lines, with that of its status
		var code, lines int
		_, err = fmt.Sscan(rest, &code, &lines)
		_, command, _ := strings.Cut(more, " ")
		c.gives(c.call("Bash", input("Bash", command)), fmt.Sprintf("Exit code %d%s", code, strings.Repeat("\nline", lines-1)), true, "")
	case "hang-tool": // NAME SUBJECT: until it is interrupted
		call := c.call(name, input(name, more))
		<-c.stopped()
		c.gives(call, rejected, true, "")
		err = errInterruptedTool
	case "withdraw": // GATE NAME SUBJECT: asks, and takes it back behind the gate
		err = c.withdraw(name, more)
	case "question": // TEXT
		err = c.question(rest)
	case "unknown-request":
		var got answer
		if got, err = c.request(obj{"subtype": "read_your_mind", "depth": 3}); err == nil {
			c.say("answered: " + string(encode(got)))
		}
	case "stream": // TEXT: the beginning of something, until it is interrupted
		id := c.messageID()
		block := obj{"type": "text", "text": rest}
		c.open(id, block, "text_delta", "text", rest)
		<-c.stopped()
		c.out.line(c.assistant(id, block, "", obj{"aborted": true}))
		c.close(id, "")
		err = errInterrupted
	case "cut": // TEXT: the beginning of something that is begun anew
		c.open(c.messageID(), obj{"type": "text", "text": rest}, "text_delta", "text", rest)
		c.line("system", "api_retry", obj{"attempt": 1, "max_retries": 3, "retry_delay_ms": 1, "error_status": 529, "error": "overloaded"})
	case "fail": // TEXT
		c.out.line(c.assistant(c.messageID(), obj{"type": "text", "text": rest}, "", obj{"error": "server_error"}))
		err = failure{rest}
	case "settings":
		c.mu.Lock()
		text := c.names + " " + c.mode
		c.mu.Unlock()
		c.say(text)
	case "clear":
		old := c.session()
		c.mu.Lock()
		c.native = c.uuid()
		now := c.native
		c.mu.Unlock()
		c.out.line(obj{"type": "conversation_reset", "new_conversation_id": now, "uuid": c.uuid(), "session_id": old})
	case "twice": // TEXT: the same line two times
		line := c.text(rest)
		c.out.line(line)
		c.out.line(line)
	case "subagent", "orphan-child", "background-task", "background-shell":
		err = c.spawnTask(command, rest)
	default:
		return false, nil
	}
	return true, err
}

// question asks for words instead of a permission.
func (c *claude) question(text string) error {
	in := obj{"questions": []obj{{"question": text, "header": "Asked", "multiSelect": false,
		"options": []obj{{"label": "Red", "description": "red"}, {"label": "Blue", "description": "blue"}}}}}
	call := c.call("AskUserQuestion", in)
	got, err := c.request(obj{"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": in, "tool_use_id": call, "requires_user_interaction": true})
	if err != nil {
		c.gives(call, rejected, true, "")
		return err
	}
	given, _ := got["updatedInput"].(obj)
	c.gives(call, "answers: "+string(encode(given["answers"])), got["behavior"] != "allow", "")
	return nil
}

// withdraw asks and takes the request back.
func (c *claude) withdraw(gate, rest string) error {
	name, subject, _ := strings.Cut(rest, " ")
	in := input(name, subject)
	call, id := c.call(name, in), c.uuid()
	c.expect(id)
	c.tell("requires_action")
	c.out.line(obj{"type": "control_request", "request_id": id,
		"request": obj{"subtype": "can_use_tool", "tool_name": name, "input": in, "tool_use_id": call}})
	err := c.gate(gate)
	c.forget(id)
	if err == nil {
		c.out.line(obj{"type": "control_cancel_request", "request_id": id})
	}
	c.tell("running")
	c.gives(call, "settled elsewhere", false, "")
	return err
}
