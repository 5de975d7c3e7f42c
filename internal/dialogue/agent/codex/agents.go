package codex

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// thread finds a thread. An unknown one belongs to the subagent that is being started, or else
// to a subagent of an earlier process, or else to a new subagent.
func (c *protocol) thread(id string) *thread {
	if t := c.knownThread(id); t != nil {
		return t
	}
	var by *thread
	var call *openItem
	for _, t := range c.threads {
		for _, o := range t.open {
			if o.item.Tool != nil && o.item.Tool.Name == "spawnAgent" {
				by, call = t, o
			}
		}
	}
	if earlier, known := c.options.EarlierTask(id); known && call == nil {
		c.taskIDs.Put(id, earlier.TaskID)
		return c.addThread(&thread{id: id, task: &earlier})
	}
	child := c.newThread(id)
	if call != nil {
		child.task.ToolCallID, child.task.Name = call.item.ItemID, call.item.Tool.Subject
		child.parent(by)
	}
	return child
}

// knownThread returns the thread with this id, or nil if Codex has not reported it.
func (c *protocol) knownThread(id string) *thread {
	for _, t := range c.threads {
		if t.id == id {
			return t
		}
	}
	return nil
}

// newThread adds the thread of a new subagent.
func (c *protocol) newThread(id string) *thread {
	return c.addThread(&thread{id: id, task: &api.DialogueTask{TaskID: c.taskID(id), NativeID: id, Kind: "agent", Background: true, Status: "running"}})
}

func (c *protocol) addThread(t *thread) *thread {
	c.forgetThread()
	c.threads = append(c.threads, t)
	return t
}

// taskID is our id of the task of a thread.
func (c *protocol) taskID(thread string) string {
	if thread == "" {
		return ""
	}
	id, known := c.taskIDs.Get(thread)
	if !known {
		id = c.IDs.Task()
		c.taskIDs.Put(thread, id)
	}
	return id
}

// maxThreads is how many threads are kept. Codex may mention the thread of a subagent again after
// its end.
const maxThreads = 1000

// forgetThread makes room for another thread: it drops the oldest one whose subagent is idle.
func (c *protocol) forgetThread() {
	if len(c.threads) < maxThreads {
		return
	}
	i := slices.IndexFunc(c.threads, func(t *thread) bool {
		waits := slices.ContainsFunc(c.requests, func(r *request) bool { return r.thread == t })
		return t != c.main && t.turn == "" && !t.active && len(t.open) == 0 && t.task.Status != "running" && !waits
	})
	if i >= 0 {
		c.forgotten = jsonrpc.AddUsage(c.forgotten, c.threads[i].used())
		c.threads = slices.Delete(c.threads, i, i+1)
	}
}

func (t *thread) parent(p *thread) {
	t.task.Depth = 1
	if p.task != nil {
		t.task.ParentID, t.task.Depth = p.task.TaskID, p.task.Depth+1
	}
}

func (c *protocol) threadStarted(params json.RawMessage) {
	var p struct {
		Thread struct{ ID, ParentThreadID, AgentNickname string }
	}
	json.Unmarshal(params, &p)
	if c.main == nil || p.Thread.ID == "" || p.Thread.ParentThreadID == "" || p.Thread.ID == c.main.id {
		return
	}
	t := c.thread(p.Thread.ID)
	if t.task.Name == "" {
		t.task.Name = p.Thread.AgentNickname
	}
}

// spawned ties a subagent to the tool call that started it.
func (c *protocol) spawned(by *thread, thread, call, name string) {
	if thread == "" || thread == c.main.id {
		return
	}
	t := c.knownThread(thread)
	if t == nil {
		t = c.newThread(thread)
	}
	t.task.ToolCallID, t.task.Name = call, name
	t.parent(by)
	c.taskStatus(t, t.task.Status, t.task.Summary)
}

// collab handles the end of a tool call that starts, asks or ends subagents.
func (c *protocol) collab(t *thread, it wireItem, call string) {
	if it.Tool == "spawnAgent" {
		for _, id := range it.ReceiverThreadIDs {
			c.spawned(t, id, call, it.Prompt)
			if child := c.knownThread(id); child != nil && !child.begun && it.AgentsStates[id].Status == "pendingInit" {
				child.starts = true
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(it.AgentsStates)) {
		state := it.AgentsStates[id]
		status := map[string]string{"completed": "completed", "interrupted": "cancelled", "shutdown": "cancelled", "errored": "failed", "notFound": "failed"}[state.Status]
		if status == "" || id == "" || id == c.main.id {
			continue
		}
		if child := c.thread(id); child.task.Status == "running" && child.turn == "" {
			c.taskStatus(child, status, state.Message)
		}
	}
}

// activity handles the end of a subagent that Codex reports as an item.
func (c *protocol) activity(it wireItem) {
	status := map[string]string{"completed": "completed", "interrupted": "cancelled"}[it.Kind]
	if status == "" || it.AgentThreadID == "" || it.AgentThreadID == c.main.id {
		return
	}
	if t := c.thread(it.AgentThreadID); t.task.Status != status && t.turn == "" {
		c.taskStatus(t, status, "")
	}
}

func (c *protocol) taskStatus(t *thread, status, summary string) {
	t.task.Status = status
	t.starts = t.starts && status == "running"
	if summary != "" {
		t.task.Summary = summary
	}
	t.task.Usage = t.total
	task := *t.task
	if task == t.told {
		return
	}
	t.told = task
	c.Publish(api.DialogueEvent{Type: api.DialogueEventTask, NativeID: t.id, Task: &task})
}
