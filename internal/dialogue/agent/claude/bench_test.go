package claude_test

import (
	"testing"

	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
	"github.com/trl-dev/trl/internal/dialogue/agent/claude"
)

// BenchmarkLines turns the lines of all recordings into events.
func BenchmarkLines(b *testing.B) {
	a := claude.Agent{}
	all := agenttest.Recordings(b, ".")
	var size int64
	for _, r := range all {
		for _, line := range r.Out {
			size += int64(len(line)) + 1
		}
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range all {
			p := a.New(optionsOf(r))
			p.Start()
			for _, line := range r.Out {
				p.Line(line)
			}
		}
	}
}
