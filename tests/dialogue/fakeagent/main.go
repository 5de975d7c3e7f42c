// Command fakeagent speaks as coding agents do, and does on demand what the real ones
// cannot be made to do. It speaks Claude's stream-json, or the Agent Client Protocol with -acp.
//
// What it does is written in the messages that it is sent: see script.go. Flags of its own
// come before those of the agent that it stands for:
//
//	-seed TEXT     ids are made of it, so that two runs are equal byte for byte
//	-fail TEXT     writes it to stderr and exits with 1
//	-fail-resume   the same, when it is started with --resume
//	-silent        never answers
//	-slow DURATION waits before it answers the first time
//	-deaf          does not even read
//	-die-at N      ends when it has written N bytes, wherever that is in a line
//	-die-how HOW   kill9 (the default) or a number to exit with
//	-gates DIR     where the gates are that a script waits at
//	-tee FILE      appends to it what is written to stdout
//	-heard FILE    appends to it what is read from stdin
//	-flat          writes no partial messages, even with the flag that asks for them
package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings is what the command line says.
type settings struct {
	seed                            string
	seeded                          bool
	fail                            string
	failResume, silent, deaf, flat  bool
	slow                            time.Duration
	dieAt                           int64
	dieHow, gates, tee, heard       string
	acp                             bool
	partials, replay, ask           bool
	resume, session, model, permits string
}

// known are the flags of Claude's that it takes, and whether they have a value.
var known = map[string]bool{
	"-p": false, "--print": false, "--verbose": false, "--include-partial-messages": false, "--replay-user-messages": false,
	"--fork-session": false, "--forward-subagent-text": false, "--include-hook-events": false, "--strict-mcp-config": false,
	"--input-format": true, "--output-format": true, "--permission-prompt-tool": true, "--permission-mode": true,
	"--permission-prompts": true, "--model": true, "--resume": true, "--session-id": true, "--max-turns": true,
	"--allowedTools": true, "--disallowedTools": true, "--settings": true, "--setting-sources": true, "--add-dir": true,
}

// forever waits. A select without cases would be taken for a deadlock where nothing else is
// going on.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

func main() {
	s := parse(os.Args[1:])
	a := newAgent(s)
	switch {
	case s.fail != "", s.failResume && s.resume != "":
		leave(1, "%s", s.fail)
	case s.deaf:
		forever()
	}
	terminated := make(chan os.Signal, 4)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // the real one lives on without a reader
	go func() {
		for sig := range terminated {
			switch {
			case a.stubborn.Load():
			case sig == syscall.SIGINT:
				os.Exit(0)
			default:
				os.Exit(128 + int(sig.(syscall.Signal)))
			}
		}
	}()
	go a.turns()
	a.read(os.Stdin)
	forever() // turns ends the process
}

// parse reads the command line, and refuses what the real one refuses.
func parse(args []string) settings {
	s := settings{dieAt: -1, dieHow: "kill9", permits: "default", model: "claude-fake-1"}
	values := map[string]string{}
	next := func(i *int) string {
		if *i++; *i >= len(args) {
			leave(1, "error: option '%s' argument missing", args[*i-1])
		}
		return args[*i]
	}
	for i := 0; i < len(args); i++ {
		switch flag := args[i]; flag {
		case "-seed":
			s.seed = next(&i)
		case "-fail":
			s.fail = next(&i)
		case "-fail-resume":
			s.failResume = true
		case "-silent":
			s.silent = true
		case "-deaf":
			s.deaf = true
		case "-flat":
			s.flat = true
		case "-slow":
			s.slow, _ = time.ParseDuration(next(&i))
		case "-die-at":
			s.dieAt, _ = strconv.ParseInt(next(&i), 10, 64)
		case "-die-how":
			s.dieHow = next(&i)
		case "-gates":
			s.gates = next(&i)
		case "-tee":
			s.tee = next(&i)
		case "-heard":
			s.heard = next(&i)
		case "-acp":
			s.acp = true
		default:
			name, value, joined := strings.Cut(flag, "=")
			valued, ok := known[name]
			if !ok {
				leave(1, "error: unknown option '%s'", flag)
			}
			if valued && !joined {
				value = next(&i)
			}
			values[name] = value
		}
	}
	_, s.partials = values["--include-partial-messages"]
	s.partials = s.partials && !s.flat
	_, s.replay = values["--replay-user-messages"]
	s.ask = values["--permission-prompt-tool"] == "stdio"
	s.resume, s.session = values["--resume"], values["--session-id"]
	if s.model == "" || values["--model"] != "" {
		s.model = values["--model"]
	}
	if m := values["--permission-mode"]; m != "" {
		s.permits = m
	}
	if s.seeded = s.seed != ""; !s.seeded {
		s.seed = rand.Text()
	}
	if !s.acp && s.fail == "" {
		s.checkClaude(values)
	}
	return s
}

func (s *settings) checkClaude(values map[string]string) {
	modes := []string{"default", "manual", "acceptEdits", "auto", "bypassPermissions", "dontAsk", "plan"}
	_, verbose := values["--verbose"]
	_, short := values["-p"]
	_, long := values["--print"]
	var st syscall.Stat_t
	switch {
	case !short && !long || values["--input-format"] != "stream-json" || values["--output-format"] != "stream-json":
		leave(1, "Error: Input must be provided either through stdin or as a prompt argument when using --print")
	case !verbose:
		leave(1, "Error: When using --print, --output-format=stream-json requires --verbose")
	case !slices.Contains(modes, s.permits):
		leave(1, "error: option '--permission-mode <mode>' argument '%s' is invalid.", s.permits)
	case syscall.Fstat(0, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFCHR && !s.deaf:
		leave(1, "Error: Input must be provided either through stdin or as a prompt argument when using --print")
	}
}

// leave ends the process with a line on stderr.
func leave(code int, format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(code)
}
