package dialogue

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestEventsThatFollow: a request of the agent changes the state of the dialogue, and so does its
// answer. The change is published right behind the request, before the next event of the same line.
func TestEventsThatFollow(t *testing.T) {
	s := recorded(t)
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	d.mu.Lock()
	p.opening.to(openAnswered, "")
	d.mu.Unlock()
	s.play(d, p, s.calls[1].Offset)
	s.play(d, p, s.calls[1].Offset+1)
	var got []string
	for line := range strings.Lines(eventsIn(t, dir)) {
		var ev api.DialogueEvent
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimSpace(string(ev.Type)+" "+string(ev.State)))
	}
	for _, want := range [][]string{
		{"request_opened", "state requires_action", "item"},
		{"request_closed", "state running", "item"},
	} {
		i := slices.Index(got, want[0])
		if i < 0 || i+len(want) > len(got) || !slices.Equal(got[i:i+len(want)], want) {
			t.Errorf("want %q in a row in\n%s", want, strings.Join(got, "\n"))
		}
	}
}
