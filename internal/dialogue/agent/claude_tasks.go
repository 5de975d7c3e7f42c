package agent

import (
	"slices"

	"github.com/trl-dev/trl/api"
)

// claudeTask is work with a life of its own. It may outlive its tool call and its turn.
type claudeTask struct {
	told api.DialogueTask
}

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

// task takes a line about a task.
func (p *claudeProtocol) task(l *claudeLine) {
	var in taskLine
	lenient(l.whole, &in)
	if in.TaskID == "" {
		p.unparsed("bad_shape")
		return
	}
	t := p.tasks[in.TaskID]
	if t == nil {
		t = &claudeTask{}
		p.tasks[in.TaskID] = t
	}
	now := t.told
	if now.TaskID == "" {
		now = api.DialogueTask{TaskID: in.TaskID, Kind: "other", Status: "running"}
	}
	now.ToolCallID = or(in.ToolUseID, now.ToolCallID)
	now.ParentID = or(in.ParentID, now.ParentID)
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
		now.Name = or(in.Description, now.Name)
	case "task_progress":
		now.Summary = or(in.Summary, in.Description, now.Summary)
	case "task_updated":
		now.Status = taskStatus(in.Patch.Status, now.Status)
		now.Summary = or(in.Patch.Error, in.Patch.Description, now.Summary)
	case "task_notification":
		now.Status = taskStatus(in.Status, now.Status)
		now.Summary = or(in.Summary, now.Summary)
	}
	p.tellTask(t, now)
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
func (p *claudeProtocol) tellTask(t *claudeTask, now api.DialogueTask) {
	if t.told == now {
		return
	}
	p.agents += agentRuns(now) - agentRuns(t.told)
	t.told = now
	if !slices.Contains(p.taskOrder, now.TaskID) {
		p.taskOrder = append(p.taskOrder, now.TaskID)
	}
	if now.ToolCallID != "" {
		p.taskOf[now.ToolCallID] = now.TaskID
	}
	if tool := p.tools[now.ToolCallID]; tool != nil && tool.item.Tool.TaskID != now.TaskID {
		tool.item.Tool.TaskID = now.TaskID
		p.tellTool(tool)
	}
	if now.Kind == "agent" && now.ToolCallID != "" {
		if _, ok := p.scopeTurn[now.ToolCallID]; !ok {
			p.scopeTurn[now.ToolCallID] = p.turnOf("")
		}
	}
	p.tell(api.DialogueEvent{Type: api.ToldTask, Task: &now})
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
func (p *claudeProtocol) launched(id, tool string, background bool) {
	t := p.tasks[id]
	if t == nil {
		return
	}
	now := t.told
	now.ToolCallID = or(now.ToolCallID, tool)
	now.Background = now.Background || background
	p.tellTask(t, now)
}

// backgroundTasks takes the list of all that runs in the background now. What is not on it,
// and never told its end, is gone.
func (p *claudeProtocol) backgroundTasks(l *claudeLine) {
	var in taskLine
	lenient(l.whole, &in)
	for _, id := range slices.Clone(p.taskOrder) {
		t := p.tasks[id]
		now := t.told
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
		p.tellTask(t, now)
	}
}
