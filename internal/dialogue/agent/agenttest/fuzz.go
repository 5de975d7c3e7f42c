package agenttest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// Fuzz passes any lines and calls to an agent; a line that begins with "!" is a call.
// Nothing panics, every step is well formed, and in the end everything can be closed.
// The recordings of the package are the corpus.
func Fuzz(f *testing.F, a agent.Agent, moves func(testing.TB, Recording) []Move) {
	for _, r := range Recordings(f, ".") {
		var seed bytes.Buffer
		for _, m := range moves(f, r) {
			if m.Call != nil {
				b, err := json.Marshal(m.Call)
				if err != nil {
					f.Fatal(err)
				}
				seed.WriteByte('!')
				m.Line = b
			}
			seed.Write(m.Line)
			seed.WriteByte('\n')
		}
		if seed.Len() < 16<<10 {
			f.Add(seed.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		k := NewTalk(t, a, agent.Options{})
		k.loose = true
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			line = bytes.TrimSuffix(line, []byte("\r"))
			var c agent.Call
			switch {
			case len(line) == 0:
			case line[0] == '!' && json.Unmarshal(line[1:], &c) == nil:
				if n := contents(c); n == 1 && (c.Send == nil || c.Send.ID != "") {
					k.Do(c)
				}
			default:
				k.Hear(line)
			}
		}
		k.End()
		k.Check()
	})
}

// contents counts the pointers of a call that are set.
func contents(c agent.Call) (n int) {
	for _, b := range []bool{c.Send != nil, c.Interrupt != nil, c.Respond != nil, c.Set != nil} {
		if b {
			n++
		}
	}
	return n
}
