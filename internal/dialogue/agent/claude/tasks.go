package claude

import (
	"cmp"
	"slices"

	"github.com/trl-dev/trl/api"
)

// taskLine is what the lines about tasks have.
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

// task takes a line about a task: work with a life of its own, which may outlive its tool
// call and its turn.
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
			in.ToolUseID = "" // the call was in the earlier process
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
	case "task_started": // again, when a task that had ended is taken up
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

// knownTask is what was told of a task, also of one that has ended.
func (p *protocol) knownTask(id string) (t api.DialogueTask, known bool) {
	if t, known = p.tasks[id]; known {
		return t, true
	}
	return p.finishedTasks.Get(id)
}

// taskStatus is the status in our words. What is not known changes nothing.
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

// tellTask tells of a task if anything about it is new, and lets its tool call name it.
func (p *protocol) publishTask(now api.DialogueTask) {
	was, _ := p.knownTask(now.NativeID)
	if was == now {
		return
	}
	// The end of work in the background is reported to the model, in a turn that the program
	// begins by itself. Until then the agent is not at rest: there is more to be heard.
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

// agentRuns is 1 for a subagent that works. A command in the background does not keep the
// program busy.
func agentRuns(t api.DialogueTask) int {
	if t.Kind == "agent" && t.Status == "running" {
		return 1
	}
	return 0
}

// launched takes from the result of a tool call that a task goes on, or was waited for.
// Old versions say nowhere else that a task is in the background.
func (p *protocol) launched(id, tool string, background bool) {
	now, known := p.knownTask(id)
	if !known {
		return
	}
	now.ToolCallID = cmp.Or(now.ToolCallID, tool)
	now.Background = now.Background || background
	p.publishTask(now)
}

// backgroundTasks takes the list of all that runs in the background now. What is not on it,
// and never told its end, is gone.
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
