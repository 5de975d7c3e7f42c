package transcript_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trl-dev/trl/api"
)

// random makes a stream of events that no agent would make: ids are used for anything, scopes lead
// anywhere, things end before they begin. Only in a wild stream an item changes its scope.
func random(seed uint64, n int, wild bool) []api.DialogueEvent {
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	id := func(kind string) string { return fmt.Sprint(kind, r.IntN(2+n/10)) }
	scopes := map[string]string{}
	scope := func(id, drawn string) string {
		if first, known := scopes[id]; known && !wild {
			return first
		}
		scopes[id] = drawn
		return drawn
	}
	var all []api.DialogueEvent
	for len(all) < n {
		ev := api.DialogueEvent{Seq: int64(len(all) + 1), Epoch: 1 + len(all)*3/n}
		text := []api.DialoguePart{{Type: pick("text", "text", "image"), Text: id("text ")}}
		switch r.IntN(16) {
		case 0:
			ev.Type, ev.Turn = api.DialogueEventTurnStarted, &api.DialogueTurn{TurnID: id("t"), Trigger: pick("user", "agent"), Messages: []string{id("m")}}
		case 1:
			ev.Type, ev.Turn = api.DialogueEventTurnEnded, &api.DialogueTurn{TurnID: id("t"), Outcome: pick("completed", "interrupted", "failed", "limit", "")}
		case 2, 3:
			ev.Type = api.DialogueEventItem
			ev.Item = &api.DialogueItem{ItemID: id("a"), Kind: "agent", Status: pick("streaming", "final", "aborted"), Parts: text}
			ev.Scope = scope(ev.Item.ItemID, pick("", "", id("c")))
		case 4, 5, 6, 7:
			ev.Type = api.DialogueEventItem
			ev.Item = &api.DialogueItem{ItemID: id("c"), Kind: "tool_call", Status: pick("streaming", "final"), TurnID: pick("", id("t")), Tool: &api.DialogueToolCall{
				Name: "Agent", Kind: "agent", Status: pick("pending", "awaiting_approval", "running", "completed", "failed", "cancelled"), Output: text, TaskID: pick("", id("k"))}}
			ev.Scope = scope(ev.Item.ItemID, pick("", "", id("c")))
			if r.IntN(2) == 0 {
				ev.Item.Tool.Input = json.RawMessage(`{"a":1}`)
			}
		case 8, 9, 10:
			ev.Type, ev.Delta = api.DialogueEventDelta, &api.DialogueDelta{ItemID: pick(id("a"), id("c")), Field: pick("text", "input", "output"), Text: pick("1", "{", "}", "é")}
		case 11:
			ev.Type, ev.Retracted = api.DialogueEventRetracted, []string{pick(id("a"), id("c")), id("a")}
		case 12:
			ev.Type, ev.Task = api.DialogueEventTask, &api.DialogueTask{TaskID: id("k"), ToolCallID: pick("", id("c")), ParentID: pick("", id("k")), Status: pick("running", "running", "completed", "failed", "cancelled", "")}
		case 13:
			ev.Type, ev.Request = api.DialogueEventRequestOpened, &api.DialogueRequest{RequestID: id("r"), Kind: "permission"}
		case 14:
			ev.Type, ev.Request = api.DialogueEventRequestClosed, &api.DialogueRequest{RequestID: id("r"), How: pick("answered", "withdrawn", "expired", "")}
		case 15:
			switch r.IntN(5) {
			case 0:
				ev.Type, ev.State = api.DialogueEventState, api.DialogueState(pick("running", "idle"))
			case 1:
				ev.Type, ev.Message = api.DialogueEventMessage, &api.DialogueMessage{MessageID: id("m"), State: pick("sent", "queued", "started", "done")}
			case 2:
				ev.Type, ev.Usage = api.DialogueEventUsage, &api.DialogueUsage{InputTokens: int64(len(all))}
			case 3:
				ev.Type, ev.Notice = api.DialogueEventNotice, &api.DialogueNotice{Code: id("n")}
			case 4:
				ev.Type, ev.Ended = api.DialogueEventEnded, &api.DialogueEnd{Cause: "exited"}
			}
		}
		all = append(all, ev)
	}
	return all
}

// seeds runs a test on many streams: short ones with few ids, and longer ones.
func seeds(t *testing.T, wild bool, check func(t *testing.T, all []api.DialogueEvent)) {
	for seed := range uint64(80) {
		n := []int{10, 30, 100, 300}[seed%4]
		check(t, random(seed, n, wild))
		if t.Failed() {
			t.Fatalf("seed %d, %d events", seed, n)
		}
	}
}

// lose adds the events that close everything.
func lose(all []api.DialogueEvent) []api.DialogueEvent {
	all, tracker := record(all)
	for _, ev := range tracker.Lost() {
		ev.Seq = int64(len(all) + 1)
		all = append(all, ev)
	}
	return all
}

// leftOpen lists the open things of a transcript.
func leftOpen(r api.DialogueTranscriptResult) (open []string) {
	var items func([]api.DialogueItem)
	items = func(all []api.DialogueItem) {
		for _, it := range all {
			ended := []string{"completed", "failed", "cancelled", "lost"}
			if it.Status == "streaming" || it.Tool != nil && !slices.Contains(ended, it.Tool.Status) {
				open = append(open, "item "+it.ItemID)
			}
			if it.Tool != nil {
				items(it.Tool.Items)
			}
		}
	}
	items(r.Items)
	for _, turn := range r.Turns {
		if turn.Outcome == "" {
			open = append(open, "turn "+turn.TurnID)
		}
	}
	for _, task := range r.Tasks {
		if task.Status == "running" {
			open = append(open, "task "+task.TaskID)
		}
	}
	for _, request := range r.Requests {
		if request.How == "" {
			open = append(open, "request "+request.RequestID)
		}
	}
	return open
}

// A dialogue that is lost at any event has nothing open afterwards. Until then the tracker and the
// tree agree on the open things.
func TestRandomLost(t *testing.T) {
	seeds(t, false, func(t *testing.T, all []api.DialogueEvent) {
		for cut := 0; cut <= len(all); cut += 1 + len(all)/20 {
			whole, tracker := record(all[:cut])
			r := treeOf(whole).Result()
			open := leftOpen(r)
			if tracker.Busy() != (len(open) > 0) {
				t.Errorf("cut at %d: busy is %v, open are %v", cut, tracker.Busy(), open)
			}
			var info api.DialogueInfo
			tracker.Describe(&info)
			if info.Turns != len(r.Turns) || info.State != r.State || info.Seq != r.Seq || info.Usage != r.Usage {
				t.Errorf("cut at %d: tracker %+v, tree %+v", cut, info, r)
			}
			if open := leftOpen(treeOf(lose(all[:cut])).Result()); len(open) > 0 {
				t.Errorf("cut at %d: open are %v", cut, open)
			}
		}
	})
}

// Lost closes everything after the things that it contains.
func TestRandomLostOrder(t *testing.T) {
	seeds(t, false, func(t *testing.T, all []api.DialogueEvent) {
		whole, tracker := record(all)
		scopes := scopesOf(whole)
		closed := map[string]bool{}
		for _, ev := range tracker.Lost() {
			if ev.Item == nil {
				continue
			}
			closed[ev.Item.ItemID] = true
			seen := map[string]bool{ev.Item.ItemID: true}
			for scope := ev.Scope; scope != ""; scope = scopes[scope] {
				if seen[scope] {
					break // a circle has no right order
				}
				seen[scope] = true
				if closed[scope] && !circular(scopes, scope) {
					t.Errorf("%s was closed before %s", scope, ev.Item.ItemID)
				}
			}
		}
	})
}

func circular(scopes map[string]string, id string) bool {
	seen := map[string]bool{}
	for ; id != ""; id = scopes[id] {
		if seen[id] {
			return true
		}
		seen[id] = true
	}
	return false
}

// scopesOf has the scope of each item that was not retracted.
func scopesOf(all []api.DialogueEvent) map[string]string {
	scopes := map[string]string{}
	for _, ev := range all {
		if ev.Item != nil {
			if _, known := scopes[ev.Item.ItemID]; !known {
				scopes[ev.Item.ItemID] = ev.Scope
			}
		}
		for rest := ev.Retracted; len(rest) > 0; rest = rest[1:] {
			delete(scopes, rest[0])
			rest = slices.Clone(rest)
			for id, scope := range scopes {
				if scope == rest[0] {
					rest = append(rest, id)
				}
			}
		}
	}
	return scopes
}

// Every item that was not retracted is in the transcript once.
func TestRandomNothingIsLost(t *testing.T) {
	seeds(t, true, func(t *testing.T, all []api.DialogueEvent) {
		want := scopesOf(all)
		got := map[string]bool{}
		var walk func(scope string, items []api.DialogueItem)
		walk = func(scope string, items []api.DialogueItem) {
			for _, it := range items {
				if got[it.ItemID] {
					t.Errorf("%s is there twice", it.ItemID)
				}
				got[it.ItemID] = true
				first, told := want[it.ItemID]
				if !told || scope != "" && scope != first {
					t.Errorf("%s is below %q, want %q (told: %v)", it.ItemID, scope, first, told)
				}
				if it.Tool != nil {
					walk(it.ItemID, it.Tool.Items)
				}
			}
		}
		walk("", treeOf(all).Result().Items)
		if len(got) != len(want) {
			t.Errorf("%d items, want %d", len(got), len(want))
		}
	})
}

// The pieces of a complete item do not change the transcript.
func TestRandomDeltas(t *testing.T) {
	seeds(t, false, func(t *testing.T, all []api.DialogueEvent) {
		whole := lose(all)
		final := slices.DeleteFunc(slices.Clone(whole), func(ev api.DialogueEvent) bool { return ev.Type == api.DialogueEventDelta })
		got, want := treeOf(final).Result(), treeOf(whole).Result()
		got.Seq = want.Seq
		if got, want := marshal(t, got), marshal(t, want); got != want {
			t.Errorf("\nwithout deltas %s\nwith them      %s", got, want)
		}
	})
}

// Two results are equal, later events do not change a result, and a result does not change the
// events.
func TestRandomSnapshots(t *testing.T) {
	seeds(t, true, func(t *testing.T, all []api.DialogueEvent) {
		before := marshal(t, all)
		tree, again := treeOf(nil), treeOf(nil)
		var results []api.DialogueTranscriptResult
		var texts []string
		for n, ev := range all {
			tree.Apply(ev)
			again.Apply(ev)
			if n%(1+len(all)/15) == 0 {
				results = append(results, tree.Result())
				texts = append(texts, marshal(t, results[len(results)-1]))
			}
		}
		for n, r := range results {
			if got := marshal(t, r); got != texts[n] {
				t.Errorf("the transcript was %s\nand is %s", texts[n], got)
			}
		}
		if marshal(t, again.Result()) != marshal(t, tree.Result()) {
			t.Error("looked at meanwhile, it is another")
		}
		if marshal(t, all) != before {
			t.Error("the events were changed")
		}
	})
}

// Follow returns each event once, and the same events in every run.
func TestRandomFollow(t *testing.T) {
	seeds(t, false, func(t *testing.T, all []api.DialogueEvent) {
		whole, _ := record(all)
		again, _ := record(all)
		if marshal(t, whole) != marshal(t, again) {
			t.Error("what follows differs")
		}
		tracker := trackerOf(nil)
		for n, ev := range whole {
			tracker.Apply(ev)
			follows := tracker.Follow()
			if len(follows) == 0 {
				continue
			}
			for m, f := range follows {
				if n+1+m >= len(whole) || whole[n+1+m].Item == nil || whole[n+1+m].Item.ItemID != f.Item.ItemID {
					t.Errorf("behind event %d comes %s", n, briefly(follows))
					return
				}
			}
		}
	})
}
