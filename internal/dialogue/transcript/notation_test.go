package transcript_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/transcript"
)

// events reads a notation in which a line is an event:
//
//	turn ID [MESSAGE…]        end ID OUTCOME
//	item PATH STATUS [TEXT]   call PATH STATUS      agent PATH STATUS     begin PATH    starts PATH TASK
//	delta ID TEXT             input ID TEXT         output ID TEXT        retract ID…
//	task ID CALL STATUS       within ID PARENT CALL STATUS
//	ask ID                    close ID HOW          message ID STATE
//	state STATE               exit                  note CODE             epoch N
//
// A PATH is SCOPE/ID, or ID alone at the root. Items belong to the open turn.
// call and agent are tool calls with their whole input, begin is one whose input comes in pieces,
// starts is a completed one that started a task.
func events(t *testing.T, script string) []api.DialogueEvent {
	t.Helper()
	var all []api.DialogueEvent
	epoch, turn := 1, ""
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		word := func(n int) string {
			if n < len(words) {
				return words[n]
			}
			return ""
		}
		ev := api.DialogueEvent{Seq: int64(len(all) + 1), Epoch: epoch}
		switch words[0] {
		case "epoch":
			_, err := fmt.Sscan(word(1), &epoch)
			if err != nil {
				t.Fatal(err)
			}
			continue
		case "turn":
			turn = word(1)
			ev.Type, ev.Turn = api.DialogueEventTurnStarted, &api.DialogueTurn{TurnID: turn, Trigger: "user", Messages: words[2:]}
		case "end":
			ev.Type, ev.Turn = api.DialogueEventTurnEnded, &api.DialogueTurn{TurnID: word(1), Outcome: word(2)}
			turn = ""
		case "item", "call", "agent", "begin", "starts":
			ev.Type, ev.Item = api.DialogueEventItem, &api.DialogueItem{ItemID: word(1), TurnID: turn, Kind: "agent", Status: word(2)}
			if scope, id, ok := strings.Cut(word(1), "/"); ok {
				ev.Scope, ev.Item.ItemID = scope, id
			}
			if text := strings.Join(words[min(3, len(words)):], " "); text != "" {
				ev.Item.Parts = []api.DialoguePart{{Type: "text", Text: text}}
			}
			if words[0] != "item" {
				ev.Item.Kind, ev.Item.Status = "tool_call", "final"
				ev.Item.Tool = &api.DialogueToolCall{Name: words[0], Kind: "execute", Status: word(2), Input: json.RawMessage(`{"of":"` + word(1) + `"}`)}
			}
			switch words[0] {
			case "agent":
				ev.Item.Tool.Kind = "agent"
			case "starts":
				ev.Item.Tool.Status, ev.Item.Tool.TaskID = "completed", word(2)
			case "begin":
				ev.Item.Status, ev.Item.Tool.Status, ev.Item.Tool.Input = "streaming", "pending", nil
			}
		case "delta", "input", "output":
			field := words[0]
			if field == "delta" {
				field = "text"
			}
			_, text, _ := strings.Cut(strings.TrimRight(line, "\n"), " "+word(1)+" ")
			ev.Type, ev.Delta = api.DialogueEventDelta, &api.DialogueDelta{ItemID: word(1), Field: field, Text: text}
		case "retract":
			ev.Type, ev.Retracted = api.DialogueEventRetracted, words[1:]
		case "task":
			ev.Type, ev.Task = api.DialogueEventTask, &api.DialogueTask{TaskID: word(1), ToolCallID: dash(word(2)), Status: word(3)}
		case "within":
			ev.Type, ev.Task = api.DialogueEventTask, &api.DialogueTask{TaskID: word(1), ParentID: word(2), ToolCallID: dash(word(3)), Status: word(4)}
		case "ask":
			ev.Type, ev.Request = api.DialogueEventRequestOpened, &api.DialogueRequest{RequestID: word(1), Kind: "permission", Tool: "Bash", Subject: "make"}
		case "close":
			ev.Type, ev.Request = api.DialogueEventRequestClosed, &api.DialogueRequest{RequestID: word(1), How: word(2), Decision: word(3), By: word(4)}
		case "message":
			ev.Type, ev.Message = api.DialogueEventMessage, &api.DialogueMessage{MessageID: word(1), State: word(2)}
		case "state":
			ev.Type, ev.State = api.DialogueEventState, api.DialogueState(word(1))
		case "exit":
			ev.Type, ev.Ended = api.DialogueEventEnded, &api.DialogueEnd{Cause: "exited"}
		case "note":
			ev.Type, ev.Notice = api.DialogueEventNotice, &api.DialogueNotice{Level: "info", Code: word(1)}
		default:
			t.Fatalf("no such event: %s", line)
		}
		all = append(all, ev)
	}
	return all
}

func dash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// outline has the items of a transcript in one line: ID:STATUS"TEXT"(CHILDREN), where the
// status of a tool call is that of the tool.
func outline(items []api.DialogueItem) string {
	var out []string
	for _, it := range items {
		s := it.ItemID + ":" + it.Status
		if it.Tool != nil {
			s = it.ItemID + ":" + it.Tool.Status
		}
		if text := said(it.Parts); text != "" {
			s += fmt.Sprintf("%q", text)
		}
		if it.Tool != nil {
			if text := said(it.Tool.Output); text != "" {
				s += ">" + fmt.Sprintf("%q", text)
			}
			if len(it.Tool.Items) > 0 {
				s += "(" + outline(it.Tool.Items) + ")"
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func said(parts []api.DialoguePart) string {
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "|")
}

// briefly has events in one line, each as the thing that it closes and its end.
func briefly(all []api.DialogueEvent) string {
	var out []string
	for _, ev := range all {
		switch {
		case ev.Item != nil:
			path := ev.Item.ItemID
			if ev.Scope != "" {
				path = ev.Scope + "/" + path
			}
			s := path + ":" + ev.Item.Status
			if ev.Item.Tool != nil {
				s += "," + ev.Item.Tool.Status
			}
			out = append(out, s)
		case ev.Task != nil:
			out = append(out, "task "+ev.Task.TaskID+":"+ev.Task.Status)
		case ev.Request != nil:
			out = append(out, "request "+ev.Request.RequestID+":"+ev.Request.How)
		case ev.Message != nil:
			out = append(out, "message "+ev.Message.MessageID+":"+ev.Message.State)
		case ev.Turn != nil:
			out = append(out, "turn "+ev.Turn.TurnID+":"+ev.Turn.Outcome)
		default:
			out = append(out, string(ev.Type))
		}
	}
	return strings.Join(out, "; ")
}

func treeOf(all []api.DialogueEvent) *transcript.Tree {
	tree := transcript.NewTree()
	for _, ev := range all {
		tree.Apply(ev)
	}
	return tree
}

func trackerOf(all []api.DialogueEvent) *transcript.Tracker {
	tracker := transcript.NewTracker()
	for _, ev := range all {
		tracker.Apply(ev)
	}
	return tracker
}

// record has the events and the events that follow from each, as a dialogue writes them.
func record(all []api.DialogueEvent) ([]api.DialogueEvent, *transcript.Tracker) {
	tracker := transcript.NewTracker()
	var whole []api.DialogueEvent
	add := func(ev api.DialogueEvent) {
		ev.Seq = int64(len(whole) + 1)
		whole = append(whole, ev)
		tracker.Apply(ev)
	}
	for _, ev := range all {
		add(ev)
		for _, follows := range tracker.Follow() {
			follows.Epoch = ev.Epoch
			add(follows)
		}
	}
	return whole, tracker
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
