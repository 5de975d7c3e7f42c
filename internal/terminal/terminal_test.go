package terminal_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/terminal"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestProgramEnds(t *testing.T) {
	term := sh(t, `printf '\033]0;my title\007'; echo hello; tty; exit 3`)
	if e := term.end(); e.Status != 3 {
		t.Errorf("%+v", e)
	}
	lines := term.lines()
	if len(lines) != 2 || lines[0] != "hello" || !strings.HasPrefix(lines[1], "/dev/") {
		t.Errorf("%q", lines)
	}
	if info := term.Info(); info.Title != "my title" || info.Cols != 80 || info.Rows != 24 || info.Alternate || info.Recording != nil {
		t.Errorf("%+v", info)
	}
	res := term.Screen(api.SessionScreenParams{})
	if n := term.log.Bytes(output.Stdout); res.Offset != n || n == 0 {
		t.Errorf("offset %d, %d bytes in the log", res.Offset, n)
	}
	if term.LastOutput().IsZero() {
		t.Error("nothing was written")
	}
	if _, err := term.Input(patience(t), link.SessionInputParams{}, []byte("x")); code(err) != api.CodeSessionTerminated {
		t.Errorf("input: %v", err)
	}
	if _, err := term.Resize(10, 10); code(err) != api.CodeSessionTerminated {
		t.Errorf("resize: %v", err)
	}
	term.Close()
	term.Close()
	if got := term.lines(); !slices.Equal(got, lines) {
		t.Errorf("after Close: %q", got)
	}
}

func TestProgramDiesOfASignal(t *testing.T) {
	term := sh(t, `echo here; kill -9 $$`)
	if e := term.end(); e.Signal != syscall.SIGKILL {
		t.Errorf("%+v", e)
	}
	if term.text() == "" {
		t.Error("nothing is shown")
	}
}

func TestProgramCannotBeStarted(t *testing.T) {
	files := openFiles()
	for name, change := range map[string]func(*terminal.Config){
		"program":   func(c *terminal.Config) { c.Path = "/nowhere/at/all" },
		"directory": func(c *terminal.Config) { c.Dir = "/nowhere/at/all" },
		"start": func(c *terminal.Config) {
			c.Start = func(process.Spec) (*process.Process, error) { return nil, errors.New("no") }
		},
	} {
		c := terminal.Config{Name: `session "s-1"`, Path: "/bin/sh", Args: []string{"sh"}, Cols: 80, Rows: 24, Start: reaper.Start,
			Log: output.New(output.NewStore(output.StoreConfig{}), 1<<20)}
		change(&c)
		term, err := terminal.Start(c)
		if term != nil || code(err) != api.CodeShellFailed || !strings.HasPrefix(err.(*api.Error).Message, `session "s-1": start `) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if now := openFiles(); now != files {
		t.Errorf("%d files are open, before it were %d", now, files)
	}
}

func TestTerminalIsTheProgramsOwn(t *testing.T) {
	term := sh(t, `stty size; ps -o pid=,pgid=,sid=,tpgid= -p $$; ls -l /dev/fd/ | grep -c ptmx`)
	term.end()
	lines := term.lines()
	if len(lines) < 3 || lines[0] != "24 80" {
		t.Fatalf("%q", lines)
	}
	ids := strings.Fields(lines[1])
	if len(ids) != 4 || ids[0] != ids[1] || ids[0] != ids[2] {
		t.Errorf("it is not the leader of its session: %v", ids)
	}
	if lines[2] != "0" {
		t.Errorf("it has the other end of its terminal")
	}
}

func TestWhatIsWrittenLastIsNotLost(t *testing.T) {
	term := sh(t, `echo one; read x; seq 500; echo the end`)
	term.see("one")
	release := term.Hold() // the reader is busy until the program has ended
	term.press("enter")
	<-term.Process().Done()
	release()
	term.end()
	if lines := term.lines(); lines[len(lines)-1] != "the end" || !strings.Contains(logged(term), "\n499\r\n500\r\n") {
		t.Errorf("%q", lines)
	}
}

func TestBackgroundProcessHoldsTheTerminal(t *testing.T) {
	term := sh(t, `trap '' HUP; sleep 1000 & seq 3000; echo the end`)
	term.end()
	if lines := term.lines(); lines[len(lines)-1] != "the end" {
		t.Errorf("%q", lines)
	}
}

func TestBackgroundProcessFloodsTheTerminal(t *testing.T) {
	// It has no terminal that could be taken from it, and never stops writing.
	term := sh(t, `trap '' HUP; setsid yes & sleep 0.1; echo bye`)
	term.end()
}

func TestProgramClosesItsTerminal(t *testing.T) {
	term := sh(t, `echo one; exec 0<&- 1>&- 2>&-; sleep 0.1; exec 3<>/dev/tty; echo two >&3; read x <&3; echo "got $x" >&3`)
	term.see("two")
	term.typeText("abc\n")
	term.see("got abc")
	term.end()
}

func TestTerminalIsHungUpUnderTheProgram(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may hang up")
	}
	term := python(t, `
import ctypes
signal.signal(signal.SIGHUP, signal.SIG_IGN)
path = os.ttyname(0)
say(b"one\r\n")
for i in range(3):
    if ctypes.CDLL(None).vhangup() != 0: say(b"denied\r\n"); break
    fd = os.open(path, os.O_RDWR)
    os.write(fd, b"again %d\r\n" % i)
os.write(fd, b"ready\r\n")
os.read(fd, 1)
os.write(fd, b"bye\r\n")
`)
	term.see("ready|denied")
	term.press("enter")
	term.end()
	if text := term.text(); !strings.Contains(text, "denied") && !strings.Contains(text, "bye") {
		t.Errorf("%q", text)
	}
}

func TestCloseHangsUp(t *testing.T) {
	term := sh(t, `trap 'exit 7' HUP; echo ready; while :; do sleep 0.01; done`)
	term.see("ready")
	term.Close()
	select {
	case <-term.Done():
	default:
		t.Error("closed and not done")
	}
	select {
	case <-term.Process().Done():
	case <-patience(t).Done():
		t.Error("the program was not told")
	}
	if !strings.Contains(term.text(), "ready") {
		t.Error("the screen is gone")
	}
}

func TestQuestionsAreAnswered(t *testing.T) {
	term := python(t, `
tty.setraw(0)
for q, end in (b"\x1b[c", b"c"), (b"\x1b[>q", b"\\"), (b"\x1b[6n", b"R"):
    say(q)
    got = b""
    while not got.endswith(end): got += os.read(0, 1)
    say(repr(got).encode() + b"\r\n")
`)
	term.end()
	lines := term.lines()
	if len(lines) != 3 || !strings.HasPrefix(lines[0], `b'\x1b[?`) || !strings.Contains(lines[1], "TRL(1.2.3)") || lines[2] != `b'\x1b[3;1R'` {
		t.Errorf("%q", lines)
	}
}

func TestChangedIsTold(t *testing.T) {
	var changed atomic.Int64
	told := make(chan struct{}, 100)
	term := sh(t, `read x; printf '\033]0;first\007'; read x; i=0; while [ $i -lt 2000 ]; do printf '\033]0;title %d\007' $i; i=$((i+1)); done; read x; echo text; read x; printf '\033[?1049h'; read x`,
		func(c *terminal.Config) { c.Changed = func() { changed.Add(1); told <- struct{}{} } })
	if changed.Load() != 0 {
		t.Error("told before anything has changed")
	}
	enter := func() { term.press("enter") }
	enter()
	<-told
	if got := term.Info().Title; got != "first" {
		t.Errorf("title %q", got)
	}
	enter()
	testkit.Eventually(t, "the last title is told", func() bool {
		<-told
		return term.Info().Title == "title 1999"
	})
	if n := changed.Load(); n > 500 {
		t.Errorf("told %d times", n)
	}
	enter()
	term.see("text")
	before := changed.Load()
	enter()
	<-told
	if !term.Info().Alternate {
		t.Error("the screen was not switched")
	}
	if n := changed.Load(); n > before+1 {
		t.Errorf("text is no news: told %d times", n-before)
	}
}

func TestManyTerminalsLeaveNothing(t *testing.T) {
	for range 30 {
		term := start(t, []string{"cat"})
		term.typeText("x\n")
		term.see("x")
		term.Close()
	}
}

// The program reads the size that was requested last, also if it has set another one meanwhile.
func TestResizeOfWhoResizedItself(t *testing.T) {
	term := sh(t, `stty cols 40 rows 10; echo set; read x; stty size; read x`)
	term.see("^set$")
	if _, err := term.Resize(80, 24); err != nil {
		t.Fatal(err)
	}
	term.press("enter")
	term.see("^24 80$")
}
