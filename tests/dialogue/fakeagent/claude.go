package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// claude speaks as Claude Code does with --output-format stream-json.
type claude struct {
	*agent
	states bool // tell of changes of state

	mu      sync.Mutex
	native  string          // guarded by mu; the id of the conversation
	seen    map[string]bool // guarded by mu; ids of messages
	mode    string          // guarded by mu
	names   string          // guarded by mu; the model
	pending []obj           // guarded by mu; requests that wait

	// Used by turns alone.
	now     message
	state   string
	results int
	steps   int // calls of the model, of all turns
	before  int // of the turns before this one
	answer  string
	denials []obj
	after   []func() error // what goes on when the turn has ended
}

func newClaude(a *agent) *claude {
	c := &claude{agent: a, states: os.Getenv("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") == "1", seen: map[string]bool{}, mode: a.permits, names: a.model}
	switch {
	case a.resume != "":
		c.native = a.resume
	case a.session != "":
		c.native = a.session
	default:
		c.native = a.uuid()
	}
	return c
}

// line writes a line with an id of its own.
func (c *claude) line(kind, subtype string, more obj) {
	o := obj{"type": kind, "uuid": c.uuid(), "session_id": c.session()}
	if subtype != "" {
		o["subtype"] = subtype
	}
	for k, v := range more {
		o[k] = v
	}
	c.out.line(o)
}

func (c *claude) session() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.native
}

// hear takes a line of stdin. One that is not JSON ends the real one too.
func (c *claude) hear(line []byte) {
	if len(strings.TrimSpace(string(line))) == 0 {
		return
	}
	var in struct {
		Type      string                `json:"type"`
		UUID      string                `json:"uuid"`
		RequestID string                `json:"request_id"`
		Request   obj                   `json:"request"`
		Message   struct{ Content any } `json:"message"`
		Response  struct {
			Subtype   string `json:"subtype"`
			RequestID string `json:"request_id"`
			Error     string `json:"error"`
			Response  obj    `json:"response"`
		} `json:"response"`
	}
	if err := json.Unmarshal(line, &in); err != nil {
		leave(1, "Error parsing streaming input line (type=unknown, %d chars): SyntaxError", len(line))
	}
	switch in.Type {
	case "user":
		c.hearUser(message{id: in.UUID, text: textOf(in.Message.Content)})
	case "control_request":
		c.control(in.RequestID, in.Request)
	case "control_response":
		got := in.Response.Response
		if in.Response.Subtype == "error" {
			got = obj{"error": in.Response.Error}
		}
		if got == nil {
			got = obj{}
		}
		c.answered(in.Response.RequestID, got)
	}
}

// textOf is the text of a message, with images in brackets.
func textOf(content any) string {
	if text, ok := content.(string); ok {
		return text
	}
	var b strings.Builder
	blocks, _ := content.([]any)
	for _, block := range blocks {
		o, _ := block.(obj)
		if text, ok := o["text"].(string); ok {
			b.WriteString(text)
		} else {
			fmt.Fprintf(&b, "[%v]", o["type"])
		}
	}
	return b.String()
}

// hearUser runs a message once; a second one with its id is only told again.
func (c *claude) hearUser(m message) {
	c.mu.Lock()
	again := m.id != "" && c.seen[m.id]
	c.seen[m.id] = true
	c.mu.Unlock()
	switch {
	case again && c.replay:
		c.echo(m)
	case !again:
		if m.id != "" {
			c.line("command_lifecycle", "", obj{"command_uuid": m.id, "state": "queued"})
		}
		c.enqueue(m)
	}
}

func (c *claude) echo(m message) {
	c.out.line(obj{"type": "user", "message": obj{"role": "user", "content": []obj{{"type": "text", "text": m.text}}},
		"session_id": c.session(), "parent_tool_use_id": nil, "uuid": m.id, "isReplay": true})
}

// control answers a request of the host's.
func (c *claude) control(id string, request obj) {
	reply := func(response obj) {
		c.out.line(obj{"type": "control_response", "response": obj{"subtype": "success", "request_id": id, "response": response}})
	}
	switch request["subtype"] {
	case "initialize":
		time.Sleep(c.slow)
		c.mu.Lock()
		pending, mode := slices.Clone(c.pending), c.mode
		c.mu.Unlock()
		answer := obj{"claude_code_version": "2.1.325", "current_permission_mode": mode,
			"commands": []obj{}, "agents": []obj{}, "models": []obj{{"value": "default", "resolvedModel": c.model}}, "output_style": "default"}
		if !c.seeded {
			answer["pid"] = os.Getpid()
		}
		if len(pending) > 0 {
			answer["pending_permission_requests"] = pending
		}
		reply(answer)
	case "interrupt":
		c.interrupt(func(open []string) {
			for _, request := range open {
				c.forget(request)
				c.out.line(obj{"type": "control_cancel_request", "request_id": request})
			}
			reply(obj{"still_queued": []string{}})
		})
	case "set_permission_mode":
		c.mu.Lock()
		c.mode, _ = request["mode"].(string)
		mode := c.mode
		c.mu.Unlock()
		reply(obj{"mode": mode})
		c.line("system", "status", obj{"status": nil, "permissionMode": mode})
	case "set_model":
		c.mu.Lock()
		c.names, _ = request["model"].(string)
		name := c.names
		c.mu.Unlock()
		reply(obj{"model": name})
	case "get_binary_version":
		reply(obj{"version": "2.1.325"})
	case "cancel_async_message":
		message, _ := request["message_uuid"].(string)
		dropped := c.unqueue(message)
		if dropped {
			c.line("command_lifecycle", "", obj{"command_uuid": message, "state": "cancelled"})
		}
		reply(obj{"cancelled": dropped})
	case "stop_task", "set_max_thinking_tokens", "mcp_status", "get_context_usage":
		reply(obj{})
	default:
		c.out.line(obj{"type": "control_response", "response": obj{"subtype": "error", "request_id": id,
			"error": fmt.Sprintf("Unsupported control request subtype: %v", request["subtype"]), "error_code": "unsupported_request"}})
	}
}

// tell tells a change of state, if it is one.
func (c *claude) tell(state string) {
	if c.states && c.state != state {
		c.line("system", "session_state_changed", obj{"state": state})
	}
	c.state = state
}

func (c *claude) begin(m message) {
	c.now, c.answer, c.denials, c.before = m, "", nil, c.steps
	c.tell("running")
	if m.id != "" {
		c.line("command_lifecycle", "", obj{"command_uuid": m.id, "state": "started"})
	}
	c.init()
	if c.replay && m.id != "" {
		c.echo(m)
	}
}

// init is written at the beginning of every turn.
func (c *claude) init() {
	c.mu.Lock()
	mode, model := c.mode, c.names
	c.mu.Unlock()
	dir, _ := os.Getwd()
	c.line("system", "init", obj{"cwd": dir, "model": model, "permissionMode": mode, "claude_code_version": "2.1.325",
		"tools": []string{"Task", "Bash", "Edit", "Read"}, "mcp_servers": []obj{}, "slash_commands": []string{"compact", "review"}, "apiKeySource": "none",
		"capabilities": []string{"interrupt_receipt_v1"}, "agents": []string{}, "skills": []string{}, "plugins": []obj{}, "output_style": "default"})
}

func (c *claude) end(how error) {
	switch how {
	case errInterrupted:
		c.user([]obj{{"type": "text", "text": "[Request interrupted by user]"}}, "", nil)
	case errInterruptedTool:
		c.user([]obj{{"type": "text", "text": "[Request interrupted by user for tool use]"}}, "", nil)
	}
	c.result(how)
	if c.now.id != "" {
		c.line("command_lifecycle", "", obj{"command_uuid": c.now.id, "state": "completed"})
	}
	for len(c.after) > 0 {
		c.renew()
		next := c.after[0]
		c.after = c.after[1:]
		c.now = message{}
		_ = next()
	}
	c.tell("idle")
}

func (c *claude) result(how error) {
	steps := c.steps - c.before
	r := obj{"is_error": false, "num_turns": max(steps, 1), "duration_ms": 0, "duration_api_ms": 0, "stop_reason": "end_turn",
		"total_cost_usd": float64(c.steps) * 0.00044, "terminal_reason": "completed", "permission_denials": c.denials,
		"usage":             obj{"input_tokens": 10 * steps, "output_tokens": 20 * steps, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
		"modelUsage":        obj{c.model: obj{"inputTokens": 10 * c.steps, "outputTokens": 20 * c.steps, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0, "costUSD": float64(c.steps) * 0.00044}},
		"queued_turn_count": c.queued(), "result_index": c.results}
	if c.denials == nil {
		r["permission_denials"] = []obj{}
	}
	c.results++
	subtype := "success"
	var failed failure
	switch f, ok := how.(failure); {
	case ok:
		failed = f
		r["is_error"], r["result"] = true, failed.text
	case how == errInterrupted:
		subtype, r["is_error"], r["terminal_reason"], r["errors"] = "error_during_execution", true, "aborted_streaming", []string{"interrupted"}
	case how == errInterruptedTool:
		subtype, r["is_error"], r["terminal_reason"], r["errors"] = "error_during_execution", true, "aborted_tools", []string{"interrupted"}
	default:
		r["result"] = c.answer
	}
	c.line("result", subtype, r)
}

// over has nothing to say.
func (c *claude) over() {}
