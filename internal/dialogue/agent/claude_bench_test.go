package agent_test

import (
	"testing"

	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// BenchmarkClaude is the way from lines to events, over all recordings.
func BenchmarkClaude(b *testing.B) {
	a, _ := agent.Find("claude")
	all := recordings(b, "claude")
	var size int64
	for _, r := range all {
		for _, line := range r.out {
			size += int64(len(line)) + 1
		}
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range all {
			p := a.New(claudeOptions(r))
			p.Start()
			for _, line := range r.out {
				p.Line(line)
			}
		}
	}
}
