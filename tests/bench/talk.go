package main

import (
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
type talk struct {
	between [][]byte // what is between the places where a number makes an id another one
	rounds  int
}

// ids are where ids begin that a process does not use twice.
var (
	ids      = regexp.MustCompile(`"uuid":"|toolu_|msg_|"(parent_)?task_id":"|"agent_id":"|"user_message_uuid":"`)
	sessions = regexp.MustCompile(`"session_id":"[^"]*"`)
)

func readTalk() (*talk, error) {
	var all []byte
	for _, name := range recordedTalks {
		text, err := os.ReadFile(filepath.Join("internal/dialogue/agent/claude/testdata/claude-2.1.325", name+".jsonl"))
		if err != nil {
			return nil, fmt.Errorf("recorded dialogues: %w", err)
		}
		all = append(all, bytes.TrimRight(text, "\n")...)
		all = append(all, '\n')
	}
	all = sessions.ReplaceAll(all, []byte(`"session_id":"one"`))
	t := &talk{}
	from := 0
	for _, at := range ids.FindAllIndex(all, -1) {
		t.between = append(t.between, all[from:at[1]])
		from = at[1]
	}
	t.between = append(t.between, all[from:])
	return t, nil
}

// next returns lines, without their ends, of at least so many bytes.
func (t *talk) next(size int) [][]byte {
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
