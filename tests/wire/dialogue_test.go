package wire_test

import (
	"encoding/json"
	"strings"

	"github.com/trl-dev/trl/api"
)

// dialogue receives pushes of the stream of dialogue.events that is bound to name until
// each line of what is wanted has come, in this order. What an agent says besides is
// passed over. Numbers must grow, and be those of the events.
func (s *script) dialogue(name string, want []string) {
	s.t.Helper()
	id := s.vars[name]
	for _, line := range want {
		if end, ok := strings.CutPrefix(line, "end "); ok {
			line = end
		} else {
			line = `{"stream_id":"$` + name + `","seq":"*number","type":"dialogue","dialogue_id":"*string","event":` + line + `}`
		}
		var passed []string
		for {
			got := s.nextTold(id)
			why := s.match(line, got)
			if why == "" {
				break
			}
			if passed = append(passed, why+": "+got); strings.Contains(got, `"type":"end"`) {
				s.fatalf("want %s\ngot\n%s", line, strings.Join(passed, "\n"))
			}
		}
	}
}

// nextTold receives the next push of a dialogue.
func (s *script) nextTold(id string) string {
	s.t.Helper()
	if _, known := s.told[id]; !known {
		s.told[id] = 0
	}
	line := s.next(func(line string) bool { return isPushOf(line, id) })
	var ev api.StreamEvent
	if err := json.Unmarshal([]byte(line), &ev); err != nil {
		s.fatalf("%s: %s", line, err)
	}
	last := ev.Type == api.EventEnd
	if ev.Seq < s.told[id] || !last && (ev.Seq == s.told[id] || ev.Event == nil || ev.Event.Seq != ev.Seq) {
		s.fatalf("want a push behind %d, got %s", s.told[id], line)
	}
	s.told[id] = ev.Seq
	return line
}
