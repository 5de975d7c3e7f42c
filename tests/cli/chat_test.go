package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// addAgent puts the fake agent on the PATH of the sandbox, as claude.
func (s *sandbox) addAgent(t *testing.T) {
	t.Helper()
	for i, kv := range s.env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			s.env[i] = "PATH=" + filepath.Dir(trltest.FakeAgent(t)) + ":" + path
		}
	}
}

// person sits at a terminal and talks with an agent.
type person struct {
	*onTerminal
	t      *testing.T
	screen string // what came and was not looked at yet
}

// chats starts `trl chat args...` on a terminal that only shows lines. Package attach has the
// tests of the line editor.
func (s *sandbox) chats(t *testing.T, args ...string) *person {
	t.Helper()
	cmd := s.command(s.trl, append([]string{"chat"}, args...)...)
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "NO_COLOR=1", "TERM=dumb")
	return &person{t: t, onTerminal: s.onTerminal(t, cmd)}
}

// sees waits for text that matches, and returns what was on the screen before it.
func (p *person) sees(pattern string) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.After(patience)
	for {
		if at := re.FindStringIndex(p.screen); at != nil {
			before := p.screen[:at[0]]
			p.screen = p.screen[at[1]:]
			return before
		}
		select {
		case more, ok := <-p.seen:
			if !ok {
				p.t.Fatalf("the talk is over, and there was no %q:\n%s", pattern, p.screen)
			}
			p.screen += more
		case <-late:
			p.t.Fatalf("there was no %q:\n%s", pattern, p.screen)
		}
	}
}

func (p *person) types(text string) {
	p.t.Helper()
	if _, err := p.master.Write([]byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

// leaves waits for the end.
func (p *person) leaves(status int) {
	p.t.Helper()
	rest, got := p.all(p.t)
	if got != status {
		p.t.Errorf("status %d, want %d\n%s", got, status, p.screen+rest)
	}
}

func agentSandbox(t *testing.T) *sandbox {
	t.Helper()
	s := newSandbox(t)
	s.addAgent(t)
	return s
}

// states are those of all dialogues.
func (s *sandbox) states(t *testing.T) string {
	t.Helper()
	o := s.run(t, "dialogue", "ls", "-a")
	var states []string
	for line := range strings.Lines(o.stdout) {
		states = append(states, strings.Split(line, "\t")[3])
	}
	return strings.Join(states, " ")
}

// sent waits until a message is in the record: a Ctrl-C throws away what the terminal has
// not passed on yet.
func (s *sandbox) sent(t *testing.T, dialogue, text string) {
	t.Helper()
	testkit.Eventually(t, "the message is sent", func() bool {
		return strings.Contains(s.run(t, "dialogue", "events", dialogue).stdout, text)
	})
}

func TestChat(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	p := s.chats(t, "say first")
	p.sees(`^d-[0-9a-f]{10}  claude · .*\n\nfirst\n\n> $`)
	p.types("think hm; tool Bash make test; say second\n")
	p.sees(`\n✻ hm\n\n● Bash  make test\n  ⎿ done: make test\n\nsecond\n\n> $`)
	p.types("two \\\n")
	p.sees(`\n\. $`)
	p.types("lines\n")
	p.sees(`You said: two \nlines\n\n> $`)
	p.types("pasted\nin one\npiece\n")
	p.sees(`You said: pasted\nin one\npiece\n\n> $`)
	p.types("say " + strings.Repeat("x", 5000) + "\n")
	p.sees(`! the line is longer than the terminal accepts, and was not sent\n· hint: .*\n\n> $`)
	if err := unix.Kill(p.pid, unix.SIGCONT); err != nil { // as after Ctrl-Z
		t.Fatal(err)
	}
	p.sees(`\n> $`)
	p.types("\x03")
	p.sees(`· Ctrl-C again leaves\n\n> $`)
	p.types("say third\n")
	p.sees(`\nthird\n\n> $`)
	p.types("\x03")
	p.sees(`· Ctrl-C again leaves\n\n> $`)
	p.types("\x04") // Ctrl-D
	p.sees(`trl: to continue: trl chat --resume d-`)
	p.leaves(0)
	if got := s.states(t); got != "ended" {
		t.Errorf("state %q", got)
	}
}

func TestChatAsks(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	p := s.chats(t, "--allow", "Bash(git *)")
	p.sees(`> $`)
	p.types("ask Bash git log; ask Bash rm -rf x; ask Bash ls; say after\n")
	if before := p.sees(`\? The agent wants to use Bash: rm -rf x\n(  .*\n)*  y\(es\).*instead: $`); strings.Contains(before, "wants") {
		t.Errorf("it asked about what a rule allows: %s", before)
	}
	p.types("not that\n")
	p.sees(`⎿ Bash rm -rf x: failed · not that\n● Bash  ls\n`)
	p.sees(`instead: $`)
	p.types("e\n")
	p.sees(`JSON\): $`)
	p.types("ls -la\n")
	p.sees(`"command":"ls -la".*\n\nafter\n\n> $`)
	p.types("question Which?\n")
	p.sees(`Which\?\n  1\. Red.*\n  2\. Blue.*\n.*none: $`)
	p.types("2\n")
	p.sees(`Blue(.*\n)*> $`)
	// Another client may answer first.
	p.types("ask Bash id; say done\n")
	p.sees(`instead: $`)
	o := s.run(t, "dialogue", "respond", strings.TrimSpace(s.run(t, "dialogue", "ls", "-q").stdout), "allow")
	if o.status != 0 {
		t.Errorf("%+v", o)
	}
	p.sees(`· cli@[^ ]+ has answered: allow\n(.*\n)*done\n\n> $`)
	p.types("\x04")
	p.leaves(0)
}

// TestChatACP: what the agent does not offer is not offered to the person.
func TestChatACP(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	p := s.chats(t, "--agent", "acp", "ask Bash ls; say after", "--", "claude", "-acp")
	p.sees(`\? The agent wants to use .*\n(  .*\n)*  y\(es\), a\(lways\), n\(o\), or what to do instead: $`)
	p.types("e\n")
	p.sees(`! the agent does not accept a changed input\n  y\(es\), .*instead: $`)
	p.types("a\n")
	p.sees(`done with always: ls\n\nafter\n\n> $`)
	p.types("\x04")
	p.leaves(0)
}

// TestChatKeepsWhatWasTyped: what was typed before a person leaves is sent, also when the
// daemon has to be waited for.
func TestChatKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	p := s.chats(t, "--keep", "--name", "kept")
	p.sees(`> $`)
	if err := unix.Kill(s.daemonPID(t), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.types("say the last word\n\x04")
	p.leaves(0)
	s.sent(t, "kept", "say the last word")
}

func TestChatInterrupt(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	p := s.chats(t, "--keep", "--name", "kept")
	p.sees(`> $`)
	p.types("stream the beginning\n")
	p.sees(`\nthe beginning$`)
	p.types("\x03")
	p.sees(`interrupting; Ctrl-C again leaves\n(.*\n)*! interrupted\n\n> $`)
	// What is typed while it works is queued.
	p.types("say begun; hang\n")
	p.sees(`\nbegun\n$`)
	p.types("say queued\n")
	p.sees(`say queued\n$`)
	s.sent(t, "kept", "say queued")
	p.types("\x03")
	p.sees(`! interrupted\n(.*\n)*queued\n\n> $`)
	p.types("\x03")
	p.sees(`to continue: trl chat --dialogue d-`)
	p.leaves(0)
	if got := s.states(t); got != "idle" {
		t.Errorf("state %q", got)
	}
}

// TestChatTwice: a second Ctrl-C leaves an agent that does not stop.
func TestChatTwice(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	p := s.chats(t, "--name", "deaf", "ignore-term; ignore-eof; stop-reading-stdin; say begun")
	p.sees(`\nbegun\n\n> $`)
	p.types("the last that it may hear; silence 1h\n")
	s.sent(t, "deaf", "the last")
	p.types("\x03")
	p.sees(`again leaves\n$`)
	p.types("\x03")
	p.sees(`ending the agent; Ctrl-C leaves without waiting`)
	p.types("\x03") // and a third does not wait for its end
	p.leaves(130)
	if o := s.run(t, "dialogue", "stop", "--all", "--force"); o.status != 0 {
		t.Errorf("%+v", o)
	}
}

// TestChatComesBack: what a dialogue is at is shown to who joins it, and asked once.
// TestChatLimits: the limits of the flags reach the session of the agent.
func TestChatLimits(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.addAgent(t)
	if o := s.run(t, "chat", "-p", "--keep", "--name", "kept", "--lifetime", "2h", "--idle-timeout", "30m", "say hello"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	o := s.run(t, "ls", "--json")
	if !strings.Contains(o.stdout, "lived for 2h0m0s (lifetime_s)") {
		t.Errorf("%+v", o)
	}
	for _, args := range [][]string{{"--idle-timeout", "1m", "x"}, {"--dialogue", "kept", "--lifetime", "1m", "x"}, {"--resume", "kept", "--idle-timeout", "1m", "x"}} {
		if o := s.run(t, append([]string{"chat", "-p"}, args...)...); o.status != 2 {
			t.Errorf("%q: %+v", args, o)
		}
	}
	if o := s.run(t, "chat", "-p", "--name", "short", "--lifetime", "1", "silence 60s; say hello"); o.status != 1 || !strings.Contains(o.stderr, "lived for 1s (lifetime_s)") {
		t.Errorf("%+v", o)
	}
	s.run(t, "dialogue", "kill", "--all")
}

func TestChatComesBack(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	p := s.chats(t, "--keep", "--name", "kept", "say before")
	p.sees(`before\n\n> $`)
	p.types("say begun; ask Bash rm x; say after\n")
	p.sees(`instead: $`)
	if err := unix.Kill(p.pid, unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.leaves(129)
	p = s.chats(t, "--dialogue", "kept")
	if before := p.sees(`\n> say begun; .*\n\nbegun\n\n● Bash  rm x\n`); strings.Contains(before, "say before") {
		t.Errorf("it shows old turns: %s", before)
	}
	p.sees(`\? The agent wants to use Bash: rm x\n(  .*\n)*.*instead: $`)
	p.types("y\n")
	p.sees(`⎿ Bash rm x: .*\n\nafter\n\n> $`)
	// The daemon may be replaced meanwhile.
	if o := s.run(t, "upgrade"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	p.types("say still there\n")
	p.sees(`\nstill there\n\n> $`)
	p.types("exit 7\n")
	p.sees(`the agent has ended unexpectedly, with status 7\n(.*\n)*trl: to continue: trl chat --resume d-`)
	p.leaves(1)
	p = s.chats(t, "--resume", "kept")
	p.sees(`> $`)
	p.types("say back\n")
	p.sees(`\nback\n\n> $`)
	p.types("\x04")
	p.leaves(0)
}

// TestChatSignals: a script's Ctrl-C interrupts the agent, whose end is waited for.
func TestChatSignals(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	l := s.startLive(t, "chat", "-p", "say started; hang")
	l.signal(t, unix.SIGINT)
	if status := wait(t, l.cmd); status != 130 {
		t.Errorf("status %d, want 130", status)
	}
	l.mustBeGone(t)
	if got := s.states(t); got != "ended" {
		t.Errorf("state %q", got)
	}
	if o := s.run(t, "dialogue", "events", strings.TrimSpace(s.run(t, "dialogue", "ls", "-aq").stdout)); !strings.Contains(o.stdout, "interrupted") {
		t.Errorf("the turn was not interrupted: %s", o.stdout)
	}
}

// TestChatIntoClosedPipe: the agent also ends when its answer has no reader.
func TestChatIntoClosedPipe(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	o := s.finish(t, s.command("/bin/sh", "-c", "{ trl chat -p 'lines 20000'; echo $? > status; } | head -n 1; cat status"))
	if o.stdout != "line 1 of 20000\n141\n" {
		t.Errorf("%+v", o)
	}
	if got := s.states(t); got != "ended" {
		t.Errorf("state %q", got)
	}
}

// TestChatJSONWithoutTheDaemon: nothing is printed for that the daemon is away, and back.
func TestChatJSONWithoutTheDaemon(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	cmd := s.command(s.trl, "chat", "-p", "--json", "gate g; say after", "--", "claude", "-gates", s.work)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the agent works", func() bool { _, err := os.Stat(filepath.Join(s.work, "g.reached")); return err == nil })
	vanish(t, s)
	if err := os.WriteFile(filepath.Join(s.work, "g.open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if status := wait(t, cmd); status != 0 {
		t.Errorf("status %d", status)
	}
	var seq int64
	for line := range strings.Lines(out.String()) {
		var push api.StreamEvent
		if err := json.Unmarshal([]byte(line), &push); err != nil || push.Event == nil || push.Event.Seq <= seq {
			t.Fatalf("after event %d: %s, %v", seq, line, err)
		}
		seq = push.Event.Seq
	}
	if !strings.Contains(out.String(), `"text":"after"`) {
		t.Errorf("printed %s", out.String())
	}
}

// TestChatTwoAtATime: both see what the other says, and one answer counts.
func TestChatTwoAtATime(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	first := s.chats(t, "--name", "shared", "say before")
	first.sees(`before\n\n> $`)
	second := s.chats(t, "--dialogue", "shared")
	second.sees(`> say before\n\nbefore\n\n> $`)
	first.types("ask Bash ls; say after\n")
	first.sees(`instead: $`)
	second.sees(`\n> ask Bash ls; say after\n(.*\n)*.*instead: $`)
	second.types("y\n")
	first.sees(`· cli@[^ ]+ has answered: allow\n(.*\n)*after\n\n> $`)
	second.sees(`\nafter\n\n> $`)
	second.types("\x04") // a client that joined does not end the dialogue
	second.sees(`to continue: trl chat --dialogue d-`)
	second.leaves(0)
	first.types("say still here\n")
	first.sees(`\nstill here\n\n> $`)
	if o := s.run(t, "dialogue", "stop", "shared"); o.status != 0 {
		t.Errorf("%+v", o)
	}
	first.sees(`trl: to continue: trl chat --resume d-`)
	first.leaves(0)
}

// TestChatOutlivesTheDaemon: the talk goes on with the next daemon, which is started when
// none comes; one that was stopped is not.
func TestChatOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	s := agentSandbox(t)
	p := s.chats(t, "--name", "kept", "say before")
	p.sees(`before\n\n> $`)
	if err := unix.Kill(s.daemonPID(t), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.sees(`! the daemon is away; reconnecting\n`)
	p.sees(`· the daemon is back\n\n> $`)
	p.types("say after\n")
	p.sees(`\nafter\n\n> $`)
	if o := s.run(t, "stop"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	p.sees(`the daemon was stopped\nhint: .*trl chat --resume d-`)
	p.leaves(125)
	p = s.chats(t, "--resume", "kept")
	p.sees(`> $`)
	p.types("\x04")
	p.leaves(0)
}

// TestChatWaitsForBackground: one answer is not all of it while something runs in the
// background: it is waited for, not killed, and what it leads to is printed too.
func TestChatWaitsForBackground(t *testing.T) {
	t.Parallel()
	for _, work := range []string{"background-shell", "background-task"} {
		s := agentSandbox(t)
		cmd := s.command(s.trl, "chat", "-p", work+" g; say first", "--", "claude", "-gates", s.work)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the work is in the background", func() bool { _, err := os.Stat(filepath.Join(s.work, "g.reached")); return err == nil })
		if err := os.WriteFile(filepath.Join(s.work, "g.open"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if status := wait(t, cmd); status != 0 || !strings.Contains(out.String(), "first") || !strings.Contains(out.String(), "The background task reported.") {
			t.Errorf("%s: status %d, printed %s", work, status, out.String())
		}
	}
}

// TestChatPrintsItsOwnAnswer: while the agent still works for an earlier message, neither
// that answer nor how that turn ended is printed, and its requests are for others to answer.
func TestChatPrintsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	for agent, flags := range map[string][]string{"claude": nil, "acp": {"-acp"}} {
		s := agentSandbox(t)
		program := append([]string{"--agent", agent, "say hello", "--", "claude"}, append(flags, "-gates", s.work)...)
		if o := s.run(t, append([]string{"chat", "-p", "--keep", "--name", "q"}, program...)...); o.stdout != "hello\n" {
			t.Fatalf("%s: %+v", agent, o)
		}
		for i, c := range []struct {
			name, earlier string
			ends          []string // a call that ends the earlier turn; nil opens its gate
			stderr        string
		}{
			{name: "completed", earlier: "gate g0; say early"},
			{name: "failed", earlier: "gate g1; fail early"},
			{name: "interrupted", earlier: "gate g2; say early", ends: []string{"dialogue", "interrupt", "q"}},
			{name: "asks", earlier: "gate g3; ask Bash ls; say early", stderr: `^trl: dialogue d-\w+: waits for the answer to an earlier request .*\n$`},
			{name: "fits a rule", earlier: "gate g4; ask Bash ls; ask Bash ls; say early"},
		} {
			if c.name == "fits a rule" {
				if o := s.run(t, "dialogue", "set", "q", "--allow", "Bash(ls)", "--allow", "execute"); o.status != 0 {
					t.Fatalf("%s, %s: %+v", agent, c.name, o)
				}
			}
			if o := s.run(t, "dialogue", "send", "q", c.earlier); o.status != 0 {
				t.Fatalf("%s, %s: %+v", agent, c.name, o)
			}
			gate := filepath.Join(s.work, "g"+string(rune('0'+i)))
			testkit.Eventually(t, "the agent works", func() bool { _, err := os.Stat(gate + ".reached"); return err == nil })
			cmd := s.command(s.trl, "chat", "-p", "--dialogue", "q", "say late"+c.name)
			var out bytes.Buffer
			errs, err := os.Create(filepath.Join(s.dir, "stderr"))
			if err != nil {
				t.Fatal(err)
			}
			defer errs.Close()
			said := func() string {
				text, _ := os.ReadFile(errs.Name())
				return string(text)
			}
			cmd.Stdout, cmd.Stderr = &out, errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			s.sent(t, "q", "say late"+c.name)
			if c.ends != nil {
				if o := s.run(t, c.ends...); o.status != 0 {
					t.Fatalf("%s, %s: %+v", agent, c.name, o)
				}
			} else if err := os.WriteFile(gate+".open", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.name == "asks" {
				testkit.Eventually(t, "the request waits", func() bool { return said() != "" })
				if o := s.run(t, "dialogue", "respond", "q", "allow"); o.status != 0 {
					t.Errorf("%s: the request of the earlier turn was answered: %+v", agent, o)
				}
			}
			status := wait(t, cmd)
			if c.stderr == "" {
				c.stderr = "^$"
			}
			if out.String() != "late"+c.name+"\n" || status != 0 || !regexp.MustCompile(c.stderr).MatchString(said()) {
				t.Errorf("%s, %s: status %d, printed %q, and %q on stderr", agent, c.name, status, out.String(), said())
			}
		}
	}
}
