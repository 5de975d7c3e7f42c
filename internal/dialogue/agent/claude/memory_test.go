package claude

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/testkit"
)

// A process may live for months: the protocol forgets ended turns, calls and tasks.
func TestForgets(t *testing.T) {
	testkit.Long(t)
	p := Agent{}.New(agent.Options{Epoch: 1}).(*protocol)
	p.Start()
	p.Line([]byte(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{}}}`))
	turn := func(n int) {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
		p.Do(agent.Call{ID: id, Send: &agent.Message{ID: id, Content: []api.DialogueContent{{Type: "text", Text: "go"}}}})
		for i, line := range []string{
			`{"type":"command_lifecycle","command_uuid":"ID","state":"started"`,
			`{"type":"system","subtype":"init"`,
			`{"type":"stream_event","parent_tool_use_id":"agent-ID","event":{"type":"message_start","message":{"id":"sub-ID"}}`,
			`{"type":"stream_event","parent_tool_use_id":"agent-ID","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"assistant","message":{"id":"msg-ID","content":[{"type":"tool_use","id":"agent-ID","name":"Agent","input":{}},{"type":"tool_use","id":"bash-ID","name":"Bash","input":{}}]}`,
			`{"type":"system","subtype":"task_started","task_id":"task-ID","task_type":"local_agent","tool_use_id":"agent-ID"`,
			`{"type":"assistant","parent_tool_use_id":"agent-ID","message":{"id":"sub-ID","content":[{"type":"tool_use","id":"left-ID","name":"Bash","input":{}}]}`,
			`{"type":"control_request","request_id":"ask-ID","request":{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"bash-ID","input":{}}`,
			`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"bash-ID","content":"x"},{"type":"tool_result","tool_use_id":"agent-ID","content":"x"}]}`,
			`{"type":"system","subtype":"task_notification","task_id":"task-ID","status":"completed"`,
			`{"type":"result","subtype":"success"`,
			`{"type":"command_lifecycle","command_uuid":"ID","state":"completed"`,
		} {
			line = fmt.Sprintf(`%s,"uuid":"%s-%d","session_id":"s-1"}`, strings.ReplaceAll(line, "ID", id), id, i)
			if s := p.Line([]byte(line)); s.Failed != "" {
				t.Fatal(s.Failed)
			}
		}
	}
	turns := memorySize + memorySize/4
	for n := range turns {
		turn(n)
	}
	if p.turns != turns || p.turn != nil || p.agents != 0 {
		t.Errorf("%d turns, one is open: %v; %d agents", p.turns, p.turn != nil, p.agents)
	}
	// No map or slice of the protocol is large, also in fields that are added later.
	found := 0
	var look func(name string, v reflect.Value)
	look = func(name string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				look(name, v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				look(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Map, reflect.Slice:
			if found++; v.Len() > memorySize {
				t.Errorf("%s has %d entries", name, v.Len())
			}
		}
	}
	look("protocol", reflect.ValueOf(p))
	if found < 40 {
		t.Errorf("only %d maps and slices were found", found)
	}
	// Ended ones are known for a while: a message is not sent twice, and a task that continues
	// keeps its id.
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", turns-100)
	if s := p.Do(agent.Call{ID: "again", Send: &agent.Message{ID: id}}); len(s.Write) != 0 || s.Answers[0].Err == nil {
		t.Errorf("a message that was sent before: %+v", s)
	}
	s := p.Line([]byte(`{"type":"system","subtype":"task_progress","summary":"more","task_id":"task-` + id + `"}`))
	if call, _ := p.calls.last.Get("agent-" + id); len(s.Events) != 1 || s.Events[0].Task.ToolCallID != call || s.Events[0].Task.Status != "completed" {
		t.Errorf("more of a task: %+v", s)
	}
}

// One turn may be long, too: the protocol forgets ended calls, not open ones.
func TestForgetsCalls(t *testing.T) {
	p := Agent{}.New(agent.Options{Epoch: 1}).(*protocol)
	p.Start()
	use := func(id, name string) {
		p.Line([]byte(`{"type":"assistant","uuid":"use-` + id + `","message":{"id":"msg-` + id + `","content":[{"type":"tool_use","id":"` + id + `","name":"` + name + `","input":{}}]}}`))
	}
	result := func(id string) agent.Step {
		return p.Line([]byte(`{"type":"user","uuid":"res-` + id + `","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"x"}]}}`))
	}
	use("first", "Agent")
	for n := range 5 * mostTools {
		id := fmt.Sprintf("t-%d", n)
		use(id, "Bash")
		result(id)
	}
	if len(p.tools) > 2*mostTools || len(p.toolOrder) != len(p.tools) {
		t.Errorf("%d calls are kept, %d in order", len(p.tools), len(p.toolOrder))
	}
	if s := result("first"); s.Events[0].Item.Tool.Name != "Agent" {
		t.Errorf("the first call is told as %+v", s.Events[0].Item.Tool)
	}
	// If the program never reports their end, the oldest open calls are dropped.
	for n := range 5 * mostTools {
		use(fmt.Sprintf("open-%d", n), "Bash")
	}
	if len(p.tools) > 2*mostTools || len(p.toolOrder) != len(p.tools) {
		t.Errorf("%d open calls are kept, %d in order", len(p.tools), len(p.toolOrder))
	}
}
