package agent

import (
	"fmt"
	"slices"

	"github.com/trl-dev/trl/api"
)

// IDs makes the ids of items, tasks, requests and turns. A Protocol publishes these ids, not
// the agent's own, which are not unique: model servers number the tool calls of every answer
// from zero (call_0), and programs count anew in every process. An event carries the agent's
// id beside ours, as NativeID.
type IDs struct {
	epoch                         int
	items, tasks, requests, turns int // made until now
}

// NewIDs returns the ids of the process with that epoch. No other process of the dialogue
// makes the same ones.
func NewIDs(epoch int) IDs { return IDs{epoch: epoch} }

// Item makes the id of an item, such as i1.7.
func (n *IDs) Item() string { return n.next("i", &n.items) }

// Task makes the id of a task.
func (n *IDs) Task() string { return n.next("k", &n.tasks) }

// Request makes the id of a request.
func (n *IDs) Request() string { return n.next("r", &n.requests) }

// Turn makes the id of a turn.
func (n *IDs) Turn() string { return n.next("t", &n.turns) }

func (n *IDs) next(prefix string, count *int) string {
	*count++
	return fmt.Sprintf("%s%d.%d", prefix, n.epoch, *count)
}

// EarlierTask returns the task of an earlier process that has the agent's id; of several, the
// latest. It is for an agent that reports, after a resume, on a task that this process did
// not start. No other id refers to an earlier process.
func (o Options) EarlierTask(native string) (task api.DialogueTask, known bool) {
	for _, t := range slices.Backward(o.Tasks) {
		if t.NativeID == native {
			t.Status = "running" // until the agent reports otherwise
			return t, true
		}
	}
	return task, false
}
