package agent_test

import (
"encoding/json"
"syscall"
"testing"
"github.com/trl-dev/trl/internal/dialogue/agent"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// recordedTalks are runs of Claude Code: plain answers, thinking, commands, subagents that are
// waited for, nested and in the background.
var recordedTalks = []string{"a_plain", "a_think", "b_bash", "b_bash_fail", "c_subagent", "d_nested", "d_background", "h_multiturn"}

// talk is a conversation without an end, made of recorded ones. Each time they come with ids
// of their own: lines that were seen before would be left out.
type longTalk struct {
	between [][]byte // what is between the places where a number makes an id another one
	rounds  int
}

// ids are where ids begin that a process does not use twice.
var (
	ids      = regexp.MustCompile(`"uuid":"|toolu_|msg_|"(parent_)?task_id":"|"agent_id":"|"user_message_uuid":"`)
	sessions = regexp.MustCompile(`"session_id":"[^"]*"`)
)

func readTalk() (*longTalk, error) {
	var all []byte
	for _, name := range recordedTalks {
		text, err := os.ReadFile(filepath.Join("testdata/claude-2.1.325", name+".jsonl"))
		if err != nil {
			return nil, fmt.Errorf("recorded dialogues: %w", err)
		}
		all = append(all, bytes.TrimRight(text, "\n")...)
		all = append(all, '\n')
	}
	all = sessions.ReplaceAll(all, []byte(`"session_id":"one"`))
	t := &longTalk{}
	from := 0
	for _, at := range ids.FindAllIndex(all, -1) {
		t.between = append(t.between, all[from:at[1]])
		from = at[1]
	}
	t.between = append(t.between, all[from:])
	return t, nil
}

// next returns lines, without their ends, of at least so many bytes.
func (t *longTalk) next(size int) [][]byte {
	var text []byte
	for len(text) < size {
		t.rounds++
		for n, piece := range t.between {
			if n > 0 {
				text = strconv.AppendInt(text, int64(t.rounds), 10)
				text = append(text, '-')
			}
			text = append(text, piece...)
		}
	}
	return bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
}

func cpuNow() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func TestZZSpeed(t *testing.T) {
	if os.Getenv("SPEED") == "" {
		t.Skip()
	}
	k, err := readTalk()
	if err != nil {
		t.Fatal(err)
	}
	a, _ := agent.Find("claude")
	p := a.New(agent.Options{Epoch: 1})
	p.Start()
	var floor, parse float64
	var size, events int
	for range 10 {
		round := k.next(5_000_000)
		if os.Getenv("SPEED") == "floor" {
			at := cpuNow()
			for _, l := range round {
				var m map[string]any
				json.Unmarshal(l, &m)
			}
			floor += cpuNow() - at
		}
		at := cpuNow()
		for _, l := range round {
			size += len(l) + 1
			events += len(p.Line(l).Events)
		}
		d := cpuNow() - at
		parse += d
		t.Logf("round %.1f MB/s", 5/d)
	}
	t.Logf("SPEED parse %.1f MB/cpu s, floor %.1f, events %d", float64(size)/1e6/parse, float64(size)/1e6/floor, events)
}
