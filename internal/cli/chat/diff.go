package chat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

const (
	// shownDiff is how many lines of a folded diff are shown.
	shownDiff = 12
	// mostCompared bounds the pairs of lines that a diff compares, and so its time and memory: a few
	// milliseconds and 4 MB.
	mostCompared = 1 << 20
)

// changedLine is a line that one of two texts lacks.
type changedLine struct {
	added bool
	text  string
}

// changedLines returns the lines that differ between two texts, in order, with the removed lines of
// a place before the added ones. Of texts that differ too much to compare, it returns all lines
// between the common beginning and the common end.
func changedLines(before, after string) []changedLine {
	a, b := ui.Lines(before), ui.Lines(after)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var changed []changedLine
	if len(b) > 0 && len(a) <= mostCompared/len(b) {
		i, j, common, width := 0, 0, commonLines(a, b), len(b)+1
		for i < len(a) && j < len(b) {
			switch {
			case a[i] == b[j]:
				i, j = i+1, j+1
			case common[(i+1)*width+j] >= common[i*width+j+1]:
				changed = append(changed, changedLine{false, a[i]})
				i++
			default:
				changed = append(changed, changedLine{true, b[j]})
				j++
			}
		}
		a, b = a[i:], b[j:]
	}
	for _, l := range a {
		changed = append(changed, changedLine{false, l})
	}
	for _, l := range b {
		changed = append(changed, changedLine{true, l})
	}
	return changed
}

// commonLines returns how many lines a[i:] and b[j:] have in common, in the same order, at
// i*(len(b)+1)+j. Within mostCompared the shorter text has at most 1024 lines, so 16 bits suffice.
func commonLines(a, b []string) []uint16 {
	width := len(b) + 1
	common := make([]uint16, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			at := i*width + j
			if a[i] == b[j] {
				common[at] = common[at+width+1] + 1
			} else {
				common[at] = max(common[at+width], common[at+1])
			}
		}
	}
	return common
}

// changes returns the diffs of a tool call: those that the agent reports, or else what the input of
// an editing tool replaces. Claude Code reports none.
func changes(t *api.DialogueToolCall) []api.DialoguePart {
	if _, _, any := diffSize(t.Output); any || t.Status != "completed" {
		return t.Output
	}
	if t.EffectiveInput != nil {
		return replacements(t.EffectiveInput)
	}
	return replacements(t.Input)
}

// replacements returns what the input of an editing tool replaces in a file; nil for other input.
func replacements(input json.RawMessage) []api.DialoguePart {
	type edit struct {
		Old *string `json:"old_string"`
		New *string `json:"new_string"`
	}
	var in struct {
		Path string `json:"file_path"`
		edit
		Edits []edit `json:"edits"`
	}
	if json.Unmarshal(input, &in) != nil || in.Path == "" {
		return nil
	}
	var parts []api.DialoguePart
	for _, e := range append(in.Edits, in.edit) {
		if e.Old != nil && e.New != nil {
			parts = append(parts, api.DialoguePart{Type: "diff", Path: in.Path, Old: *e.Old, Text: *e.New})
		}
	}
	return parts
}

// diffSize counts the lines that diffs add and remove.
func diffSize(parts []api.DialoguePart) (added, removed int, any bool) {
	for _, p := range parts {
		if p.Type != "diff" {
			continue
		}
		any = true
		for _, l := range changedLines(p.Old, p.Text) {
			if l.added {
				added++
			} else {
				removed++
			}
		}
	}
	return added, removed, any
}

// diffText returns the changed lines of diffs.
func diffText(parts []api.DialoguePart, most int) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Type != "diff" {
			continue
		}
		fmt.Fprintf(&b, "%s\n", ui.Printable(p.Path))
		var all []string
		for _, l := range changedLines(p.Old, p.Text) {
			sign := "- "
			if l.added {
				sign = "+ "
			}
			all = append(all, sign+ui.Clean(l.text))
		}
		if most > 0 && len(all) > most {
			all = append(all[:most], fmt.Sprintf("… %s", ui.Plural(len(all)-most, "line more", "lines more")))
		}
		b.WriteString(strings.Join(all, "\n") + "\n")
	}
	return b.String()
}
