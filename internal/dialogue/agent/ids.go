package agent

import (
	"fmt"
	"slices"

	"github.com/trl-dev/trl/api"
)

// ids assigns the ids of turns, items, tasks and requests. The ids of agents are not unique:
// model servers number the tool calls of every answer from zero (call_0), and programs count
// anew in every process. Events have the agent's id beside ours. The one id that refers to
// an earlier process is that of a task whose end the agent reports after it was resumed.
type ids struct {
	epoch int
	last  map[string]int // by kind
}

// The kinds of ids: what they begin with.
const (
	itemID    = "i"
	taskID    = "k"
	requestID = "r"
	turnID    = "t"
)

// earlierTask finds the task of an earlier process that the agent speaks of without having
// started one with that id in this process. Of several with the id it is the last.
func (o Options) earlierTask(native string) (task api.DialogueTask, known bool) {
	for _, t := range slices.Backward(o.Tasks) {
		if t.NativeID == native {
			t.Status = "running" // until the agent says otherwise
			return t, true
		}
	}
	return task, false
}

// next makes an id that was not used before, in this process or an earlier one.
func (n *ids) next(kind string) string {
	if n.last == nil {
		n.last = map[string]int{}
	}
	n.last[kind]++
	return fmt.Sprintf("%s%d.%d", kind, n.epoch, n.last[kind])
}
