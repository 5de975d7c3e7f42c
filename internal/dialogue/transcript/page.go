package transcript

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
)

// defaultPage is the size of a page, if the caller gives none.
const defaultPage = 100

// Page returns a page of the transcript.
func (t *Tree) Page(p api.DialogueTranscriptParams) (api.DialogueTranscriptResult, error) {
	if !p.Paged() {
		r := t.Result()
		if p.Depth != nil {
			o := t.outline()
			r.Items = o.grow(o.root, *p.Depth)
		}
		r.TotalItems = len(r.Items)
		cutItems(r.Items, p.CutBytes)
		return r, nil
	}
	o := t.outline()
	all := o.root
	if p.Scope != "" {
		call, err := t.find("scope", p.Scope)
		if err != nil {
			return api.DialogueTranscriptResult{}, err
		}
		all = o.below[call]
	}
	from, to, err := t.bounds(all, p)
	if err != nil {
		return api.DialogueTranscriptResult{}, err
	}
	depth := -1
	if p.Depth != nil {
		depth = *p.Depth
	}
	r := api.DialogueTranscriptResult{
		Seq: t.seq, State: t.state(t.waiting()), Items: o.grow(all[from:to], depth), Usage: t.usage.total(), Ended: t.ended, Notices: []api.DialogueNotice{},
		TotalItems: len(all), HasBefore: from > 0, HasAfter: to < len(all),
	}
	if !r.HasAfter {
		r.Notices = append(r.Notices, lastNotices(t.notices)...)
	}
	on := idsOn(r.Items)
	r.Turns = kept(t.turns.all, func(turn api.DialogueTurn) bool { return turn.Outcome == "" || on[turn.TurnID] })
	r.Tasks = kept(t.tasks.all, func(task api.DialogueTask) bool { return task.Status == taskRunning || on[task.ToolCallID] })
	r.Requests = kept(t.requests.all, func(q api.DialogueRequest) bool { return q.How == "" || on[q.ToolCallID] })
	cutItems(r.Items, p.CutBytes)
	return r, nil
}

// bounds returns which of the items are on the page.
func (t *Tree) bounds(all []*item, p api.DialogueTranscriptParams) (from, to int, err error) {
	size := p.Limit
	if size == 0 {
		size = defaultPage
	}
	position := func(field, id string) int {
		if err != nil {
			return 0
		}
		i := slices.IndexFunc(all, func(it *item) bool { return it.whole.ItemID == id })
		if i < 0 {
			err = api.InvalidParam(field, "there is no item %.100q in this scope", id)
		}
		return i
	}
	switch {
	case p.Before != "":
		to = position("before", p.Before)
		from = max(0, to-size)
	case p.After != "":
		from = position("after", p.After) + 1
		to = min(len(all), from+size)
	case p.Around != "":
		from = max(0, position("around", p.Around)-size/2)
		to = min(len(all), from+size)
		from = max(0, to-size)
	default:
		to = len(all)
		from = max(0, to-size)
	}
	return from, to, err
}

// find returns the item with that id.
func (t *Tree) find(field, id string) (*item, error) {
	it := t.items[id]
	if it == nil {
		return nil, api.InvalidParam(field, "there is no item %.100q", id)
	}
	return it, nil
}

// idsOn has the ids of items, at all levels, and of their turns.
func idsOn(items []api.DialogueItem) map[string]bool {
	on := map[string]bool{}
	var add func(items []api.DialogueItem)
	add = func(items []api.DialogueItem) {
		for i := range items {
			on[items[i].ItemID], on[items[i].TurnID] = true, true
			if items[i].Tool != nil {
				add(items[i].Tool.Items)
			}
		}
	}
	add(items)
	delete(on, "")
	return on
}

func kept[T any](all []T, keep func(T) bool) []T {
	list := []T{}
	for _, one := range all {
		if keep(one) {
			list = append(list, one)
		}
	}
	return list
}

// cutItems shortens the texts of items to most bytes; 0: to any length.
func cutItems(items []api.DialogueItem, most int) {
	if most == 0 {
		return
	}
	for i := range items {
		it := &items[i]
		it.Parts = cutParts(it.Parts, most)
		if it.Tool == nil {
			continue
		}
		it.Tool.Output = cutParts(it.Tool.Output, most)
		for _, f := range []struct {
			name  string
			value *json.RawMessage
		}{{"input", &it.Tool.Input}, {"effective_input", &it.Tool.EffectiveInput}, {"structured", &it.Tool.Structured}} {
			if n := len(*f.value); n > most {
				if it.Tool.Cut == nil {
					it.Tool.Cut = map[string]int64{}
				}
				it.Tool.Cut[f.name], *f.value = int64(n), nil
			}
		}
		cutItems(it.Tool.Items, most)
	}
}

// cutParts returns a copy of parts whose texts have at most that many bytes. Half an image is of no
// use, so longer data is omitted.
func cutParts(parts []api.DialoguePart, most int) []api.DialoguePart {
	parts = slices.Clone(parts)
	for i := range parts {
		p := &parts[i]
		for _, text := range []*string{&p.Text, &p.Old} {
			if len(*text) > most {
				p.Cut = max(p.Cut, int64(len(*text)))
				*text = wholeRunes(*text, most)
			}
		}
		if len(p.DataBase64) > most {
			p.Cut, p.DataBase64 = max(p.Cut, int64(len(p.DataBase64))), ""
		}
		if len(p.Data) > most {
			p.Cut, p.Data = max(p.Cut, int64(len(p.Data))), nil
		}
	}
	return parts
}

// wholeRunes returns at most the first n bytes of a text, without half a character at the end.
func wholeRunes(text string, n int) string {
	if n >= len(text) {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// Item returns one item, or a piece of one of its fields.
func (t *Tree) Item(p api.DialogueItemParams) (api.DialogueItemResult, error) {
	it, err := t.find("item_id", p.ItemID)
	if err != nil {
		return api.DialogueItemResult{}, err
	}
	now := it.current()
	r := api.DialogueItemResult{Seq: t.seq, Scope: it.scope, Offset: p.Offset, Complete: true}
	if p.Field == "" {
		if below := t.outline().below[it]; len(below) > 0 {
			now.Tool.ItemsCount = t.outline().count(below)
		}
		r.Item = &now
		return r, nil
	}
	text, ok := field(now, strings.Split(p.Field, "."))
	if !ok {
		return r, api.InvalidParam("field", "item %q has no %.100q; fields are such as parts.0.text, tool.input, tool.output.0.text", p.ItemID, p.Field)
	}
	if r.Total = int64(len(text)); p.Offset > r.Total {
		return r, api.InvalidParam("offset", "%d is beyond the end, which is %d", p.Offset, r.Total)
	}
	limit := int64(1 << 20)
	if p.Limit != nil {
		limit = *p.Limit
	}
	r.Data = wholeRunes(text[p.Offset:], int(min(limit, r.Total-p.Offset)))
	r.Complete = p.Offset+int64(len(r.Data)) == r.Total
	return r, nil
}

// field returns the text of a field of an item.
func field(it api.DialogueItem, path []string) (string, bool) {
	switch {
	case len(path) == 3 && path[0] == "parts":
		return fieldOfPart(it.Parts, path[1:])
	case it.Tool == nil:
	case len(path) == 4 && path[0] == "tool" && path[1] == "output":
		return fieldOfPart(it.Tool.Output, path[2:])
	case len(path) == 2 && path[0] == "tool":
		value, ok := map[string]json.RawMessage{"input": it.Tool.Input, "effective_input": it.Tool.EffectiveInput, "structured": it.Tool.Structured}[path[1]]
		return string(value), ok
	}
	return "", false
}

func fieldOfPart(parts []api.DialoguePart, path []string) (string, bool) {
	n, err := strconv.Atoi(path[0])
	if err != nil || n < 0 || n >= len(parts) {
		return "", false
	}
	value, ok := map[string]string{"text": parts[n].Text, "old": parts[n].Old, "data_base64": parts[n].DataBase64, "data": string(parts[n].Data)}[path[1]]
	return value, ok
}

// Search returns the items that have a text, the newest first.
func (t *Tree) Search(p api.DialogueSearchParams) (api.DialogueSearchResult, error) {
	r := api.DialogueSearchResult{Seq: t.seq, Matches: []api.DialogueMatch{}}
	limit := p.Limit
	if limit == 0 {
		limit = defaultPage
	}
	end := len(t.order)
	if p.Before != "" {
		before, err := t.find("before", p.Before)
		if err != nil {
			return r, err
		}
		end = slices.Index(t.order, before)
	}
	wanted := strings.ToLower(p.Text)
	for i := end - 1; i >= 0; i-- {
		it := t.order[i]
		if t.retracted(it) {
			continue
		}
		snippet, found := searchItem(it.current(), wanted)
		if !found {
			continue
		}
		if len(r.Matches) == limit {
			r.More = true
			break
		}
		r.Matches = append(r.Matches, api.DialogueMatch{ItemID: it.whole.ItemID, Scope: it.scope, TurnID: it.whole.TurnID, Kind: it.whole.Kind, Snippet: snippet})
	}
	return r, nil
}

// searchItem finds a text in lower case in an item.
func searchItem(it api.DialogueItem, wanted string) (snippet string, found bool) {
	try := func(text string) bool {
		if !found && len(text) >= len(wanted) {
			snippet, found = around(text, wanted)
		}
		return found
	}
	for _, part := range it.Parts {
		if try(part.Text) || try(part.Old) || try(part.Path) {
			return snippet, true
		}
	}
	if it.Tool == nil {
		return "", false
	}
	if try(it.Tool.Subject) || try(it.Tool.Title) || try(it.Tool.Name) || try(string(it.Tool.Input)) {
		return snippet, true
	}
	for _, part := range it.Tool.Output {
		if try(part.Text) || try(part.Old) || try(part.Path) {
			return snippet, true
		}
	}
	return "", false
}

// besideMatch is how many bytes before and after a match are in its snippet.
const besideMatch = 60

// around returns the text around the first match, on one line.
func around(text, wanted string) (string, bool) {
	lower := strings.ToLower(text)
	at := strings.Index(lower, wanted)
	if at < 0 {
		return "", false
	}
	if len(lower) != len(text) { // lower case letters of another length: positions differ
		text = lower
	}
	from, to := max(0, at-besideMatch), min(len(text), at+len(wanted)+besideMatch)
	snippet := strings.Join(strings.Fields(strings.ToValidUTF8(text[from:to], "")), " ")
	if from > 0 {
		snippet = "…" + snippet
	}
	if to < len(text) {
		snippet += "…"
	}
	return snippet, true
}
