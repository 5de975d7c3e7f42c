package agent_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// What another host, another mode or another agent was told must not confuse a protocol:
// every line leaves a trace, and everything that it opened can be closed.
func TestLinesOfOthers(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join("testdata", "others", "*.jsonl"))
	if len(files) == 0 {
		t.Fatal("no recordings")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range agent.Names() {
			t.Run(name+"/"+filepath.Base(file), func(t *testing.T) {
				k := newTalk(t, name, agent.Options{WorkingDir: "/home/user/project"})
				for line := range bytes.Lines(text) {
					k.hear(bytes.TrimRight(line, "\r\n"))
				}
				for _, ev := range k.tracker.Lost() {
					k.record(ev)
				}
				if k.tracker.Busy() {
					t.Errorf("something is open: %+v", k.tracker.Lost())
				}
			})
		}
	}
}
