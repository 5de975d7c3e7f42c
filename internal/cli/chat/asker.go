package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// asker asks a person for the answer to a request of the agent, a line at a time. One goroutine
// uses it.
type asker struct {
	request api.DialogueRequest
	shown   time.Time         // when the person first saw the request
	again   bool              // the daemon refused an answer to it
	answers map[string]string // so far, by question
	editing bool              // the next line is the new input
}

// describe returns what the person must decide.
func (k *asker) describe(p *ui.Printer) string {
	r := k.request
	var b strings.Builder
	head := map[string]string{
		"question": "The agent asks", "plan": "The agent has a plan", "permission": "The agent wants to use " + ui.Printable(cmp.Or(r.Tool, "a tool")),
	}[r.Kind]
	about := cmp.Or(r.Subject, r.Title)
	if len(k.questions()) > 0 && r.Subject == "" {
		about = ""
	}
	b.WriteString(p.Paint(ui.Yellow, "? ") + p.Paint(ui.Bold, cmp.Or(head, "The agent asks: "+ui.Printable(r.Kind))) + ui.Prefixed(": ", ui.Clean(about)) + "\n")
	if r.Title != "" && r.Title != about {
		b.WriteString(ui.Indent("  ", ui.Clean(r.Title)) + "\n")
	}
	if r.Reason != "" {
		b.WriteString(p.Paint(ui.Dim, ui.Indent("  ", ui.Clean(r.Reason))) + "\n")
	}
	if len(r.Questions) == 0 {
		most := unfolded
		if r.Kind == "plan" { // a plan is shown whole
			most = 0
		}
		shown := []string{r.Subject, r.Title, r.Reason}
		diffs := replacements(r.Input)
		for _, d := range diffs {
			shown = append(shown, d.Old, d.Text)
		}
		for _, l := range ui.Lines(diffText(diffs, 2*most)) {
			b.WriteString("  " + ui.DiffLine(p, l) + "\n")
		}
		if more := inputText(r.Input, most, shown...); more != "" {
			b.WriteString(ui.Indent("  ", more) + "\n")
		}
	}
	if k.choice() {
		for i, o := range r.Options {
			b.WriteString(optionLine(p, i, o))
		}
	}
	return b.String()
}

// choice reports whether the agent offers other options than yes, always and no.
func (k *asker) choice() bool {
	seen := map[string]bool{"": true}
	for _, o := range k.request.Options {
		if seen[o.Kind] || o.Kind == "deny_always" {
			return true
		}
		seen[o.Kind] = true
	}
	return !k.offers("allow") || !k.offers("deny")
}

// offers reports whether the agent accepts an answer of a kind. A request without options
// accepts all kinds.
func (k *asker) offers(kind string) bool {
	return len(k.request.Options) == 0 || slices.ContainsFunc(k.request.Options, func(o api.DialogueOption) bool { return o.Kind == kind })
}

func optionLine(p *ui.Printer, i int, o api.DialogueOption) string {
	return fmt.Sprintf("  %d. %s%s\n", i+1, ui.Printable(o.Label), p.Paint(ui.Dim, ui.Prefixed(" – ", ui.Printable(o.Description))))
}

// questions returns the questions without an answer.
func (k *asker) questions() []api.DialogueQuestion {
	return slices.DeleteFunc(slices.Clone(k.request.Questions), func(q api.DialogueQuestion) bool {
		_, answered := k.answers[questionKey(q)]
		return answered
	})
}

func questionKey(q api.DialogueQuestion) string { return cmp.Or(q.ID, q.Question) }

// prompt returns the prompt for the next line.
func (k *asker) prompt(p *ui.Printer) string {
	if k.editing {
		return "  instead (a text, or all of the input as JSON): "
	}
	if open := k.questions(); len(open) > 0 {
		q := open[0]
		var b strings.Builder
		title := q.Question
		if q.Header != "" {
			title = q.Header + ": " + title
		}
		b.WriteString("  " + p.Paint(ui.Bold, ui.Printable(title)) + "\n")
		for i, o := range q.Options {
			b.WriteString(optionLine(p, i, o))
		}
		switch {
		case len(q.Options) == 0:
			b.WriteString("  your answer, or 0 for none: ")
		case q.Multiple:
			b.WriteString("  numbers with commas, or your own words, or 0 for none: ")
		default:
			b.WriteString("  number, or your own words, or 0 for none: ")
		}
		return b.String()
	}
	if k.request.Kind == "plan" && !k.choice() {
		return "  go ahead? y(es), n(o), or what to change: "
	}
	var words []string
	for _, w := range []struct {
		word    string
		offered bool
	}{
		{"number", k.choice()}, {"y(es)", k.offers("allow")}, {"a(lways)", k.offers("allow_always")},
		{"e(dit)", k.request.Editable}, {"n(o)", k.offers("deny")},
	} {
		if w.offered {
			words = append(words, w.word)
		}
	}
	return "  " + strings.Join(append(words, "or what to do instead: "), ", ")
}

// answer takes a line. If done, p is the answer; otherwise there is more to ask, and problem is
// what was wrong with the line, if anything.
func (k *asker) answer(line string) (p api.DialogueRespondParams, done bool, problem string) {
	p.RequestID = k.request.RequestID
	line = strings.TrimSpace(line)
	switch {
	case k.editing:
		return k.edited(p, line)
	case line == "":
		return p, false, ""
	case len(k.questions()) > 0:
		return k.replied(p, line)
	}
	if n, err := strconv.Atoi(line); err == nil && k.choice() {
		if n < 1 || n > len(k.request.Options) {
			return p, false, fmt.Sprintf("there is no %d", n)
		}
		p.Option = k.request.Options[n-1].ID
		return p, true, ""
	}
	switch strings.ToLower(line) {
	case "y", "yes":
		if !k.offers("allow") {
			return p, false, "the agent does not offer to allow this once"
		}
		p.Decision = "allow"
	case "a", "always":
		if !k.offers("allow_always") {
			return p, false, "the agent does not offer to remember this"
		}
		p.Decision, p.Remember = "allow", true
	case "e", "edit":
		if !k.request.Editable {
			return p, false, "the agent does not accept a changed input"
		}
		k.editing = true
		return p, false, ""
	case "n", "no":
		p.Decision = "deny"
	default:
		p.Decision, p.Message = "deny", line
	}
	return p, true, ""
}

// replied takes the answer to the first open question.
func (k *asker) replied(p api.DialogueRespondParams, line string) (api.DialogueRespondParams, bool, string) {
	if line == "0" {
		p.Decision = "deny"
		return p, true, ""
	}
	q := k.questions()[0]
	words := []string{line}
	if q.Multiple {
		words = strings.Split(line, ",")
	}
	for i, w := range words {
		words[i] = strings.TrimSpace(w)
		n, err := strconv.Atoi(words[i])
		if err != nil || len(q.Options) == 0 {
			continue
		}
		if n < 1 || n > len(q.Options) {
			return p, false, fmt.Sprintf("there is no %d", n)
		}
		words[i] = q.Options[n-1].Label
	}
	if k.answers == nil {
		k.answers = map[string]string{}
	}
	k.answers[questionKey(q)] = strings.Join(words, ", ")
	p.Answers = k.answers
	return p, len(k.questions()) == 0, ""
}

// edited takes the new input of the tool: all of it as JSON, or a text that replaces the
// subject of the request.
func (k *asker) edited(p api.DialogueRespondParams, line string) (api.DialogueRespondParams, bool, string) {
	if line == "" {
		k.editing = false
		return p, false, ""
	}
	p.Decision = "allow"
	if line[0] == '{' {
		if !json.Valid([]byte(line)) {
			return p, false, "this is not JSON"
		}
		p.Input = json.RawMessage(line)
		return p, true, ""
	}
	input, ok := replaced(k.request.Input, k.request.Subject, line)
	if !ok {
		return p, false, "give all of the input, as JSON: " + ui.Shorten(ui.Printable(string(k.request.Input)), 400)
	}
	p.Input = input
	return p, true, ""
}

// replaced returns the input with the field whose value is old set to text.
func replaced(input json.RawMessage, old, text string) (json.RawMessage, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil || old == "" {
		return nil, false
	}
	for name, raw := range fields {
		var value string
		if json.Unmarshal(raw, &value) != nil || value != old && path.Clean(value) != old { // the subject is a cleaned path
			continue
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(text) // a text always has a JSON form
		fields[name] = bytes.TrimSpace(b.Bytes())
		changed, err := json.Marshal(fields)
		return changed, err == nil
	}
	return nil, false
}
