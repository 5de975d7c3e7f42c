package transcript_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/trl-dev/trl/api"
)

// FuzzTree applies any record of events, one per line: nothing panics, the transcript can be
// encoded, and the events of Lost close everything.
func FuzzTree(f *testing.F) {
	for seed := range uint64(20) {
		var lines bytes.Buffer
		enc := json.NewEncoder(&lines)
		for _, ev := range random(seed, 12, seed%2 == 0) {
			ev.Seq = 0
			if err := enc.Encode(ev); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(lines.Bytes())
	}
	f.Fuzz(func(t *testing.T, lines []byte) {
		var all []api.DialogueEvent
		for line := range bytes.Lines(lines) {
			var ev api.DialogueEvent
			if json.Unmarshal(line, &ev) == nil {
				ev.Seq = 0
				all = append(all, ev)
			}
		}
		whole, tracker := record(all)
		tree := treeOf(whole)
		r := tree.Result()
		if told := marshal(t, r); len(told) > 10*len(lines)+10_000 {
			t.Errorf("%d bytes of events make a transcript of %d", len(lines), len(told))
		}
		if deepest := depth(r.Items); deepest > 101 {
			t.Errorf("the deepest item is at %d", deepest)
		}
		ids := map[string]bool{}
		var walk func(items []api.DialogueItem)
		walk = func(items []api.DialogueItem) {
			for _, it := range items {
				if ids[it.ItemID] {
					t.Errorf("%q is there twice", it.ItemID)
				}
				ids[it.ItemID] = true
				if it.Tool != nil {
					walk(it.Tool.Items)
				}
			}
		}
		walk(r.Items)
		for _, ev := range tracker.Lost() {
			tree.Apply(ev)
			tracker.Apply(ev)
		}
		if tracker.Busy() {
			t.Errorf("still open: %s", briefly(tracker.Lost()))
		}
	})
}
