package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/testkit"
)

// mustBeQuiet fails if the command has printed the stacks of its goroutines.
func (s *sandbox) mustBeQuiet(t *testing.T) {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(s.dir, "stderr")); err != nil || strings.Contains(string(text), "goroutine ") {
		t.Errorf("on stderr: %.200s, %v", text, err)
	}
}

// TestQuitEndsFollowers: those that look on end by SIGQUIT as by any other signal, and what they looked
// at goes on.
func TestQuitEndsFollowers(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if o := s.run(t, "start", "-s", "a", "echo started; sleep 1001"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	logs := s.startLive(t, "logs", "-f", "a")
	logs.signal(t, unix.SIGQUIT)
	if status := wait(t, logs.cmd); status != 131 {
		t.Errorf("logs -f: status %d, want 131", status)
	}
	s.mustBeQuiet(t)
	if o := s.run(t, "ps", "-q"); strings.Count(o.stdout, "\n") != 1 {
		t.Errorf("afterwards runs %+v", o)
	}
}

// TestCtrlBackslash presses the key on a real terminal, which shows nothing but the key.
func TestCtrlBackslash(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if o := s.run(t, "start", "-s", "a", "echo started; sleep 1001"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	for _, c := range []struct {
		name  string
		args  []string
		until string // what must be seen before the key is pressed
	}{
		{"run", []string{"run", "echo started; sleep 1001"}, "started\n"},
		{"run -s", []string{"run", "-s", "b", "echo started; sleep 1001"}, "started\n"},
		{"logs", []string{"logs", "-f", "a"}, "started\n"},
		{"events", []string{"events", "-f", "--after", "1"}, "exec.running"},
		{"top", []string{"top", "--interval", "0.1"}, "sleep 1001"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &person{t: t, onTerminal: s.onTerminal(t, s.command(s.trl, c.args...))}
			p.sees(c.until)
			p.types("\x1c")
			rest, status := p.all(t)
			if rest = p.screen + rest; strings.Contains(rest, "goroutine") || status != 131 {
				t.Errorf("then printed %.200q, status %d, want 131", rest, status)
			}
		})
	}
	testkit.Eventually(t, "the commands of trl run are cancelled, and no other", func() bool {
		return strings.Count(s.run(t, "ps", "-q").stdout, "\n") == 1
	})
	if o := s.run(t, "ls", "-q"); strings.Count(o.stdout, "\n") != 2 { // a and b
		t.Errorf("sessions left: %s", o.stdout)
	}
}

// TestChatQuit: Ctrl-\ leaves a chat, also one whose agent works, and ends the agent.
func TestChatQuit(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	p := s.chats(t, "say begun; hang")
	p.sees(`\nbegun\n`)
	p.types("\x1c")
	if rest, status := p.all(t); strings.Contains(rest, "goroutine") || status != 131 {
		t.Errorf("then printed %.200q, status %d, want 131", rest, status)
	}
	if got := s.states(t); got != "ended" {
		t.Errorf("state %q", got)
	}
}
