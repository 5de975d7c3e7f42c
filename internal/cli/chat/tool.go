package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// The marks before the lines of a folded tool call.
const (
	toolMark   = "● "
	resultMark = "⎿ "
)

// unfolded is how many lines of a field of a tool's input a question shows.
const unfolded = 20

// partsText returns parts as text, with a placeholder for each that is not text.
func partsText(parts []api.DialoguePart) string {
	var b strings.Builder
	for _, p := range parts {
		if b.Len() > 0 && p.Type != "text" {
			b.WriteByte('\n')
		}
		switch p.Type {
		case "text":
			b.WriteString(p.Text)
		case "diff":
			fmt.Fprintf(&b, "[diff of %s]", p.Path)
		case "data":
			b.WriteString("[data]")
		default:
			b.WriteString("[" + strings.Join(slices.DeleteFunc([]string{p.Type, p.MediaType, p.Path}, func(s string) bool { return s == "" }), " ") + "]")
		}
	}
	return b.String()
}

// toolTitle returns the name of the tool and the subject of the call.
func toolTitle(t *api.DialogueToolCall) (name, about string) {
	about = t.Subject
	if about == "" {
		about = t.Title
	}
	return ui.Printable(t.Name), ui.Printable(strings.TrimSpace(about))
}

// toolDone reports whether a tool call has ended.
func toolDone(t *api.DialogueToolCall) bool {
	switch t.Status {
	case "completed", "failed", "cancelled", "lost":
		return true
	}
	return false
}

// toolOutcome returns the result of a tool call in a few words. They include an output of one
// line, unless the output is shown below.
func toolOutcome(t *api.DialogueToolCall, below bool) (words string, st ui.Style) {
	var parts []string
	st = ui.Dim
	switch {
	case t.Status == "cancelled" || t.Status == "lost":
		parts, st = append(parts, t.Status), ui.Yellow
	case t.ExitCode != nil:
		parts = append(parts, fmt.Sprintf("exit %d", *t.ExitCode))
	case t.Status == "failed":
		parts = append(parts, "failed")
	}
	if t.Status == "failed" || t.ExitCode != nil && *t.ExitCode != 0 {
		st = ui.Red
	}
	if added, removed, changed := diffSize(changes(t)); changed {
		parts = append(parts, fmt.Sprintf("+%d −%d", added, removed))
	}
	output := partsText(textParts(t.Output))
	line := ui.Printable(ui.FirstLine(output))
	switch n := ui.CountLines(strings.TrimSpace(output)); {
	case n == 1 && line != "" && !below:
		parts = append(parts, ui.Shorten(line, 70))
	case n > 1 && t.Status == "failed" && t.ExitCode == nil && !below:
		parts = append(parts, ui.Shorten(line, 70), fmt.Sprintf("%d lines", n))
	case n > 0:
		parts = append(parts, ui.Plural(n, "line", "lines"))
	case len(parts) == 0 || t.ExitCode != nil:
		parts = append(parts, "no output")
	}
	return strings.Join(parts, " · "), st
}

// textParts returns the parts that are not diffs; diffSize counts those.
func textParts(parts []api.DialoguePart) []api.DialoguePart {
	return slices.DeleteFunc(slices.Clone(parts), func(p api.DialoguePart) bool { return p.Type == "diff" })
}

// inputText returns the input of a tool without the values in shown: a field on each line, longer
// ones below their names. most bounds the lines of each field; 0 is all.
func inputText(input json.RawMessage, most int, shown ...string) string {
	dec := json.NewDecoder(strings.NewReader(string(input)))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return ""
	}
	var b strings.Builder
	for dec.More() { // in the agent's order
		key, err := dec.Token()
		var raw json.RawMessage
		if err != nil || dec.Decode(&raw) != nil {
			break
		}
		var value string
		if json.Unmarshal(raw, &value) != nil {
			value = string(raw)
		}
		if value == "" || slices.Contains(shown, value) {
			continue
		}
		all := ui.Lines(ui.Clean(value))
		if len(all) == 1 {
			fmt.Fprintf(&b, "%s: %s\n", ui.Printable(fmt.Sprint(key)), all[0])
			continue
		}
		fmt.Fprintf(&b, "%s:\n", ui.Printable(fmt.Sprint(key)))
		left := 0
		if most > 0 && len(all) > most {
			all, left = all[:most], len(all)-most
		}
		b.WriteString(ui.Indent("  ", strings.Join(all, "\n")) + "\n")
		if left > 0 {
			fmt.Fprintf(&b, "  … %s\n", ui.Plural(left, "line more", "lines more"))
		}
	}
	return b.String()
}
