package agent

import "fmt"

// ids makes the ids of what happens in a dialogue. The ids of agents are no keys: model
// servers number tool calls anew in every answer (call_0), and programs count anew in every
// process. What is told of a thing has the agent's id beside ours.
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

// next makes an id that was not used before, in this process or an earlier one.
func (n *ids) next(kind string) string {
	if n.last == nil {
		n.last = map[string]int{}
	}
	n.last[kind]++
	return fmt.Sprintf("%s%d.%d", kind, n.epoch, n.last[kind])
}
