package agent_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// fuzz gives an agent any lines, and any calls in between: a line that begins with "!" is
// a call. Whatever they are, nothing panics, every line leaves a trace, every event is
// whole, and in the end everything can be closed.
func fuzz(f *testing.F, name string, moves func(testing.TB, recording) []move) {
	for _, r := range recordings(f, name) {
		var seed bytes.Buffer
		for _, m := range moves(f, r) {
			if m.call != nil {
				b, err := json.Marshal(m.call)
				if err != nil {
					f.Fatal(err)
				}
				seed.WriteByte('!')
				m.line = b
			}
			seed.Write(m.line)
			seed.WriteByte('\n')
		}
		if seed.Len() < 16<<10 {
			f.Add(seed.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		k := newTalk(t, name, agent.Options{})
		k.loose = true
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			line = bytes.TrimSuffix(line, []byte("\r"))
			var c agent.Call
			switch {
			case len(line) == 0:
			case line[0] == '!' && json.Unmarshal(line[1:], &c) == nil:
				if n := set(c); n == 1 && (c.Send == nil || c.Send.ID != "") {
					k.do(c)
				}
			default:
				k.hear(line)
			}
		}
		k.end()
		k.check()
	})
}

func set(c agent.Call) (n int) {
	for _, b := range []bool{c.Send != nil, c.Interrupt != nil, c.Respond != nil, c.Set != nil} {
		if b {
			n++
		}
	}
	return n
}

func FuzzClaude(f *testing.F) { fuzz(f, "claude", claudeMoves) }
