package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A script is a message: commands with semicolons between them. What is no command is
// answered.
//
//	say TEXT, think TEXT        a text of the model's
//	tool NAME SUBJECT           a call of a tool, with its result
//	ask NAME SUBJECT            the same, but it asks whether it may
//	argv, env NAME, pid, cwd    says what it was started with
//	now                         says what time it is, in nanoseconds
//	gate NAME                   waits until the test opens the gate
//	split GATE TEXT             says it, and waits at the gate in the middle of the line
//	silence DURATION, hang      says nothing for a while, or until it is interrupted
//	lines N, flood SIZE [LINE]  says many things: N small ones, or SIZE bytes in lines
//	line SIZE                   says something in a line of exactly that many bytes
//	raw TEXT, crlf TEXT, blank  lines as they should not be
//	garbage, unknown-type       the same
//	stderr TEXT                 writes there
//	exit N, kill9               ends; exit-mid-line and kill9-mid-line in the middle of one
//	spawn WORDS                 starts a program in a session of its own, which stays;
//	spawn-holding WORDS         one that also holds stdout open
//	stop-reading-stdin, ignore-term, ignore-eof
//
// Each protocol knows more of them.
var (
	errInterrupted     = errors.New("interrupted")
	errInterruptedTool = errors.New("interrupted for tool use")
)

// failure is a turn that goes wrong.
type failure struct{ text string }

func (f failure) Error() string { return f.text }

func (a *agent) run(script string) error {
	for part := range strings.SplitSeq(script, ";") {
		command, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
		select {
		case <-a.stopped():
			return errInterrupted
		default:
		}
		known, err := a.voice.do(command, rest)
		if !known {
			known, err = a.do(command, rest)
		}
		if !known {
			known, err = a.misbehave(command, rest)
		}
		if err != nil {
			return err
		}
		if !known {
			a.voice.say("You said: " + strings.TrimSpace(part))
		}
	}
	return nil
}

// do does what is harmless.
func (a *agent) do(command, rest string) (known bool, err error) {
	name, more, _ := strings.Cut(rest, " ")
	switch command {
	case "say":
		a.voice.say(rest)
	case "think":
		a.voice.think(rest)
	case "tool":
		a.voice.tool(name, more)
	case "ask":
		err = a.voice.ask(name, more)
	case "argv":
		a.voice.say(string(encode(os.Args)))
	case "env":
		a.voice.say(os.Getenv(rest))
	case "pid":
		a.voice.say(strconv.Itoa(os.Getpid()))
	case "now":
		a.voice.say(strconv.FormatInt(time.Now().UnixNano(), 10))
	case "cwd":
		dir, _ := os.Getwd()
		a.voice.say(dir)
	case "gate":
		err = a.gate(rest)
	case "split":
		line := append(encode(a.voice.text(more)), '\n')
		a.out.write(line[:len(line)/2])
		err = a.gate(name)
		a.out.write(line[len(line)/2:])
	case "silence":
		d, _ := time.ParseDuration(rest)
		select {
		case <-time.After(d):
		case <-a.stopped():
			err = errInterrupted
		}
	case "hang":
		<-a.stopped()
		err = errInterrupted
	case "lines":
		n, _ := strconv.Atoi(rest)
		for i := range n {
			a.out.line(a.voice.text(fmt.Sprintf("line %d of %d", i+1, n)))
		}
	case "flood":
		a.flood(size(name), size(more))
	case "line":
		a.out.write(append(a.exactly(size(rest)), '\n'))
	case "stderr":
		fmt.Fprintln(os.Stderr, rest)
	default:
		return false, nil
	}
	return true, err
}

// misbehave does what real agents do only by accident.
func (a *agent) misbehave(command, rest string) (known bool, err error) {
	switch command {
	case "raw":
		a.out.write([]byte(rest + "\n"))
	case "crlf":
		a.out.write(append(encode(a.voice.text(rest)), "\r\n"...))
	case "blank":
		a.out.write([]byte("\n\r\n"))
	case "garbage":
		a.out.write([]byte("{\"type\": \x00\xff not JSON at all\n"))
	case "unknown-type":
		a.out.line(obj{"type": "from_the_future", "uuid": a.uuid(), "what": "nobody knows"})
	case "exit":
		die(rest)
	case "kill9":
		die("kill9")
	case "exit-mid-line":
		a.half()
		die(rest)
	case "kill9-mid-line":
		a.half()
		die("kill9")
	case "spawn":
		a.spawn(rest, nil)
	case "spawn-holding":
		a.spawn(rest, os.Stdout)
	case "stop-reading-stdin":
		a.deafened.Store(true)
	case "ignore-term":
		a.stubborn.Store(true)
	case "ignore-eof":
		a.patient.Store(true)
	default:
		return false, nil
	}
	return true, nil
}

// half writes the first half of a line.
func (a *agent) half() {
	line := encode(a.voice.text("the end of this is never written"))
	a.out.write(line[:len(line)/2])
}

// spawn starts a program that does not end with the agent, and says its pid.
func (a *agent) spawn(words string, stdout *os.File) {
	args := strings.Fields(words)
	cmd := exec.Command(args[0], args[1:]...)
	if stdout != nil {
		cmd.Stdout = stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		a.voice.say("spawn: " + err.Error())
		return
	}
	go func() { _ = cmd.Wait() }()
	a.voice.say(fmt.Sprintf("spawned %d", cmd.Process.Pid))
}

// flood says all bytes in lines of about that many.
func (a *agent) flood(all, line int) {
	if line == 0 {
		line = 64 << 10
	}
	filler := strings.Repeat("x", line)
	for i := 0; i*line < all; i++ {
		a.out.line(a.voice.text(fmt.Sprintf("%08d %s", i, filler)))
	}
}

// exactly is a line of that many bytes, without its end.
func (a *agent) exactly(bytesOf int) []byte {
	mark := "@"
	line := encode(a.voice.text("exactly " + mark))
	filler := bytes.Repeat([]byte("y"), max(bytesOf-len(line)+len(mark), 0))
	return bytes.Replace(line, []byte("exactly "+mark), append([]byte("exactly "), filler...), 1)
}

// size reads 12, 64KiB, 50MB, 64MiB+1.
func size(text string) int {
	text, plus, _ := strings.Cut(text, "+")
	factor := 1
	for _, unit := range []struct {
		name  string
		bytes int
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"KB", 1000}, {"MB", 1000_000}} {
		if number, ok := strings.CutSuffix(text, unit.name); ok {
			text, factor = number, unit.bytes
		}
	}
	n, _ := strconv.Atoi(text)
	more, _ := strconv.Atoi(plus)
	return n*factor + more
}
