package dialogue

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
)

func TestReadCause(t *testing.T) {
	offset := int64(12)
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		event api.DialogueEvent
		want  cause
	}{
		{api.DialogueEvent{Type: "state", State: "idle"}, cause{kind: "state", offset: -1}},
		{api.DialogueEvent{Type: "item", Offset: &offset, Item: &api.DialogueItem{ItemID: "i1.2", Parts: []api.DialoguePart{{Text: long}}}}, cause{kind: "item", offset: 12, itemID: "i1.2"}},
		{api.DialogueEvent{Type: "delta", Offset: &offset, Scope: "i1.1", NativeID: "n", Delta: &api.DialogueDelta{ItemID: "i1.3", Text: long}}, cause{kind: "delta", offset: 12, itemID: "i1.3"}},
		{api.DialogueEvent{Type: "request_opened", Offset: &offset, Request: &api.DialogueRequest{RequestID: "r1.1", ToolCallID: "k1.1", Subject: long}}, cause{kind: "request_opened", offset: 12, itemID: "k1.1"}},
		{api.DialogueEvent{Type: "request_opened", Offset: &offset, Request: &api.DialogueRequest{RequestID: "r1.1", Subject: long}}, cause{kind: "request_opened", offset: 12}},
		{api.DialogueEvent{Type: "task", Offset: &offset, Task: &api.DialogueTask{TaskID: "s1.1", ToolCallID: "k1.2"}}, cause{kind: "task", offset: 12, itemID: "k1.2"}},
		{api.DialogueEvent{Type: "unparsed", Offset: &offset, Unparsed: &api.DialogueUnparsed{Why: "not_json", Text: long}}, cause{kind: "unparsed", offset: 12, unparsed: "not_json"}},
		{api.DialogueEvent{Type: "turn_ended", Offset: &offset, Turn: &api.DialogueTurn{TurnID: "t1.1", Text: long}}, cause{kind: "turn_ended", offset: 12}},
	} {
		c.event.Seq, c.event.Epoch, c.event.At = 7, 2, time.Now()
		c.want.seq, c.want.epoch = 7, 2
		text, err := json.Marshal(c.event)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{text, text[:min(len(text), 2000)]} { // also if it is cut
			if got, err := readCause(text); err != nil || got != c.want {
				t.Errorf("%.100s: %+v, %v; want %+v", text, got, err, c.want)
			}
		}
	}
	for _, text := range []string{"", "[]", `{"seq":"x"}`, `{"seq":1,`} {
		if _, err := readCause([]byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
