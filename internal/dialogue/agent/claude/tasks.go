package claude

import (
	"cmp"
	"slices"

	"github.com/trl-dev/trl/api"
)

// taskLine has the fields of the lines about tasks.
type taskLine struct {
	TaskID      string `json:"task_id"`
	ToolUseID   string `json:"tool_use_id"`
	ParentID    string `json:"parent_task_id"`
	Kind        string `json:"task_type"`
	Description string `json:"description"`
	Background  *bool  `json:"is_backgrounded"`
	Depth       int    `json:"spawn_depth"`
	Status      string `json:"status"`
	Summary     string `json:"summary"`
	Patch       struct {
		Status      string `json:"status"`
		Description string `json:"description"`
		Error       string `json:"error"`
		Background  *bool  `json:"is_backgrounded"`
	} `json:"patch"`
	Tasks []struct {
		TaskID string `json:"task_id"`
	} `json:"tasks"`
}

// task handles a line about a task, which may outlive its tool call and its turn.
func (p *protocol) task(l *wireLine) {
	var in taskLine
	lenient(l.whole, &in)
	if in.TaskID == "" {
		p.unparsed("bad_shape")
		return
	}
	now, known := p.knownTask(in.TaskID)
	if !known && l.Subtype != "task_started" {
		if now, known = p.options.EarlierTask(in.TaskID); known {
			p.taskIDs.Put(in.TaskID, now.TaskID)
			in.ToolUseID = "" // its call was in the earlier process
		}
	}
	if !known {
		now = api.DialogueTask{TaskID: p.taskID(in.TaskID), NativeID: in.TaskID, Kind: "other", Status: "running"}
	}
	if native, _ := p.calls.native.Get(now.ToolCallID); in.ToolUseID != "" && native != in.ToolUseID {
		now.ToolCallID = p.callID(in.ToolUseID)
	}
	now.ParentID = cmp.Or(p.taskID(in.ParentID), now.ParentID)
	now.Depth = max(in.Depth, now.Depth)
	switch in.Kind {
	case "local_agent":
		now.Kind = "agent"
	case "local_bash":
		now.Kind = "shell"
	}
	for _, b := range []*bool{in.Background, in.Patch.Background} {
		if b != nil {
			now.Background = *b
		}
	}
	switch l.Subtype {
	case "task_started": // also when an ended task is continued
		now.Status = "running"
		now.Name = cmp.Or(in.Description, now.Name)
	case "task_progress":
		now.Summary = cmp.Or(in.Summary, in.Description, now.Summary)
	case "task_updated":
		now.Status = taskStatus(in.Patch.Status, now.Status)
		now.Summary = cmp.Or(in.Patch.Error, in.Patch.Description, now.Summary)
	case "task_notification":
		now.Status = taskStatus(in.Status, now.Status)
		now.Summary = cmp.Or(in.Summary, now.Summary)
	}
	p.publishTask(now)
}

// knownTask is a task as published last, open or ended.
func (p *protocol) knownTask(id string) (t api.DialogueTask, known bool) {
	if t, known = p.tasks[id]; known {
		return t, true
	}
	return p.finishedTasks.Get(id)
}

// taskStatus translates a status. An unknown one changes nothing.
func taskStatus(word, old string) string {
	switch word {
	case "pending", "running", "paused":
		return "running"
	case "completed", "failed":
		return word
	case "killed", "stopped", "cancelled":
		return "cancelled"
	}
	return old
}

// publishTask publishes a task that has changed, and puts its id into its tool call.
func (p *protocol) publishTask(now api.DialogueTask) {
	was, _ := p.knownTask(now.NativeID)
	if was == now {
		return
	}
	// The program reports the end of a background task to the model, in a turn of its own. The
	// agent is not idle until then.
	if now.Background && was.Status == "running" && (now.Status == "completed" || now.Status == "failed") && p.turn == nil && !p.hushed {
		p.reporting = true
		p.publishState()
	}
	p.agents += agentRuns(now) - agentRuns(was)
	if _, listed := p.tasks[now.NativeID]; !listed {
		p.taskOrder = append(p.taskOrder, now.NativeID)
	}
	p.tasks[now.NativeID] = now
	if now.ToolCallID != "" {
		p.taskOf.Put(now.ToolCallID, now.TaskID)
	}
	if tool := p.tools[now.ToolCallID]; tool != nil && tool.item.Tool.TaskID != now.TaskID {
		tool.item.Tool.TaskID = now.TaskID
		p.publishTool(tool)
	}
	if now.Kind == "agent" && now.ToolCallID != "" {
		if _, ok := p.callTurn.Get(now.ToolCallID); !ok {
			p.callTurn.Put(now.ToolCallID, p.turnOf(""))
		}
	}
	p.publish(api.DialogueEvent{Type: api.DialogueEventTask, Task: &now})
}

// agentRuns is 1 for a subagent that works, else 0. A background command does not keep the
// program busy.
func agentRuns(t api.DialogueTask) int {
	if t.Kind == "agent" && t.Status == "running" {
		return 1
	}
	return 0
}

// launched notes from the result of a tool call which task it started, and whether the task runs
// in the background. Old versions do not report that elsewhere.
func (p *protocol) launched(id, tool string, background bool) {
	now, known := p.knownTask(id)
	if !known {
		return
	}
	now.ToolCallID = cmp.Or(now.ToolCallID, tool)
	now.Background = now.Background || background
	p.publishTask(now)
}

// backgroundTasks handles the list of all running background tasks. A task that is not on it has
// ended, even if its end was not reported.
func (p *protocol) backgroundTasks(l *wireLine) {
	var in taskLine
	lenient(l.whole, &in)
	for _, id := range slices.Clone(p.taskOrder) {
		now := p.tasks[id]
		listed := false
		for _, l := range in.Tasks {
			listed = listed || l.TaskID == id
		}
		switch {
		case listed:
			now.Background = true
		case now.Background && now.Status == "running":
			now.Status = "lost"
		}
		p.publishTask(now)
	}
}
