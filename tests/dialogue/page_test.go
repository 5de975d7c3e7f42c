package dialogue_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// ids returns the ids of items.
func ids(items []api.DialogueItem) (list []string) {
	for _, it := range items {
		list = append(list, it.ItemID)
	}
	return list
}

// TestPages: pages have together what the whole transcript has, and nothing twice.
func TestPages(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := fake()
	p.Policy = allowAll
	d := w.create(p)
	w.says(d.DialogueID, everything)
	for range 3 {
		w.says(d.DialogueID, "say needle in the hay; tool Bash ls; subagent; ask Bash rm; say "+strings.Repeat("ä", 5000))
	}
	whole := w.transcript(d.DialogueID)
	if whole.TotalItems != len(whole.Items) || whole.HasBefore || whole.HasAfter {
		t.Errorf("whole: %d of %d items", len(whole.Items), whole.TotalItems)
	}
	page := func(q api.DialogueTranscriptParams) api.DialogueTranscriptResult {
		t.Helper()
		q.DialogueID = d.DialogueID
		return testkit.Must(w.DialogueTranscript(w.ctx, q))(t)
	}
	var backward []api.DialogueItem
	turns := map[string]bool{}
	for q := (api.DialogueTranscriptParams{Limit: 7}); ; q.Before = backward[0].ItemID {
		got := page(q)
		if got.TotalItems != len(whole.Items) || got.Seq != whole.Seq || got.HasAfter != (q.Before != "") || len(got.Notices) > 0 && got.HasAfter {
			t.Fatalf("%+v", got)
		}
		for _, turn := range got.Turns {
			turns[turn.TurnID] = true
		}
		backward = append(got.Items, backward...)
		if !got.HasBefore {
			break
		}
	}
	same(t, "pages from the end", backward, whole.Items)
	if len(turns) != len(whole.Turns) {
		t.Errorf("turns on pages: %v", turns)
	}
	var forward []api.DialogueItem
	for q := (api.DialogueTranscriptParams{Limit: 5, Around: whole.Items[0].ItemID}); ; q = (api.DialogueTranscriptParams{Limit: 5, After: forward[len(forward)-1].ItemID}) {
		got := page(q)
		forward = append(forward, got.Items...)
		if !got.HasAfter {
			break
		}
	}
	same(t, "pages from the beginning", forward, whole.Items)

	none := 0
	var agent *api.DialogueItem
	for i, it := range page(api.DialogueTranscriptParams{Limit: 1000, Depth: &none, CutBytes: 100}).Items {
		full := whole.Items[i]
		if it.ItemID != full.ItemID {
			t.Fatalf("item %d: %s, want %s", i, it.ItemID, full.ItemID)
		}
		if full.Tool != nil && len(full.Tool.Items) > 0 {
			agent = &whole.Items[i]
			if it.Tool.Items != nil || it.Tool.ItemsCount < len(full.Tool.Items) {
				t.Errorf("%+v", it.Tool)
			}
		}
		for n, part := range it.Parts {
			if text := full.Parts[n].Text; len(text) <= 100 && part.Cut != 0 || len(text) > 100 && (part.Cut != int64(len(text)) || !strings.HasPrefix(text, part.Text) || len(part.Text) > 100 || len(part.Text) < 97) {
				t.Errorf("part %+v", part)
			}
		}
	}
	sub := page(api.DialogueTranscriptParams{Scope: agent.ItemID})
	same(t, "a sub-transcript", ids(sub.Items), ids(agent.Tool.Items))
	last := whole.Items[len(whole.Items)-1]
	var text string
	limit := int64(999)
	for {
		r := testkit.Must(w.DialogueItem(w.ctx, api.DialogueItemParams{DialogueID: d.DialogueID, ItemID: last.ItemID, Field: "parts.0.text", Offset: int64(len(text)), Limit: &limit}))(t)
		if text += r.Data; r.Complete {
			if r.Total != int64(len(text)) {
				t.Errorf("%d bytes, want %d", len(text), r.Total)
			}
			break
		}
	}
	if text != last.Parts[0].Text {
		t.Errorf("the pieces of a text are %d bytes, want %d", len(text), len(last.Parts[0].Text))
	}
	inner := agent.Tool.Items[0]
	one := testkit.Must(w.DialogueItem(w.ctx, api.DialogueItemParams{DialogueID: d.DialogueID, ItemID: inner.ItemID}))(t)
	if one.Scope != agent.ItemID || one.Item == nil || one.Item.ItemID != inner.ItemID {
		t.Errorf("%+v", one)
	}
	_, err := w.DialogueItem(w.ctx, api.DialogueItemParams{DialogueID: d.DialogueID, ItemID: last.ItemID, Field: "parts.9.text"})
	testkit.WantError(t, err, api.CodeInvalidParams, "parts.9.text")
	_, err = w.DialogueTranscript(w.ctx, api.DialogueTranscriptParams{DialogueID: d.DialogueID, Before: "i9.9"})
	testkit.WantError(t, err, api.CodeInvalidParams, "i9.9")

	found := testkit.Must(w.DialogueSearch(w.ctx, api.DialogueSearchParams{DialogueID: d.DialogueID, Text: "NEEDLE in", Limit: 4}))(t)
	if len(found.Matches) != 4 || !found.More || found.Matches[0].Kind != "agent" || !strings.Contains(found.Matches[0].Snippet, "needle in the hay") {
		t.Fatalf("%+v", found)
	}
	rest := testkit.Must(w.DialogueSearch(w.ctx, api.DialogueSearchParams{DialogueID: d.DialogueID, Text: "needle in", Before: found.Matches[3].ItemID}))(t)
	if len(rest.Matches) != 2 || rest.More {
		t.Errorf("%+v", rest)
	}
	w.terminate(d.DialogueID)
}

// TestLines: lines in both directions, each byte once, with the events that each caused.
func TestLines(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := fake()
	p.Policy = allowAll
	d := w.create(p)
	w.says(d.DialogueID, "say one; ask Bash rm; garbage; say two")
	w.restart(nil)
	w.says(d.DialogueID, everything)
	w.terminate(d.DialogueID)

	caused := map[int64]int64{} // the offset of the line that caused an event, by its number
	for _, ev := range w.events(d.DialogueID) {
		if ev.Offset != nil {
			caused[ev.Seq] = *ev.Offset
		}
	}
	raw := map[string][]byte{"stdout": w.raw(d.DialogueID, 1, "stdout"), "stdin": w.raw(d.DialogueID, 1, "stdin")}
	read := func(q api.DialogueLinesParams) api.DialogueLinesResult {
		t.Helper()
		q.DialogueID, q.CutBytes = d.DialogueID, 1<<20
		return testkit.Must(w.DialogueLines(w.ctx, q))(t)
	}
	check := func(what string, lines []api.DialogueLine) {
		t.Helper()
		at := map[string]int64{}
		events, unparsed := map[int64]int64{}, 0
		for i, line := range lines {
			if line.Offset != at[line.Stream] || line.At == nil || i > 0 && line.At.Before(*lines[i-1].At) {
				t.Fatalf("%s: line %d is %+v after %v", what, i, line, at)
			}
			if text := string(bytes.TrimRight(raw[line.Stream][line.Offset:line.Offset+line.Bytes], "\r\n")); string(api.Data(line.Text, line.TextBase64)) != text && !line.Cut {
				t.Errorf("%s: line %d is %q, want %q", what, i, line.Text, text)
			}
			at[line.Stream] += line.Bytes
			for _, ev := range line.Events {
				events[ev.Seq] = line.Offset
			}
			if line.Unparsed != "" {
				unparsed++
			}
		}
		for stream, bytes := range raw {
			if at[stream] != int64(len(bytes)) && (at[stream] > 0 || what == "both") {
				t.Errorf("%s: %d bytes of %s, want %d", what, at[stream], stream, len(bytes))
			}
		}
		if at["stdout"] == 0 {
			return
		}
		if unparsed == 0 || len(events) != len(caused) {
			t.Errorf("%s: %d lines are unparsed, %d events, want %d", what, unparsed, len(events), len(caused))
		}
		for seq, offset := range caused {
			if events[seq] != offset {
				t.Errorf("%s: event %d is beside the line at %d, want %d", what, seq, events[seq], offset)
			}
		}
	}
	for _, stream := range []string{"stdout", "stdin", "both"} {
		var forward []api.DialogueLine
		for q := (api.DialogueLinesParams{Stream: stream, Limit: 9}); ; {
			r := read(q)
			forward = append(forward, r.Lines...)
			if q.FromOffset = r.NextOffset; r.Complete {
				break
			}
		}
		check(stream, forward)
		if stream == "both" && (forward[0].Stream != "stdin" || !strings.HasPrefix(forward[0].Type, "control")) {
			t.Errorf("it begins with %+v", forward[0])
		}
		var backward []api.DialogueLine
		end := int64(-1)
		for {
			r := read(api.DialogueLinesParams{Stream: stream, Limit: 7, BeforeOffset: &end})
			backward = append(r.Lines, backward...)
			for i := len(r.Lines) - 1; i >= 0; i-- {
				if stream == "both" && r.Lines[i].Stream == "stdout" || r.Lines[i].Stream == stream {
					end = r.Lines[i].Offset
				}
			}
			if end <= 0 {
				break
			}
		}
		same(t, stream+", backward", backward, forward)
	}
	if r := testkit.Must(w.DialogueLines(w.ctx, api.DialogueLinesParams{DialogueID: d.DialogueID, CutBytes: 10}))(t); len(r.Lines) == 0 || len(r.Lines[0].Text) != 10 || !r.Lines[0].Cut {
		t.Errorf("%+v", r)
	}
}
