package claude

import (
	"maps"
	"slices"
)

// memorySize is how many ids each memory holds: more than a program may refer back to.
const memorySize = 1 << 13

// mostTools is how many tool calls are kept. There are never so many open ones, except
// for those whose end the program does not tell.
const mostTools = 1000

// keepTool adds a tool call, or puts it in the place of what was known of it.
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

// forgetTools drops tool calls, the oldest first, until no more than most are left: those
// that have ended, unless their tasks go on; others only when there are far too many.
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

// forgetEnded drops what has ended before this turn. What is told of a task later brings it
// back.
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
		if scope != "" && p.tools[scope] == nil { // a subagent that is gone will not finish
			p.dropPartials(scope)
		}
	}
}
