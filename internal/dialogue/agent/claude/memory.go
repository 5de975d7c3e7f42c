package claude

import (
	"maps"
	"slices"
)

// memorySize is how many ids a recent.Map holds. A program does not refer back that far.
const memorySize = 1 << 13

// mostTools is how many tool calls are kept. So many are never open at once, except calls whose
// end the program does not report.
const mostTools = 1000

// keepTool adds or replaces a tool call.
func (p *protocol) keepTool(t *tool) {
	id := t.item.ItemID
	if p.tools[id] == nil {
		p.toolOrder = append(p.toolOrder, id)
	}
	p.tools[id] = t
	p.callTurn.Put(id, t.item.TurnID)
	if len(p.toolOrder) > 2*mostTools {
		p.forgetTools(mostTools)
	}
}

// forgetTools drops tool calls, oldest first, until at most that many are left. It keeps open
// calls, and calls with a running task, unless there are more than mostTools of them.
func (p *protocol) forgetTools(most int) {
	busy := map[string]bool{}
	for _, t := range p.tasks {
		busy[t.ToolCallID] = busy[t.ToolCallID] || t.Status == "running"
	}
	drop := func(most int, may func(id string) bool) {
		over := len(p.toolOrder) - most
		if over <= 0 {
			return
		}
		p.toolOrder = slices.DeleteFunc(p.toolOrder, func(id string) bool {
			if over == 0 || !may(id) {
				return false
			}
			over--
			delete(p.tools, id)
			return true
		})
	}
	drop(most, func(id string) bool { return !p.tools[id].open() && !busy[id] })
	drop(mostTools, func(string) bool { return true })
}

// forgetEnded drops tasks, tool calls and streamed blocks that ended before this turn. A later
// report on a task brings the task back.
func (p *protocol) forgetEnded() {
	p.taskOrder = slices.DeleteFunc(p.taskOrder, func(id string) bool {
		t := p.tasks[id]
		if t.Status == "running" {
			return false
		}
		delete(p.tasks, id)
		p.finishedTasks.Put(id, t)
		return true
	})
	p.forgetTools(0)
	for _, scope := range slices.Sorted(maps.Keys(p.partials)) {
		if scope != "" && p.tools[scope] == nil { // its subagent has ended, and will not finish them
			p.dropPartials(scope)
		}
	}
}
