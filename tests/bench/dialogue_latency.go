package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/claude"
)

// dialogueLatency measures the time from a line of an agent to the event at a subscriber. The line
// contains the time at which the agent wrote it. The floor is the same line of the same program in
// a session of its own, read with exec.stream.
func (b *bench) dialogueLatency() error {
	dir, err := os.MkdirTemp("", "trlbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "fakeagent")
	if out, err := exec.Command("go", "build", "-o", program, "./tests/dialogue/fakeagent").CombinedOutput(); err != nil {
		return fmt.Errorf("build the agent: %w: %s", err, out)
	}
	dialogue, err := b.openDialogue([]string{program, "-flat"}, dir)
	if err != nil {
		return err
	}
	defer dialogue.close()
	bare, err := b.openBare([]string{program, "-flat"}, dir)
	if err != nil {
		return err
	}
	defer bare.close()
	const rounds, lines = 20, 25
	var ours, floor samples
	for range rounds {
		for _, side := range []struct {
			clock *clock
			took  *samples
		}{{dialogue, &ours}, {bare, &floor}} {
			for range lines {
				took, err := side.clock.ask()
				if err != nil {
					return err
				}
				*side.took = append(*side.took, took)
			}
		}
	}
	b.report.latency("line to subscriber; floor: exec.stream", ours, floor, 0, 0)
	return nil
}

// clock is an agent that is asked what time it is.
type clock struct {
	conn, reader *wire
	question     func() []byte
	end          func() error
}

func (c *clock) close() {
	_ = c.end()
	c.reader.close()
}

var (
	nanoseconds = regexp.MustCompile(`"text\\?":\\?"(\d{19})\\?"`)
	turnIsOver  = regexp.MustCompile(`"type":"turn_ended"|\\"type\\":\\"result\\"`)
)

// ask asks what time it is, and returns how long ago that was when the answer came. It waits
// for the end of the turn: while it works an agent takes its time with what it is asked.
func (c *clock) ask() (took time.Duration, err error) {
	if err := c.conn.send(c.question()); err != nil {
		return 0, err
	}
	for answered := false; ; {
		line, err := c.reader.line()
		now := time.Now().UnixNano()
		if err != nil {
			return 0, err
		}
		if said := nanoseconds.FindSubmatch(line); said != nil && !answered {
			then, _ := strconv.ParseInt(string(said[1]), 10, 64)
			took, answered = time.Duration(now-then), true
		}
		if !turnIsOver.Match(line) {
			continue
		}
		if !answered {
			return 0, errors.New("the turn of an agent ended without an answer")
		}
		line, err = c.conn.line()
		if err == nil {
			err = decode("question", line, nil)
		}
		return took, err
	}
}

func (b *bench) openDialogue(argv []string, dir string) (*clock, error) {
	var info struct {
		DialogueID string `json:"dialogue_id"`
	}
	if err := b.conn.call("dialogue.create", object{"agent": "claude", "argv": argv, "working_dir": dir}, &info); err != nil {
		return nil, err
	}
	id := object{"dialogue_id": info.DialogueID}
	c := &clock{conn: b.conn, end: func() error {
		return b.conn.call("dialogue.terminate", object{"dialogue_id": info.DialogueID, "force": true, "forget": true}, nil)
	}}
	question, err := request("dialogue.send", object{"dialogue_id": info.DialogueID, "text": "now"})
	c.question = func() []byte { return question }
	if err == nil {
		c.reader, err = b.subscribe("dialogue.events", id)
	}
	if err != nil {
		_ = c.end()
		return nil, err
	}
	return c, nil
}

// openBare starts the agent as the dialogue does, and speaks to it as the dialogue would.
func (b *bench) openBare(argv []string, dir string) (*clock, error) {
	options := agent.Options{Argv: argv, WorkingDir: dir, Epoch: 1}
	argv, env, err := claude.Agent{}.Command(options)
	if err != nil {
		return nil, err
	}
	session, err := b.conn.create(object{"kind": "program", "command": argv, "env": env, "working_dir": dir})
	if err != nil {
		return nil, err
	}
	c := &clock{conn: b.conn, end: func() error { return b.conn.destroy(session) }}
	var info struct {
		ExecID string `json:"exec_id"`
	}
	err = b.conn.call("session.info", object{"session_id": session}, &info)
	if err == nil {
		c.reader, err = b.subscribe("exec.stream", object{"exec_id": info.ExecID})
	}
	protocol := claude.Agent{}.New(options)
	for _, line := range protocol.Start().Write {
		if err == nil {
			err = b.conn.call("exec.input", object{"exec_id": info.ExecID, "data": string(line)}, nil)
		}
	}
	if err != nil {
		_ = c.end()
		return nil, err
	}
	n := 0
	c.question = func() []byte {
		n++
		user := object{"role": "user", "content": "now"}
		line, _ := json.Marshal(object{"type": "user", "uuid": fmt.Sprintf("00000000-0000-4000-8000-%012d", n), "session_id": "", "message": user, "parent_tool_use_id": nil})
		question, _ := request("exec.input", object{"exec_id": info.ExecID, "data": string(line) + "\n"})
		return question
	}
	return c, nil
}

// subscribe opens a connection of its own for what a stream pushes.
func (b *bench) subscribe(method string, params object) (*wire, error) {
	w, err := dial(b.daemon.socket)
	if err != nil {
		return nil, err
	}
	if err := w.call(method, params, nil); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}
