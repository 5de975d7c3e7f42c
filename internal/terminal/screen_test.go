package terminal_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/terminal"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestScreen(t *testing.T) {
	term := sh(t, `seq 40; printf '\033]7;file://host/some/dir\007\033[1;4:3;38;5;12;48;2;1;2;3mbold\033[0m plain\033[?2004h\033[?25l\033[5 q'; exec cat`)
	term.see("plain")
	res := term.Screen(api.SessionScreenParams{})
	want := strings.Split(res.Text, "\n")
	if len(want) != 24 || want[0] != "18" || want[22] != "40" || want[23] != "bold plain" {
		t.Fatalf("%q", want)
	}
	if res.Cols != 80 || res.Rows != 24 || res.ScrollbackLines != 17 || res.WorkingDir != "/some/dir" || res.Lines != nil {
		t.Errorf("%+v", res)
	}
	if c := res.Cursor; c.X != 10 || c.Y != 23 || c.Visible || c.Style != "bar" || !c.Blink {
		t.Errorf("%+v", c)
	}
	if m := res.Modes; !m.BracketedPaste || !m.Wraparound || m.Mouse != "none" {
		t.Errorf("%+v", m)
	}
	ansi := strings.Split(term.Screen(api.SessionScreenParams{Format: api.FormatANSI}).Text, "\n")
	if len(ansi) != 24 || ansi[0] != "18" || !strings.Contains(ansi[23], "48;2;1;2;3") || !strings.Contains(ansi[23], " plain") {
		t.Errorf("%q", ansi)
	}
	cells := term.Screen(api.SessionScreenParams{Format: api.FormatCells, Scrollback: 3})
	if len(cells.Lines) != 27 || cells.Lines[0].Row != -3 || cells.Lines[0].Text != "15" || cells.Text != "" {
		t.Fatalf("%d lines, %+v", len(cells.Lines), cells.Lines[0])
	}
	last := []api.ScreenRun{
		{X: 0, Width: 4, Text: "bold", Fg: "p12", Bg: "#010203", Attrs: "bold underline", Underline: "curly"},
		{X: 4, Width: 6, Text: " plain"},
	}
	if got := cells.Lines[26]; got.Text != "bold plain" || !reflect.DeepEqual(got.Cells, last) {
		t.Errorf("%+v", got)
	}
	if all := term.Screen(api.SessionScreenParams{Scrollback: -1}); !strings.HasPrefix(all.Text, "1\n2\n3\n") || strings.Count(all.Text, "\n") != 40 {
		t.Errorf("%q", all.Text)
	}
	if all := term.Screen(api.SessionScreenParams{Scrollback: 1_000_000}); !strings.HasPrefix(all.Text, "1\n2\n3\n") {
		t.Errorf("%q", all.Text)
	}
}

func TestScreenSinceVersion(t *testing.T) {
	term := sh(t, `printf 'one\r\ntwo\r\nthree'; read x; printf '\033[2;1HTWO\033[9;1H'; exec cat`)
	term.see("three")
	version := term.Screen(api.SessionScreenParams{}).Version
	if res := term.Screen(api.SessionScreenParams{SinceVersion: &version}); len(res.Lines) != 0 || res.Lines == nil || res.Text != "" || res.Version != version {
		t.Errorf("%+v", res)
	}
	term.press("enter")
	term.see("TWO")
	res := term.Screen(api.SessionScreenParams{SinceVersion: &version})
	var rows []string
	for _, l := range res.Lines {
		rows = append(rows, fmt.Sprint(l.Row, l.Text))
	}
	if got := strings.Join(rows, "|"); !strings.Contains(got, "1TWO") || strings.Contains(got, "one") || res.Version <= version || !strings.Contains(res.Text, "TWO") {
		t.Errorf("%q %+v", got, res)
	}
	if all := term.Screen(api.SessionScreenParams{SinceVersion: ptr(uint64(0))}); !strings.Contains(all.Text, "one") {
		t.Errorf("%q", all.Text)
	}
}

func TestHugeScreenIsBounded(t *testing.T) {
	terminal.SetMaxLook(t.Cleanup, 100<<10)
	term := sh(t, `yes "$(head -c 990 /dev/zero | tr '\0' x)" | head -n 500; echo end; exec cat`, func(c *terminal.Config) {
		c.Cols, c.Rows, c.Scrollback = 1000, 50, 100_000
	})
	term.see("^end")
	res := term.Screen(api.SessionScreenParams{Scrollback: -1})
	if n := len(res.Text); n < 80<<10 || n > 110<<10 || !strings.HasSuffix(strings.TrimRight(res.Text, "\n"), "x\nend") {
		t.Errorf("%d bytes", n)
	}
}

func TestNothingIsShownInsideABatch(t *testing.T) {
	terminal.SetBatchTime(t.Cleanup, 20*time.Second)
	term := sh(t, `printf 'before \033[?2026h half'; read x; printf '\033[1;1Hwhole  \033[?2026l'; read x`)
	testkit.Eventually(t, "the batch has begun", func() bool { return strings.HasSuffix(logged(term), "half") })
	done := make(chan string)
	go func() { _, data := term.snapshot(); done <- string(data) }()
	go func() { done <- term.text() }()
	term.press("enter")
	for range 2 {
		if got := <-done; !strings.Contains(got, "whole") || strings.Contains(got, "before") {
			t.Errorf("%q", got)
		}
	}
}

func TestABatchThatNeverEndsIsShown(t *testing.T) {
	term := sh(t, `printf 'before \033[?2026h half'; exec cat`)
	testkit.Eventually(t, "the batch has begun", func() bool { return strings.HasSuffix(logged(term), "half") })
	if _, data := term.snapshot(); !strings.Contains(string(data), "half") {
		t.Errorf("%q", data)
	}
	if term.Screen(api.SessionScreenParams{}).Modes.SynchronizedOutput {
		t.Error("the batch goes on")
	}
}

func logged(t *tty) string {
	buf := make([]byte, 1<<20)
	n, _, _ := t.log.ReadAt(output.Stdout, 0, buf)
	return string(buf[:n])
}

func TestPast(t *testing.T) {
	term := sh(t, `seq 100; printf '\033]0;title\007\033[31mred\033[0m'; exit 1`)
	term.end()
	res, data := term.snapshot()
	past := terminal.Restore(data, res)
	for _, format := range []string{api.FormatText, api.FormatANSI, api.FormatCells} {
		for _, scrollback := range []int{0, 10, -1} {
			p := api.SessionScreenParams{Format: format, Scrollback: scrollback}
			if got, want := past.Screen(p), term.Screen(p); !reflect.DeepEqual(got, want) {
				t.Errorf("%s %d:\n%+v\nnot\n%+v", format, scrollback, got, want)
			}
		}
	}
	if got := past.Screen(api.SessionScreenParams{SinceVersion: &res.Version}); len(got.Lines) != 0 {
		t.Errorf("%+v", got)
	}
	if got := past.Screen(api.SessionScreenParams{SinceVersion: ptr(res.Version - 1)}); len(got.Lines) == 0 {
		t.Errorf("%+v", got)
	}
	if again, copied := past.Snapshot(-1); again != res || string(copied) != string(data) {
		t.Errorf("%+v: %q, not %q", again, tail(string(copied)), tail(string(data)))
	}
	// Nonsense gives a screen all the same.
	if got := terminal.Restore([]byte("\x1b[999999999;9H\xff"), link.SnapshotResult{Cols: -5, Rows: 1 << 30}).Screen(api.SessionScreenParams{}); got.Cols < 1 || got.Rows < 1 {
		t.Errorf("%+v", got)
	}
}

func TestScreenIsRebuilt(t *testing.T) {
	warnings := make(chan error, 10)
	warned := func(c *terminal.Config) { c.Warn = func(err error) { warnings <- err } }
	term := sh(t, `seq 50; printf '\033]0;title\007'; echo ready; while read x; do echo "got $x"; done`, warned)
	term.see("ready")
	before := term.Screen(api.SessionScreenParams{Scrollback: -1})
	term.Break(func() { panic("once") })
	if err := <-warnings; !strings.Contains(err.Error(), "once") {
		t.Errorf("%v", err)
	}
	after := term.Screen(api.SessionScreenParams{Scrollback: -1})
	if after.Text != before.Text || after.Cursor != before.Cursor || after.Title != "title" || after.Version <= before.Version {
		t.Errorf("%+v\nnot\n%+v", after, before)
	}
	// What breaks it is left out, and it goes on.
	term.BreakAt("poison")
	term.typeText("poison\n")
	testkit.Eventually(t, "the poison was taken", func() bool { return strings.Contains(logged(term), "got poison\r\n") })
	for i := range 5 { // more than is dropped with the poison
		term.typeText(fmt.Sprintf("then this %d\n", i))
		term.see(fmt.Sprintf("got then this %d", i))
	}
	if term.Rebuilt() < 2 {
		t.Errorf("rebuilt %d times", term.Rebuilt())
	}
	// With the poison in the log another rebuild shows what came after it.
	term.Break(func() { panic("again") })
	if !strings.Contains(term.text(), "got then this 4") {
		t.Errorf("%s", term.text())
	}
	if v := term.Screen(api.SessionScreenParams{}).Version; v <= after.Version {
		t.Errorf("the version fell from %d to %d", after.Version, v)
	}
}

func TestRebuiltScreenAnswersNothingAgain(t *testing.T) {
	_, telling := expect()
	term := python(t, `
tty.setraw(0)
say(b"\x1b[c")
got = b""
while not got.endswith(b"c"): got += os.read(0, 1)
say(b"ready\r\n")
while True: say(b"then " + repr(os.read(0, 100)).encode() + b"\r\n")
`, telling)
	term.see("ready")
	term.Break(func() { panic("once") })
	for _, text := range []string{"a", "b", "c"} {
		term.typeText(text)
		term.see("then b'" + text + "'$")
	}
	if strings.Contains(term.text(), "x1b") {
		t.Errorf("%s", term.text())
	}
}
