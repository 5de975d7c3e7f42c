package terminal_test

import (
	"crypto/sha1"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/terminal"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestInput(t *testing.T) {
	term := start(t, []string{"cat"})
	if res := term.input(link.SessionInputParams{WriteID: "a"}, "one\n"); res != (api.SessionInputResult{Bytes: 4, Written: 4}) {
		t.Errorf("%+v", res)
	}
	if res := term.input(link.SessionInputParams{WriteID: "a"}, "one\n"); res != (api.SessionInputResult{Written: 4, Repeated: true}) {
		t.Errorf("repeated: %+v", res)
	}
	term.wait(api.SessionWaitParams{Cursor: &api.CursorAt{Y: ptr(2)}}, api.WaitCursor)
	if res := term.input(link.SessionInputParams{WriteID: "b", Keys: []string{"t", "w", "o", "enter"}}, ""); res != (api.SessionInputResult{Bytes: 4, Written: 8}) {
		t.Errorf("keys: %+v", res)
	}
	term.press("ctrl-d")
	term.end()
	if got := strings.Join(term.lines(), "|"); got != "one|one|two|two" {
		t.Errorf("%q", got)
	}
}

func TestInputRemembersAThousandWrites(t *testing.T) {
	term := sh(t, "stty raw -echo; cat >/dev/null")
	for i := range 1025 {
		term.input(link.SessionInputParams{WriteID: fmt.Sprint(i)}, "x")
	}
	for _, id := range []string{"1024", "1", "0"} { // the last is forgotten
		if res := term.input(link.SessionInputParams{WriteID: id}, "x"); res.Repeated != (id != "0") {
			t.Errorf("%s: %+v", id, res)
		}
	}
}

func TestInputThatCannotBe(t *testing.T) {
	term := start(t, []string{"cat"}, func(c *terminal.Config) { c.MaxInput = 100 })
	for _, test := range []struct {
		params link.SessionInputParams
		data   string
		code   api.Code
		says   string
	}{
		{link.SessionInputParams{Keys: []string{"enter", "ctlr-c"}}, "", api.CodeInvalidParams, "params.keys: entry 1: "},
		{link.SessionInputParams{Close: true}, "", api.CodeInvalidParams, "ctrl-d"},
		{link.SessionInputParams{}, strings.Repeat("x", 101), api.CodeRequestTooLarge, "at most 100"},
	} {
		_, err := term.Input(patience(t), test.params, []byte(test.data))
		if code(err) != test.code || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test.params, err)
		}
	}
	if res := term.input(link.SessionInputParams{}, "x"); res.Written != 1 {
		t.Errorf("something was written: %+v", res)
	}
}

func TestMuchInputArrivesInOrder(t *testing.T) {
	term := sh(t, "stty raw -echo; echo ready; head -c 800000 | sha1sum; stty sane")
	term.see("ready")
	var all strings.Builder
	for i := 0; all.Len() < 800000; i++ {
		piece := strings.Repeat(fmt.Sprintf("%d,", i), 1000)[:2000]
		all.WriteString(piece)
		term.typeText(piece)
	}
	term.see(fmt.Sprintf("%x", sha1.Sum([]byte(all.String()))))
}

func TestProgramThatDoesNotRead(t *testing.T) {
	term := sh(t, "stty raw -echo; echo ready; sleep 1000", func(c *terminal.Config) { c.MaxInput = 200 << 10 })
	term.see("ready")
	var err error
	taken := 0
	for ; err == nil && taken < 10<<20; taken += 10000 {
		_, err = term.Input(patience(t), link.SessionInputParams{}, make([]byte, 10000))
	}
	if code(err) != api.CodeResourcePressure || !strings.Contains(err.Error(), `session "s-1": `) {
		t.Errorf("after %d bytes: %v", taken, err)
	}
	if term.text() == "" {
		t.Error("the screen cannot be read")
	}
	if _, err := term.Resize(100, 30); err != nil {
		t.Error(err)
	}
}

func TestAnswersDoNotTakeRoomFromInput(t *testing.T) {
	term := python(t, `
tty.setraw(0)
say(b"\x1b[c" * 200000 + b"ready")
time.sleep(0.2)
got = b""
while not got.endswith(b"!"): got += os.read(0, 4096)
say(b"\r\ngot %s\r\nof %d\r\n" % (got[-5:], len(got)))
`)
	term.see("ready")
	term.typeText("abcd!")
	term.see(`got abcd!`)
	// What the kernel keeps, what the terminal keeps, and what was read meanwhile.
	n, _ := strconv.Atoi(term.see(`of (\d+)`).Groups[1])
	if n < 1000 || n > 400_000 {
		t.Errorf("it got %d bytes", n)
	}
}

func TestKeysAreAsTheProgramWantsThem(t *testing.T) {
	term := python(t, `
tty.setraw(0)
for mode in b"", b"\x1b[?1h", b"\x1b[?2004h":
    say(mode + b"ready\r\n")
    got = b""
    while not got.endswith(b"."): got += os.read(0, 100)
    say(repr(got).encode() + b"\r\n")
`)
	for i := range 3 {
		testkit.Eventually(t, "it is ready", func() bool { return strings.Count(term.text(), "ready") == i+1 })
		term.press("up", "ctrl-c")
		term.input(link.SessionInputParams{Paste: true, Keys: []string{"."}}, "x")
	}
	term.end()
	text := term.text()
	for _, want := range []string{`b'\x1b[A\x03x.'`, `b'\x1bOA\x03x.'`, `b'\x1bOA\x03\x1b[200~x\x1b[201~.'`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestVimWritesAFile(t *testing.T) {
	dir := t.TempDir()
	term := start(t, []string{"vim", "-u", "NONE", "-i", "NONE", "-n", "out.txt"}, func(c *terminal.Config) { c.Dir = dir })
	term.see(`"out.txt" \[New`)
	term.typeText("ihello from a terminal")
	term.press("esc")
	term.see("hello from a terminal")
	if !term.Info().Alternate {
		t.Error("vim shows a screen of its own")
	}
	term.typeText(":wq")
	term.press("enter")
	if e := term.end(); e.Status != 0 {
		t.Errorf("%+v", e)
	}
	if got, err := os.ReadFile(dir + "/out.txt"); err != nil || string(got) != "hello from a terminal\n" {
		t.Errorf("%q %v", got, err)
	}
}
