package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/testkit"
)

// fillDisk makes the disk full for the daemon: it may write to no file behind its first
// byte. It returns how that is undone.
func (s *sandbox) fillDisk(t *testing.T) (empty func()) {
	t.Helper()
	pid := s.daemonPID(t)
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}, &before); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &before, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestChatAsksAgain: a question whose answer was refused still waits for one.
func TestChatAsksAgain(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	p := s.chats(t)
	p.sees(`> $`)
	p.types("ask Bash ls; say after\n")
	p.sees(`instead: $`)
	empty := s.fillDisk(t)
	p.types("y\n")
	p.sees(`! dialogue .*: .*file too large.*\n(.*\n)*\? The agent wants to use Bash: ls\n(  .*\n)*.*instead: $`)
	empty()
	p.types("y\n")
	if before := p.sees(`\nafter\n\n> $`); strings.Contains(before, "You said") {
		t.Errorf("an answer was sent as a message: %s", before)
	}
	p.types("\x04")
	p.leaves(0)
}

// TestChatWaitsForRoom: a full disk holds the agent up, and does not end it.
func TestChatWaitsForRoom(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	gate := filepath.Join(s.work, "g.open")
	l := s.startLive(t, "chat", "-p", "say started; gate g; say after", "--", "claude", "-gates", s.work)
	empty := s.fillDisk(t)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	said := func() string {
		text, err := os.ReadFile(filepath.Join(s.dir, "stderr"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	testkit.Eventually(t, "it tells that it waits", func() bool { return strings.Contains(said(), "! dialogue d-") })
	if text := said(); !strings.Contains(text, "its record cannot be written: ") || !strings.Contains(text, "it continues when the disk has room\n") {
		t.Errorf("it tells %s", text)
	}
	empty()
	rest, err := l.stdout.ReadString(0)
	if rest != "\nafter\n" {
		t.Errorf("then it said %q, %v", rest, err)
	}
	if status := wait(t, l.cmd); status != 0 || !strings.Contains(said(), "· the dialogue continues\n") {
		t.Errorf("status %d, and it tells %s", status, said())
	}
	// A person gets the same message, and can continue.
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	p := s.chats(t, "say begun; gate g; say after", "--", "claude", "-gates", s.work)
	p.sees(`\nbegun\n`)
	empty = s.fillDisk(t)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.sees(`! dialogue d-.*: its record cannot be written: .*; it continues when the disk has room\n`)
	empty()
	p.sees(`· the dialogue continues\n(.*\n)*after\n\n> $`)
	p.types("\x04")
	p.leaves(0)
}
