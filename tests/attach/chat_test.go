package attach_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/terminal/vt"
	"github.com/trl-dev/trl/tests/trltest"
)

// chats sits down to `trl chat args...` with the fake agent.
func (p *place) chats(t *testing.T, args ...string) *person {
	t.Helper()
	return p.withAgent(t).sit(t, 80, 24, append([]string{p.trl, "chat"}, args...)...)
}

// withAgent has the fake agent and trl on the PATH.
func (p *place) withAgent(t *testing.T) *place {
	t.Helper()
	path := filepath.Dir(trltest.FakeAgent(t)) + ":" + filepath.Dir(p.trl) + ":"
	for _, kv := range p.env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path += v
		}
	}
	return p.with("PATH=" + path)
}

// opens lets the fake agent go on behind a gate.
func (p *place) opens(t *testing.T, gate string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.work, gate+".open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// prompted waits until the cursor is behind a prompt and what was typed there.
func (s *person) prompted(line string) {
	s.t.Helper()
	s.until("the line is "+line, func(v *vt.Terminal) bool {
		c := v.Cursor()
		return strings.TrimRight(v.RowText(c.Y), " ") == strings.TrimRight(line, " ") && c.X == len([]rune(line))
	})
}

func TestChatEditor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.chats(t, "--name", "ed")
	s.prompted("> ")
	s.press("say ac\x1b[Db\x05!\r") // an arrow, and Ctrl-E
	s.see(`^abc!$`)
	s.prompted("> ")
	s.press("say second\r")
	s.see(`^second$`)
	s.prompted("> ")
	s.press("\x1b[A\x1b[A") // the one before the last
	s.prompted("> say abc!")
	s.press("\x0c") // Ctrl-L
	s.until("the screen is empty but for the line", func(v *vt.Terminal) bool { return textOf(v) == "> say abc!" })
	s.press("\x15")
	s.prompted("> ")
	s.press("one\x1b\rtwo\r") // Alt-Enter
	s.see(`^You said: one$`)
	s.see(`^two$`)
	s.press("\x1b[200~first\rsecond\x1b[201~")
	s.prompted("> [pasted 1: 2 lines]")
	s.press(" end\r")
	s.see(`^You said: first$`)
	s.see(`^second end$`)
	s.press("\x1b[200~in one line\x1b[201~")
	s.prompted("> in one line")
	s.press("\x03")
	s.see("Ctrl-C again leaves")
	s.prompted("> ")
	s.press("two \\\r")
	s.prompted(". ")
	s.press("lines\r")
	s.see(`^You said: two`)
	s.prompted("> ")
	s.press("\x1b[A") // all of the message
	s.prompted("> two ⏎lines")
	s.press("\x15")
	s.prompted("> ")
	s.press("/ret\t")
	s.prompted("> /retry ")
	s.press("\r")
	s.see("there is nothing to retry: no error is known")
	s.press("/comp\t") // a command of the agent
	s.prompted("> /compact ")
	s.press("\x15/model d\t") // and a model
	s.prompted("> /model default ")
	s.press("\r")
	s.see("the model is default from now on")
	s.press("\x04")
	if status := s.left(); status != 0 {
		t.Errorf("status %d", status)
	}
	s.clean()
}

// chatInShell runs a command that becomes trl chat in a shell with job control.
func (p *place) chatInShell(t *testing.T, command string) *person {
	t.Helper()
	s := p.withAgent(t).sit(t, 80, 24, "bash", "--norc", "--noprofile", "-i")
	s.press("PS1='$ '\r")
	s.prompted("$ ")
	s.press(command + "\r")
	s.prompted("> ")
	return s
}

// stoppedLines are lines for trl chat that take one row and two.
var stoppedLines = []string{"half", strings.Repeat("x", 100)}

// inRows returns a line behind the prompt as the screen shows it.
func inRows(line string) string {
	rows := "> " + line
	if len(rows) > 80 {
		rows = rows[:80] + "\n" + rows[80:]
	}
	return rows
}

// TestChatSuspended: after Ctrl-Z and fg, the line is there again below what the shell wrote.
func TestChatSuspended(t *testing.T) {
	t.Parallel()
	s := newPlace(t).chatInShell(t, "trl chat")
	for _, line := range stoppedLines {
		s.press("\x15" + line + "\x1a")
		s.prompted("$ ")
		s.press(`printf '\033[H\033[2J'; fg` + "\r")
		rows := inRows(line)
		s.see(`\Atrl chat\n` + rows + `$`)
	}
	s.press("\x15say on\r")
	s.see(`^on$`)
	s.press("\x04")
	s.prompted("$ ")
	s.press("exit\r")
	s.left()
	s.clean()
}

// TestChatStoppedFromOutside: after another process has stopped trl, fg shows the line again, and keys
// edit it.
func TestChatStoppedFromOutside(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.chatInShell(t, "sh -c 'echo $$ >pid; exec trl chat'")
	text, err := os.ReadFile(filepath.Join(p.work, "pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 0 {
		t.Fatalf("pid %q: %v", text, err)
	}
	for _, line := range stoppedLines {
		s.press("\x05\x15" + line)
		rows := inRows(line)
		s.see("^" + rows + "$")
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		s.prompted("$ ")
		s.press(`printf '\033[H\033[2J'; fg` + "\r")
		s.see(`\Ash -c .*\n` + rows + `$`)
		s.press("\x01y\x04") // Ctrl-A and Ctrl-D
		first, _, _ := strings.Cut(rows[3:], "\n")
		s.see("^> y" + first + "$")
	}
	s.press("\x05\x15say on\r")
	s.see(`^on$`)
	s.press("\x04")
	s.prompted("$ ")
	s.press("exit\r")
	s.left()
	s.clean()
}

// TestChatTypingWhileItStreams: what the agent says goes above the line that is being typed.
func TestChatTypingWhileItStreams(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.chats(t, "--", "claude", "-gates", p.work)
	s.prompted("> ")
	s.press("say " + strings.Repeat("word ", 40) + "; gate g; say more; gate h\r")
	s.press("half")
	s.see(`(?s)word word.*^> half$`)
	p.opens(t, "g")
	s.see(`(?s)^more$.*^> half$`)
	p.opens(t, "h")
	s.prompted("> half")
	s.press(" a line\r")
	s.see("You said: half a line")
	s.press("\x04")
	s.left()
	s.clean()
}

// TestChatHalfTypedLineIsNoAnswer: a line that was begun before the agent asked is a message,
// also when it ends after that.
func TestChatHalfTypedLineIsNoAnswer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.chats(t, "--", "claude", "-gates", p.work)
	s.prompted("> ")
	s.press("gate g; ask Bash make test\r")
	s.prompted("> ")
	s.press("y")
	s.prompted("> y")
	p.opens(t, "g")
	s.see("The agent wants to use Bash")
	s.prompted("> y")
	s.press("es please\r")
	s.see(`or what to do instead:`)
	if got := s.text(); strings.Contains(got, "denied") {
		t.Errorf("it counted as an answer:\n%s", got)
	}
	s.press("n\r")
	s.see("You said: yes please")
	s.press("\x04")
	s.left()
	s.clean()
}

// TestChatMarkdown: it is shown, not read.
func TestChatMarkdown(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.chats(t)
	s.prompted("> ")
	s.press("say # Title **bold** text\r")
	s.see(`^Title `)
	if got := s.everything(); !strings.Contains(got, "\x1b[1mTitle") {
		t.Errorf("%q", got)
	}
	s.press("\x04")
	s.left()
	s.clean()
}
