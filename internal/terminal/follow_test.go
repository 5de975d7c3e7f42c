package terminal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/terminal"
	"github.com/trl-dev/trl/internal/terminal/vt"
	"github.com/trl-dev/trl/internal/testkit"
)

// viewer follows a terminal as an attached client does.
type viewer struct {
	t       *tty
	vt      *vt.Terminal
	offset  int64
	resizes int64
	got     []byte
	sizes   []string
	done    bool
}

// attach begins with a snapshot.
func (t *tty) attach() *viewer {
	res, data := t.snapshot()
	v := &viewer{t: t, vt: vt.New(vt.Config{Cols: res.Cols, Rows: res.Rows, Scrollback: 10_000}), offset: res.Offset, resizes: res.Resizes}
	v.vt.Write(data)
	return v
}

// follow takes one piece.
func (v *viewer) follow(p link.FollowParams) link.FollowResult {
	v.t.t.Helper()
	p.Offset, p.Resizes = v.offset, v.resizes
	res, body, complete, err := v.t.Follow(patience(v.t.t), p)
	if err != nil {
		v.t.t.Fatal(err)
	}
	v.vt.Write(body)
	v.got = append(v.got, body...)
	v.offset += int64(len(body))
	v.resizes, v.done = res.Resizes, complete
	if r := res.Resize; r != nil {
		if r.Offset != v.offset {
			v.t.t.Errorf("a resize at %d is told at %d", r.Offset, v.offset)
		}
		v.vt.Resize(r.Cols, r.Rows)
		v.sizes = append(v.sizes, fmt.Sprintf("%dx%d@%d", r.Cols, r.Rows, r.Offset))
	}
	if cols, rows := v.vt.Size(); !res.Behind && (res.Cols != cols || res.Rows != rows) {
		v.t.t.Errorf("the size is said to be %dx%d behind the body, and is %dx%d", res.Cols, res.Rows, cols, rows)
	}
	return res
}

// same checks that the viewer shows what the terminal shows, once it has everything.
func (v *viewer) same() {
	v.t.t.Helper()
	want := v.t.Screen(api.SessionScreenParams{Scrollback: -1})
	for v.offset != want.Offset {
		v.follow(link.FollowParams{Limit: 1 << 20})
		want = v.t.Screen(api.SessionScreenParams{Scrollback: -1})
	}
	var got []string
	for y := -v.vt.ScrollbackLen(); y < want.Rows; y++ {
		got = append(got, v.vt.RowText(y))
	}
	if text := strings.Join(got, "\n"); text != want.Text {
		v.t.t.Errorf("the viewer shows\n%s\nthe terminal\n%s", tail(text), tail(want.Text))
	}
	if c := v.vt.Cursor(); c.X != want.Cursor.X || c.Y != want.Cursor.Y {
		v.t.t.Errorf("cursor at %d,%d, not %d,%d", c.X, c.Y, want.Cursor.X, want.Cursor.Y)
	}
}

func tail(s string) string { return s[max(0, len(s)-3000):] }

func TestFollow(t *testing.T) {
	term := sh(t, `echo one; read x; seq 20000; echo last`)
	term.see("one")
	v := term.attach()
	if res := v.follow(link.FollowParams{Limit: 1000}); len(v.got) != 0 || res.Behind {
		t.Errorf("%q %+v", v.got, res)
	}
	term.press("enter")
	for !v.done {
		before := len(v.got)
		v.follow(link.FollowParams{Limit: 1000, Wait: true})
		if n := len(v.got) - before; n > 1000 {
			t.Errorf("%d bytes", n)
		}
	}
	if !strings.HasSuffix(string(v.got), "20000\r\nlast\r\n") || v.offset != term.log.Bytes(output.Stdout) {
		t.Errorf("%d bytes, %q", v.offset, tail(string(v.got)))
	}
	v.same()
	// At the end, Follow reports the end, even to a caller that does not wait.
	if v.follow(link.FollowParams{Limit: 1}); !v.done {
		t.Error("not at the end")
	}
}

// TestFollowModes: a reader that wants the modes gets them at once, and again when one of them changes.
func TestFollowModes(t *testing.T) {
	term := sh(t, `printf 'one'; read x; printf '\033]2;a title\007\033]7;file:///some/dir%%ff\007\033[?1049h\033[?1002h\033[>5u'; read x; printf 'more'; read x`)
	term.see("one")
	v := term.attach()
	modes := &api.TerminalModes{}
	next := func() *api.TerminalModes {
		t.Helper()
		res := v.follow(link.FollowParams{Limit: 1 << 20, Wait: true, Modes: modes})
		if res.Modes != nil { // as it crosses the link
			modes = &api.TerminalModes{}
			text, err := json.Marshal(res.Modes)
			if err := errors.Join(err, json.Unmarshal(text, modes)); err != nil {
				t.Fatal(err)
			}
		}
		return res.Modes
	}
	if m := next(); m == nil || *m != (api.TerminalModes{Mouse: "none"}) {
		t.Errorf("at first: %+v", m)
	}
	term.press("enter")
	want := api.TerminalModes{KittyFlags: 5, Mouse: "drag", Alternate: true, Title: "a title", WorkingDir: "/some/dir\uFFFD"}
	for *modes != want {
		next()
	}
	term.press("enter")
	for !strings.Contains(string(v.got), "more") {
		if m := next(); m != nil {
			t.Errorf("unchanged: %+v", m)
		}
	}
	if res := v.follow(link.FollowParams{Limit: 1 << 20}); res.Modes != nil {
		t.Errorf("not asked for: %+v", res.Modes)
	}
}

func TestFollowWaits(t *testing.T) {
	term := start(t, []string{"cat"})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, _, _, err := term.Follow(ctx, link.FollowParams{Wait: true}); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	done := make(chan string)
	go func() {
		_, body, _, _ := term.Follow(patience(t), link.FollowParams{Wait: true, Limit: 100})
		done <- string(body)
	}()
	term.typeText("x")
	if body := <-done; body != "x" {
		t.Errorf("%q", body)
	}
}

func TestFollowBeyondTheEnd(t *testing.T) {
	term := sh(t, `printf 12345; exec cat`)
	term.see("12345")
	for _, offset := range []int64{-1, 6, 1 << 40} {
		_, _, _, err := term.Follow(patience(t), link.FollowParams{Offset: offset, Wait: true})
		if code(err) != api.CodeInvalidParams || !strings.Contains(err.Error(), "beyond the end, which is 5") {
			t.Errorf("%d: %v", offset, err)
		}
	}
}

func TestFollowBehind(t *testing.T) {
	term := sh(t, `seq 200000; echo ready; exec cat`, func(c *terminal.Config) {
		c.Log = output.New(output.NewStore(output.StoreConfig{}), 64<<10)
	})
	term.see("ready")
	follow := func(p link.FollowParams) (link.FollowResult, []byte) {
		p.Limit = 100
		res, body, _, err := term.Follow(patience(t), p)
		if err != nil {
			t.Fatal(err)
		}
		return res, body
	}
	if res, body := follow(link.FollowParams{Offset: 600_000, Resizes: -1}); !res.Behind || len(body) > 0 {
		t.Errorf("bytes that are gone: %+v %q", res, body)
	}
	at := term.Screen(api.SessionScreenParams{}).Offset
	if res, body := follow(link.FollowParams{Offset: at - 50, Backlog: 50}); res.Behind || len(body) != 50 {
		t.Errorf("%+v %q", res, body)
	}
	if res, _ := follow(link.FollowParams{Offset: at - 51, Backlog: 50}); !res.Behind {
		t.Errorf("%+v", res)
	}
	// A snapshot makes up for it.
	v := term.attach()
	term.typeText("more\n")
	term.see("more")
	v.follow(link.FollowParams{Limit: 100, Backlog: 50})
	v.same()
}

func TestFollowResizes(t *testing.T) {
	term := sh(t, `while read x; do echo "$x $(stty size)"; done`)
	v, late := term.attach(), term.attach()
	for i := range 10 {
		for j := range 1 + i%3 { // some at the same offset
			if res, err := term.Resize(60+10*i, 20+j); err != nil || res.Cols != 60+10*i || res.Rows != 20+j {
				t.Fatal(res, err)
			}
		}
		term.typeText(fmt.Sprintf("line %d\n", i))
		term.see(fmt.Sprintf("^line %d %d %d", i, 20+i%3, 60+10*i))
	}
	for range 100 {
		v.follow(link.FollowParams{Limit: 7 + len(v.got)%5})
	}
	for range 50 {
		late.follow(link.FollowParams{Limit: 1 << 20})
	}
	if len(v.sizes) != 19 || strings.Join(v.sizes, " ") != strings.Join(late.sizes, " ") {
		t.Errorf("%d sizes: %v, %v", len(v.sizes), v.sizes, late.sizes)
	}
	v.same()
	late.same()
	if string(v.got) != string(late.got) {
		t.Errorf("%q, %q", v.got, late.got)
	}

	// A viewer that resumes at an offset gets the changes of size after it, and of several
	// changes at one offset the last.
	again := &viewer{t: term, vt: vt.New(vt.Config{Cols: 80, Rows: 24}), resizes: -1}
	again.follow(link.FollowParams{Limit: 1 << 20})
	again.follow(link.FollowParams{Limit: 1 << 20})
	if len(again.sizes) != 2 || again.sizes[0] != "60x20@0" || again.sizes[1] != v.sizes[1] {
		t.Errorf("%v", again.sizes)
	}
	// The last resizes all had text behind them; these have not.
	term.Resize(100, 30)
	term.Resize(101, 31)
	at := term.Screen(api.SessionScreenParams{}).Offset
	res, _, _, err := term.Follow(patience(t), link.FollowParams{Offset: at, Resizes: -1})
	if err != nil || res.Resize == nil || res.Resize.Cols != 101 || res.Cols != 101 || res.Resizes != 21 {
		t.Errorf("%+v %+v %v", res, res.Resize, err)
	}
	if res, _, _, _ := term.Follow(patience(t), link.FollowParams{Offset: at, Resizes: res.Resizes}); res.Resize != nil {
		t.Errorf("told again: %+v", res)
	}
	if snapshot, _ := term.snapshot(); snapshot.Resizes != 21 || snapshot.Cols != 101 || snapshot.Rows != 31 {
		t.Errorf("%+v", snapshot)
	}
}

func TestSameSizeIsNoChange(t *testing.T) {
	term := python(t, `
signal.signal(signal.SIGWINCH, lambda *a: say(b"size %d %d\r\n" % os.get_terminal_size()))
say(b"ready\r\n")
while True: signal.pause()
`)
	term.see("ready")
	for _, size := range [][2]int{{80, 24}, {100, 30}, {100, 30}, {100, 30}, {90, 20}} {
		if _, err := term.Resize(size[0], size[1]); err != nil {
			t.Fatal(err)
		}
		if size[0] != 80 {
			term.see(fmt.Sprintf("size %d %d", size[0], size[1]))
		}
	}
	if n := strings.Count(term.text(), "size"); n != 2 {
		t.Errorf("%d signals:\n%s", n, term.text())
	}
	if res, _ := term.snapshot(); res.Resizes != 2 {
		t.Errorf("%d changes of size", res.Resizes)
	}
}

func TestManyResizesAreForgotten(t *testing.T) {
	term := start(t, []string{"cat"})
	v := term.attach()
	for i := range 1100 {
		term.Resize(80+i%2, 30)
	}
	if res := v.follow(link.FollowParams{}); !res.Behind {
		t.Errorf("%+v", res)
	}
	res, _, _, _ := term.Follow(patience(t), link.FollowParams{Resizes: -1})
	if !res.Behind {
		t.Errorf("%+v", res)
	}
	v = term.attach()
	term.typeText("x\n")
	term.see("x")
	if res := v.follow(link.FollowParams{}); res.Behind || res.Resize != nil || len(v.got) == 0 {
		t.Errorf("%+v %q", res, v.got)
	}
}

func TestCharactersAreWhole(t *testing.T) {
	term := python(t, `
tty.setraw(0)
for b in "€uro … – 漢字 🙂".encode():
    say(bytes([b]))
    os.read(0, 1)
say(b"\xe2\x80")
`)
	v := term.attach()
	for i := range len("€uro … – 漢字 🙂") {
		testkit.Eventually(t, "a byte has come", func() bool { return term.Screen(api.SessionScreenParams{}).Offset > int64(i) })
		// A viewer that attaches now begins between two characters.
		res, data := term.snapshot()
		if !utf8.ValidString("€uro … – 漢字 🙂"[:res.Offset]) || !utf8.Valid(data) {
			t.Errorf("a snapshot at %d: %q", res.Offset, data)
		}
		if i%2 == 0 { // and a change of size is between two as well
			r, err := term.Resize(80+i, 24)
			if err != nil || !utf8.ValidString("€uro … – 漢字 🙂"[:r.Offset]) {
				t.Errorf("a resize at %d (%v)", r.Offset, err)
			}
		}
		before := len(v.got)
		for range 2 {
			v.follow(link.FollowParams{Limit: 1})
		}
		if !utf8.Valid(v.got[before:]) {
			t.Errorf("%q", v.got[before:])
		}
		term.typeText("x")
	}
	term.end()
	for !v.done {
		v.follow(link.FollowParams{Limit: 100, Wait: true})
	}
	// At the end what is there is all there will be.
	if string(v.got) != "€uro … – 漢字 🙂\xe2\x80" {
		t.Errorf("%q", v.got)
	}
	v.same()
}

func TestNobodySlowsAFlood(t *testing.T) {
	term := sh(t, `yes "$(seq -s ' ' 20)"`)
	v := term.attach()
	behind := 0
	for range 200 {
		if res := v.follow(link.FollowParams{Limit: 64 << 10, Backlog: 128 << 10, Wait: true}); res.Behind {
			behind++
			v = term.attach()
		}
		term.Screen(api.SessionScreenParams{Format: api.FormatCells})
	}
	for y := range 23 {
		if text := v.vt.RowText(y); !strings.HasPrefix("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", text) {
			t.Errorf("%q", text)
		}
	}
	term.press("ctrl-c")
	term.end()
}
