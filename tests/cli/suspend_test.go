package cli_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/testkit"
)

// TestChatSuspend: Ctrl-Z stops `trl chat` if a shell with job control can continue it. Below a script,
// which would wait forever, it does nothing, and typing goes on.
func TestChatSuspend(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	for _, c := range []struct {
		name  string
		cmd   []string
		stops bool
	}{
		{"job control", []string{s.trl, "chat"}, true}, // its parent is the leader of the session
		{"script", []string{"/bin/sh", "-c", "trl chat; exit $?"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := s.command(c.cmd[0], c.cmd[1:]...)
			cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "NO_COLOR=1", "TERM=xterm")
			p := &person{t: t, onTerminal: s.onTerminal(t, cmd)}
			p.sees(`\x1b\[\?2004h(.|\n)*> `)
			p.types("say alm\x1a")
			if c.stops {
				testkit.Eventually(t, "trl is stopped", func() bool {
					out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(p.pid)).Output()
					return strings.HasPrefix(string(out), "T")
				})
				if err := unix.Kill(p.pid, unix.SIGCONT); err != nil {
					t.Fatal(err)
				}
				p.sees(`\x1b\[\?2004h(.|\n)*> say alm`) // it has the terminal again
			}
			p.types("ost\r")
			p.sees(`(\n|\x1b\[K)almost\n`)
			p.types("\x04")
			p.sees(`to continue: trl chat --resume d-`)
			p.leaves(0)
		})
	}
}

// TestChatSlowStart: a person learns that the agent is starting, and can leave before it has started.
func TestChatSlowStart(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	p := s.chats(t, "--", "claude", "-silent") // it never says that it is ready
	p.sees(`· the agent is starting\n`)
	p.types("\x03")
	p.sees(`· ending the agent as soon as it has started; Ctrl-C again leaves at once\n`)
	p.types("\x03")
	p.leaves(130)
}
