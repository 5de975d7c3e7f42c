package terminal_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/terminal"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestWaitForText(t *testing.T) {
	term := sh(t, `echo user name=joe; read x; echo later; read x`)
	res := term.see(`name=(\w+)`)
	if res.Match != "user name=joe" || len(res.Groups) != 2 || res.Groups[1] != "joe" || res.Version == 0 || res.Cursor == nil || res.TimedOut {
		t.Errorf("%+v", res)
	}
	done := make(chan api.SessionWaitResult)
	go func() {
		res, _ := term.Wait(patience(t), api.SessionWaitParams{Text: "^later$"})
		done <- res
	}()
	term.press("enter")
	if res := <-done; res.Reason != api.WaitText || res.Match != "later" {
		t.Errorf("%+v", res)
	}
}

// A prompt ends in a blank, which is there because the cursor is behind it.
func TestWaitForAPrompt(t *testing.T) {
	term := sh(t, `printf 'name: '; read x; printf '世界 > '; read x`)
	if res := term.see(`^name: $`); res.Match != "name: " {
		t.Errorf("%q", res.Match)
	}
	term.see(`^name:$`) // trailing blanks are not part of a line
	term.press("enter")
	if res := term.see(`^世界 > $`); res.Match != "世界 > " {
		t.Errorf("%q", res.Match)
	}
}

func TestWaitForTextThatScrollsBy(t *testing.T) {
	term := sh(t, `read x; seq 3000; echo needle in a haystack; seq 4000 7000; read x`)
	done := make(chan api.SessionWaitResult)
	version := term.Screen(api.SessionScreenParams{}).Version
	go func() {
		res, _ := term.Wait(patience(t), api.SessionWaitParams{Text: "needle", SinceVersion: &version})
		done <- res
	}()
	term.press("enter")
	if res := <-done; res.Match != "needle in a haystack" {
		t.Errorf("%+v", res)
	}
	// The line is above the screen now: a wait that does not ask for earlier output does not find it.
	term.see("^7000$")
	term.wait(api.SessionWaitParams{Text: "needle", TimeoutS: ptr(0.0)}, api.WaitTimeout)
	term.wait(api.SessionWaitParams{Text: "needle", SinceVersion: ptr(uint64(1)), TimeoutS: ptr(0.0)}, api.WaitText)
}

// A look ends, however fast the program writes, and the next one reads what came meanwhile.
func TestLookEnds(t *testing.T) {
	term := sh(t, `seq 3000; echo end; read x`)
	term.see("^end$")
	first, next, parts := term.Look(strings.Repeat("flood\r\n", 1500))
	if len(first) < 3000 || first[0] != "1" || first[2999] != "3000" || parts != 3 {
		t.Errorf("first look: %d lines in %d parts", len(first), parts)
	}
	flood := 0
	for _, line := range next {
		if line == "flood" {
			flood++
		}
	}
	if flood != 3*1500 {
		t.Errorf("next look: %d lines of the flood, want 4500", flood)
	}
}

func TestWaitForTextOverRows(t *testing.T) {
	long := strings.Repeat("0123456789", 30)
	term := sh(t, `echo start-`+long+`-end; read x; i=0; while [ $i -lt 60 ]; do printf 'abcdefghi,'; i=$((i+1)); done; echo over; read x`)
	if res := term.see("start-.*-end"); res.Match != "start-"+long+"-end" {
		t.Errorf("%q", res.Match)
	}
	term.press("enter")
	if res := term.see("(abcdefghi,)+over"); len(res.Match) != 604 {
		t.Errorf("%q", res.Match)
	}
}

func TestWaitSinceVersion(t *testing.T) {
	// Without echo only the script writes, so that nothing comes between its lines.
	term := sh(t, `stty -echo; echo ready; while read x; do echo "got $x"; done`)
	term.see("^ready$")
	term.typeText("a\n")
	version := term.see("^got a$").Version
	since := api.SessionWaitParams{Text: "^got .$", SinceVersion: &version, TimeoutS: ptr(0.0)}
	term.wait(since, api.WaitTimeout)
	term.typeText("b\n")
	since.TimeoutS = nil
	if res := term.wait(since, api.WaitText); res.Match != "got b" {
		t.Errorf("%q", res.Match)
	}
	// A line that only moves up is not new.
	term.typeText(strings.Repeat("c\n", 30) + "d\n")
	version = term.see("^got d$").Version
	term.typeText("e\n")
	if res := term.wait(api.SessionWaitParams{Text: "^got .$", SinceVersion: &version}, api.WaitText); res.Match != "got e" {
		t.Errorf("%q", res.Match)
	}
}

func TestWaitAcrossResizesAndScreens(t *testing.T) {
	term := sh(t, `read x; printf '\033[?1049h\033[Hon the other screen'; read x; printf '\033[?1049l'; read x; echo needle; seq 100; read x`)
	term.press("enter")
	version := term.see("on the other").Version
	done := make(chan api.SessionWaitResult)
	go func() {
		res, _ := term.Wait(patience(t), api.SessionWaitParams{Text: "needle", SinceVersion: &version})
		done <- res
	}()
	term.press("enter", "enter")
	for i := range 20 {
		term.Resize(60+i, 24)
	}
	if res := <-done; res.Match != "needle" {
		t.Errorf("%+v", res)
	}
}

func TestWaitForIdle(t *testing.T) {
	term := python(t, `
tty.setraw(0)
for i in range(40): say(b"%d\r\n" % i); time.sleep(0.005)
say(b"\x1b[?2026hunfinished")
os.read(0, 1)
os.read(0, 1)
say(b"\x1b[")
os.read(0, 1)
`)
	const long = 1.5
	term.see("^0$")
	term.wait(api.SessionWaitParams{IdleS: ptr(long)}, api.WaitIdle)
	if !strings.Contains(term.text(), "39") {
		t.Errorf("it was not idle:\n%s", term.text())
	}
	term.wait(api.SessionWaitParams{IdleS: ptr(long), TimeoutS: ptr(0.0)}, api.WaitIdle)
	// The terminal has been idle for long, but something was typed.
	term.typeText("x")
	term.wait(api.SessionWaitParams{IdleS: ptr(long), TimeoutS: ptr(0.0)}, api.WaitTimeout)
	// An unfinished sequence does not keep the terminal busy without end.
	term.typeText("x")
	term.wait(api.SessionWaitParams{IdleS: ptr(0.02)}, api.WaitIdle)
}

func TestWaitForTheCursor(t *testing.T) {
	term := sh(t, `printf abc; read x; printf '\033[7;9H'; read x`)
	if res := term.wait(api.SessionWaitParams{Cursor: &api.CursorAt{X: ptr(3), Y: ptr(0)}}, api.WaitCursor); res.Cursor.X != 3 {
		t.Errorf("%+v", res.Cursor)
	}
	term.wait(api.SessionWaitParams{Cursor: &api.CursorAt{X: ptr(4)}, TimeoutS: ptr(0.0)}, api.WaitTimeout)
	term.press("enter")
	if res := term.wait(api.SessionWaitParams{Cursor: &api.CursorAt{Y: ptr(6)}}, api.WaitCursor); res.Cursor.X != 8 || res.Cursor.Y != 6 {
		t.Errorf("%+v", res.Cursor)
	}
}

func TestWaitForTheEnd(t *testing.T) {
	term := sh(t, `read x; echo last words`)
	done := make(chan api.SessionWaitResult)
	for _, p := range []api.SessionWaitParams{
		{Exit: true}, {Text: "never"}, {Text: "last"}, {IdleS: ptr(100.0)}, {Cursor: &api.CursorAt{Y: ptr(20)}}, {WaitingForInput: true, Text: "x^"},
	} {
		if p.WaitingForInput && process.CanSeeReads(os.Getpid()) != nil {
			continue
		}
		want := api.WaitExit
		switch {
		case p.Text == "last":
			want = api.WaitText // the text was there before the end
		case p.WaitingForInput:
			want = api.WaitInput
		}
		go func() {
			res, err := term.Wait(patience(t), p)
			if err != nil || res.Reason != want {
				t.Errorf("%+v: %q %v", p, res.Reason, err)
			}
			done <- res
		}()
	}
	if process.CanSeeReads(os.Getpid()) == nil {
		<-done
	}
	term.press("enter")
	for range 5 {
		<-done
	}
	term.wait(api.SessionWaitParams{Exit: true, TimeoutS: ptr(0.0)}, api.WaitExit)
	term.wait(api.SessionWaitParams{WaitingForInput: true}, api.WaitExit)
}

func TestWaitForInput(t *testing.T) {
	if process.CanSeeReads(os.Getpid()) != nil {
		t.Skip("this system does not tell")
	}
	term := start(t, []string{"python3", "-q"}, func(c *terminal.Config) { c.Env = append(c.Env, "PYTHON_BASIC_REPL=1") })
	waits := api.SessionWaitParams{WaitingForInput: true}
	if res := term.wait(waits, api.WaitInput); res.Process == nil || res.Process.PID != term.Process().PID || !strings.Contains(res.Process.Command, "python3") {
		t.Errorf("%+v", res.Process)
	}
	term.typeText("import time; time.sleep(0.2); print(6 * 7)\n")
	term.wait(waits, api.WaitInput)
	if !strings.Contains(term.text(), "\n42") {
		t.Errorf("it did not wait yet:\n%s", term.text())
	}
	term.typeText("import subprocess; subprocess.call(['sh', '-c', 'read x; sleep 1000'])\n")
	testkit.Eventually(t, "its child waits", func() bool {
		res, err := term.AwaitInput(patience(t))
		return err == nil && res != nil && res.PID != term.Process().PID
	})
	term.typeText("\n")
	testkit.Eventually(t, "nobody waits", func() bool {
		res, err := term.Wait(patience(t), api.SessionWaitParams{WaitingForInput: true, TimeoutS: ptr(0.0)})
		return err == nil && res.Reason == api.WaitTimeout
	})
}

func TestInputThatWaitsIsNotWaitedFor(t *testing.T) {
	if process.CanSeeReads(os.Getpid()) != nil {
		t.Skip("this system does not tell")
	}
	term := start(t, []string{"cat"})
	term.wait(api.SessionWaitParams{WaitingForInput: true}, api.WaitInput)
	// It cannot read its input, but blocks in the same system call.
	term.Process().Signal(syscall.SIGSTOP)
	testkit.Eventually(t, "it is stopped", func() bool {
		info, ok := process.Stat(term.Process().PID)
		return ok && info.State == 'T'
	})
	term.typeText("x\n")
	term.see("x")
	term.wait(api.SessionWaitParams{WaitingForInput: true, TimeoutS: ptr(0.0)}, api.WaitTimeout)
	term.Process().Signal(syscall.SIGCONT)
	term.wait(api.SessionWaitParams{WaitingForInput: true}, api.WaitInput)
}

func TestWaitThatCannotBe(t *testing.T) {
	term := start(t, []string{"cat"})
	if _, err := term.Wait(patience(t), api.SessionWaitParams{Text: "("}); code(err) != api.CodeInvalidParams || !strings.Contains(err.Error(), "params.text: ") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	for _, p := range []api.SessionWaitParams{{Text: "x"}, {Exit: true}, {IdleS: ptr(100.0)}} {
		if _, err := term.Wait(ctx, p); !errors.Is(err, gone) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	res := term.wait(api.SessionWaitParams{Text: "x", TimeoutS: ptr(0.03)}, api.WaitTimeout)
	if !res.TimedOut {
		t.Errorf("%+v", res)
	}
}
