package soak_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

var aborts = flag.Int("aborts", 150, "commands that TestRandomAborts stops in each shell")

// TestRandomAborts stops commands at a random moment of their first 30 ms, by
// timeout and by cancel in turn. No shell may be lost by it, nor what it knows.
func TestRandomAborts(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "5", "--log-level", "error"))
	service := daemon.Client(t)
	for _, shell := range shells(t, t.TempDir()) {
		t.Run(shell[strings.LastIndexByte(shell, '/')+1:], func(t *testing.T) {
			commands, set := posixCommands, "X=kept"
			if strings.HasSuffix(shell, "fish") {
				commands, set = fishCommands, "set -g X kept"
			}
			abortMany(t, service, shell, set, commands)
		})
	}
}

var posixCommands = []string{
	"while :; do :; done", "while :; do sleep 0.01; done", "sleep 0.01; sleep 0.01; echo x",
	"i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done", "(while :; do :; done)", "x=$(sleep 1)",
	"f() { f2; }; f2() { while :; do /bin/true; done; }; f", "sleep 0.015", "sleep 1 | sleep 1", "yes >/dev/null",
	"true", "echo a; echo b >&2", "cat /dev/zero | head -c 10000000 >/dev/null",
	"for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done", "wait", "read x", "sleep 1 & wait", "cat <<E\n$(sleep 1)\nE",
}

var fishCommands = []string{
	"while true; end", "while true; sleep 0.01; end", "sleep 0.01; sleep 0.01; echo x", "set x (sleep 1)",
	"function f; while true; /bin/true; end; end; f", "sleep 0.015", "sleep 1 | sleep 1", "yes >/dev/null",
	"true", "echo a; echo b >&2", "cat /dev/zero | head -c 10000000 >/dev/null", "for i in (seq 9); /bin/true; end", "read x",
}

func abortMany(t *testing.T, service api.Service, shell, set string, commands []string) {
	session := create(t, service, api.SessionCreateParams{Shell: shell}).SessionID
	defer destroy(t, service, session)
	run(t, service, session, set)
	stopped := 0
	for i := 0; i < *aborts && !t.Failed(); i++ {
		command := commands[rand.IntN(len(commands))]
		moment := time.Duration(1000+rand.IntN(29000)) * time.Microsecond
		var r api.ExecResult
		var err error
		if i%2 == 0 {
			r, err = runTimed(service, session, command, moment)
		} else {
			r, err = runCancelled(service, session, command, moment)
		}
		if err != nil {
			t.Fatalf("%q at %s: %s", command, moment, err)
		}
		if r.TimedOut || r.Cancelled {
			stopped++
		}
		if r.ShellRestarted {
			t.Errorf("%q at %s: the shell was replaced: %+v", command, moment, r.ExecOutcome)
		}
		check := run(t, service, session, "echo $X")
		if check.Stdout != "kept\n" || check.Stderr != "" || check.ExitCode != 0 || check.ShellRestarted {
			t.Errorf("after %q at %s: stdout %q, stderr %q, exit_code %d, shell_restarted %t",
				command, moment, check.Stdout, check.Stderr, check.ExitCode, check.ShellRestarted)
		}
	}
	t.Logf("%d of %d commands were stopped", stopped, *aborts)
}

func runTimed(service api.Service, session, command string, after time.Duration) (api.ExecResult, error) {
	return service.ExecRun(context.Background(), api.ExecParams{SessionID: session, Command: command, TimeoutS: new(after.Seconds())})
}

// runCancelled cancels what runs in the session, after a while and then again and
// again: on a busy machine the command may not have begun when the first one comes.
func runCancelled(service api.Service, session, command string, after time.Duration) (api.ExecResult, error) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for wait := after; ; wait = 5 * time.Millisecond {
			select {
			case <-ended:
				return
			case <-time.After(wait):
			}
			if _, err := service.ExecCancel(context.Background(), api.ExecCancelParams{SessionID: session}); err == nil {
				return
			}
		}
	}()
	r, err := service.ExecRun(context.Background(), api.ExecParams{SessionID: session, Command: command})
	close(ended)
	<-stopped // it must not hit the next command
	return r, err
}
