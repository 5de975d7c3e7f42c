package chat

import (
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestProgress: an answer is complete when the agent is idle after it, not when a turn ends, and
// the turns of an earlier message are no answer.
func TestProgress(t *testing.T) {
	turn := func(typ api.DialogueEventType, id, outcome string, messages ...string) api.DialogueEvent {
		trigger := "user"
		if id == "2" {
			trigger = "agent"
		}
		return api.DialogueEvent{Type: typ, Turn: &api.DialogueTurn{TurnID: id, Trigger: trigger, Outcome: outcome, Messages: messages}}
	}
	state := func(s api.DialogueState) api.DialogueEvent {
		return api.DialogueEvent{Type: api.DialogueEventState, State: s}
	}
	message := func(id, s string) api.DialogueEvent {
		return api.DialogueEvent{Type: api.DialogueEventMessage, Message: &api.DialogueMessage{MessageID: id, State: s}}
	}
	task := func(status string) api.DialogueEvent {
		return api.DialogueEvent{Type: api.DialogueEventTask, Task: &api.DialogueTask{TaskID: "k", Status: status, Background: true}}
	}
	began, ended := api.DialogueEventTurnStarted, api.DialogueEventTurnEnded
	for name, events := range map[string][]api.DialogueEvent{
		"plain":            {message("m", "sent"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed", "m"), state("idle")},
		"idle comes first": {message("m", "sent"), turn(began, "1", ""), state("idle"), turn(ended, "1", "completed", "m")},
		"late end":         {turn(ended, "0", "failed"), message("old", "done"), state("idle"), message("m", "sent"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed", "m"), state("idle")},
		"flicker":          {message("m", "sent"), state("running"), message("m", "queued"), state("idle"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed", "m"), state("idle")},
		"background":       {message("m", "sent"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed", "m"), message("m", "done"), turn(began, "2", ""), turn(ended, "2", "completed"), state("idle")},
		"a command":        {message("m", "sent"), state("running"), turn(began, "1", ""), task("running"), turn(ended, "1", "completed", "m"), state("idle"), state("running"), task("completed"), turn(began, "2", ""), turn(ended, "2", "completed"), state("idle")},
		"an earlier one":   {turn(began, "0", "", "old"), message("m", "sent"), state("running"), turn(ended, "0", "interrupted", "old"), state("idle"), state("running"), turn(began, "1", "", "m"), turn(ended, "1", "completed", "m"), state("idle")},
		"one not seen":     {message("m", "sent"), turn(ended, "0", "failed", "old"), state("idle"), message("m", "started"), turn(began, "1", "", "m"), turn(ended, "1", "completed", "m")},
		"taken in":         {turn(began, "0", "", "old"), message("m", "sent"), state("running"), message("m", "started"), message("m", "done"), turn(ended, "0", "completed", "old", "m"), state("idle")},
		"others' work":     {task("running"), message("m", "sent"), state("running"), turn(began, "1", "", "m"), turn(ended, "1", "completed", "m"), state("idle")},
		"no turn":          {message("m", "sent"), state("running"), message("m", "done"), state("idle")},
	} {
		c := progress{state: api.DialogueIdle}
		c.expect("m")
		for i, ev := range events {
			c.apply(ev)
			if last := i == len(events)-1; c.settled() != last {
				t.Errorf("%s: settled is %v after event %d of %d", name, c.settled(), i+1, len(events))
			}
		}
		if c.status() != 0 || c.busy() {
			t.Errorf("%s: status %d, busy %v", name, c.status(), c.busy())
		}
	}
	// While a task runs in the background, the agent waits for a message, but only after it has
	// answered the last one.
	c := progress{state: api.DialogueRunning, tasks: map[string]party{"t": others}}
	for i, ev := range []api.DialogueEvent{{}, message("m", "sent"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed", "m")} {
		if c.apply(ev); c.free() != (i == 0 || i == 4) {
			t.Errorf("in the background: free is %v after event %d", c.free(), i)
		}
		if i == 0 {
			c.expect("m")
		}
	}
	for outcome, want := range map[string]int{"completed": 0, "failed": 1, "limit": 1, "lost": 1, "interrupted": 130} {
		if got := (&progress{outcome: outcome}).status(); got != want {
			t.Errorf("%s: status %d, want %d", outcome, got, want)
		}
	}
}
