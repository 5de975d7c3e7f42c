package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/claude"
	"github.com/trl-dev/trl/internal/dialogue/transcript"
)

// dialogues measures what is made of the lines of an agent: how fast they become events
// and a transcript, what is kept of them, and when a subscriber has one.
func (b *bench) dialogues() error {
	if err := b.dialogueParse(); err != nil {
		return err
	}
	return b.dialogueLatency()
}

const (
	// A transcript of 100 MB is taken in rounds, each beside its floor.
	dialogueRounds = 10
	dialogueRound  = 10_000_000
)

// reading is what takes in the lines of an agent.
type reading struct {
	protocol agent.Protocol
	tracker  *transcript.Tracker
	tree     *transcript.Tree
	events   int
}

// dialogueParse takes in a long conversation with Claude Code, made of recorded ones. The
// floor is encoding/json, which decodes each line into a map and does nothing with it.
func (b *bench) dialogueParse() error {
	talk, err := readTalk()
	if err != nil {
		return err
	}
	r := &reading{protocol: claude.Agent{}.New(agent.Options{Epoch: 1}), tracker: transcript.NewTracker(), tree: transcript.NewTree()}
	r.protocol.Start()
	var parse, reduce, floor []spent
	var size, lines int
	for range dialogueRounds {
		round := talk.next(dialogueRound)
		lines += len(round)
		for _, line := range round {
			size += len(line) + 1
		}
		floor = append(floor, measured(func() { err = decodeAll(round) }))
		if err != nil {
			return err
		}
		told := make([]api.DialogueEvent, 0, 4*len(round))
		parse = append(parse, measured(func() {
			for _, line := range round {
				told = append(told, r.protocol.Line(line).Events...)
			}
		}))
		reduce = append(reduce, measured(func() { r.take(told) }))
	}
	perRound := float64(size) / dialogueRounds
	b.report.speed("lines of an agent; floor: encoding/json", paceOf(perRound, parse), paceOf(perRound, floor), 0,
		fmt.Sprintf("%d bytes and %.2f events a line", size/lines, float64(r.events)/float64(lines)))
	for _, part := range []struct {
		name string
		took []spent
	}{{"events from them", parse}, {"events into the transcript", reduce}} {
		rate := paceOf(float64(r.events)/dialogueRounds, part.took)
		remark := fmt.Sprintf("per CPU second %.0f k", rate.cpu/1e3)
		b.report.add(row{Name: part.name, Unit: "events/s", Value: rate.wall, Remark: remark}, fmt.Sprintf("%.0f k/s", rate.wall/1e3), "", "")
	}
	return b.dialogueMemory(r, size)
}

func decodeAll(lines [][]byte) error {
	for _, line := range lines {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("recorded line %.80q: %w", line, err)
		}
	}
	return nil
}

// take puts events into the record, as a dialogue does.
func (r *reading) take(told []api.DialogueEvent) {
	for _, ev := range told {
		r.events++
		ev.Seq, ev.Epoch = int64(r.events), 1
		r.tree.Apply(ev)
		r.tracker.Apply(ev)
		r.take(r.tracker.Follow())
	}
}

// dialogueMemory says what each part holds of so many bytes of lines, by letting go of one
// after the other. The floor of the tree is its transcript as text.
func (b *bench) dialogueMemory(r *reading, size int) error {
	began := time.Now()
	result := r.tree.Result()
	took := time.Since(began)
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if len(result.Turns) == 0 || r.tracker.Busy() {
		return fmt.Errorf("the recorded dialogues have %d turns and end in the middle: %v", len(result.Turns), r.tracker.Busy())
	}
	length := float64(len(text))
	text, result = nil, api.DialogueTranscriptResult{}
	held := heap()
	for _, part := range []struct {
		name  string
		floor float64
		drop  func()
	}{
		{"the tree; floor: as JSON", length, func() { r.tree = nil }},
		{"the tracker", 0, func() { r.tracker = nil }},
		{"the protocol", 0, func() { r.protocol = nil }},
	} {
		part.drop()
		left := heap()
		b.report.size(fmt.Sprintf("of %d MB, in %s", size/1e6, part.name), float64(max(0, held-left)), part.floor, 0, "")
		held = left
	}
	runtime.KeepAlive(r)
	b.report.note("their transcript is made in", "%.3f s", took.Seconds())
	return nil
}
