package repo_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/api/spec"
)

// TestDialoguesPage compares the page on dialogues with the contract: its JSON is what the
// methods take, and it names every event, state, outcome and setting there is.
func TestDialoguesPage(t *testing.T) {
	page := read(t, "docs/dialogues.md")
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Error("docs/dialogues.md: has no JSON")
	}
	for _, b := range blocks {
		policy, create := decoded[api.DialoguePolicy](b[1]), decoded[api.DialogueCreateParams](b[1])
		switch {
		case create != nil && create.Check() == nil:
		case policy != nil && api.DialogueCreateParams{Agent: "claude", Policy: policy}.Check() == nil:
		default:
			t.Errorf("docs/dialogues.md: is neither a policy nor the parameters of dialogue.create:\n%s", b[1])
		}
	}
	var schema struct {
		Defs map[string]struct {
			Enum []string `json:"enum"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(spec.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{"DialogueEventType", "DialogueState", "TurnOutcome", "ItemKind", "MessageState", "DialogueFaultReason"} {
		if len(schema.Defs[set].Enum) == 0 {
			t.Errorf("%s: is no set of words", set)
		}
		for _, word := range schema.Defs[set].Enum {
			if !regexp.MustCompile(`\b` + word + `\b`).MatchString(page) {
				t.Errorf("docs/dialogues.md: does not name %s %s", set, word)
			}
		}
	}
	settings := regexp.MustCompile(`key:"(dialogues?_[a-z_]+)"`).FindAllStringSubmatch(read(t, "internal/config/config.go"), -1)
	if len(settings) == 0 {
		t.Error("internal/config/config.go: has no settings of dialogues")
	}
	for _, m := range settings {
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("docs/dialogues.md: does not name the setting %s", m[1])
		}
	}
}

// decoded is the text as a T, nil when it is none.
func decoded[T any](text string) *T {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	v := new(T)
	if d.Decode(v) != nil {
		return nil
	}
	return v
}
