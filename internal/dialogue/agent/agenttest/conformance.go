package agenttest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// LinesOfOthers passes lines that other hosts, modes and agents got to an agent. They must not
// confuse it: every step is well formed, and everything that a line opened can be closed.
func LinesOfOthers(t *testing.T, a agent.Agent) {
	files, _ := filepath.Glob(filepath.Join("..", "agenttest", "testdata", "others", "*.jsonl"))
	if len(files) == 0 {
		t.Fatal("no recordings")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			k := NewTalk(t, a, agent.Options{WorkingDir: "/home/user/project"})
			for line := range bytes.Lines(text) {
				k.Hear(bytes.TrimRight(line, "\r\n"))
			}
			k.End()
			if k.Tracker.Busy() {
				t.Errorf("something is open: %+v", k.Tracker.Lost())
			}
		})
	}
}

// Replay is how the recordings of a package are played again.
type Replay struct {
	Moves   func(testing.TB, Recording) []Move
	Options func(testing.TB, Recording) agent.Options
}

// RPC is the Replay of agents that speak JSON-RPC.
var RPC = Replay{RPCMoves, RPCOptions}

// UniqueIDs plays some recordings of the package in three processes of one dialogue: a later
// process makes no id that an earlier one made.
func UniqueIDs(t *testing.T, a agent.Agent, replay Replay) {
	seen := map[string]int{}
	recordings := Recordings(t, ".")
	for epoch := 1; epoch <= 3; epoch++ {
		for _, r := range recordings[:20%len(recordings)+1] {
			o := replay.Options(t, r)
			o.Epoch = epoch
			k := NewTalk(t, a, o)
			k.loose = true
			k.Play(replay.Moves(t, r))
			for _, ev := range k.Events {
				for _, id := range idsIn(ev) {
					if was := seen[id]; was != 0 && was != epoch {
						t.Fatalf("%s: processes %d and %d both made %s", r.Name, was, epoch, id)
					}
					seen[id] = epoch
				}
			}
		}
	}
}

func idsIn(ev api.DialogueEvent) (ids []string) {
	switch {
	case ev.Item != nil && ev.Item.NativeID != "":
		ids = append(ids, ev.Item.ItemID)
	case ev.Task != nil:
		ids = append(ids, ev.Task.TaskID)
	case ev.Request != nil:
		ids = append(ids, ev.Request.RequestID)
	case ev.Turn != nil:
		ids = append(ids, ev.Turn.TurnID)
	}
	return ids
}
