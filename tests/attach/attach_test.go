package attach_test

import (
	"os"
	"strings"
	"testing"
)

// TestAttachTypeDetachReattach is the whole of it, in a shell.
func TestAttachTypeDetachReattach(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a := p.sit(t, 80, 24, p.trl, "new", "-t", "sh")
	a.see(`^\$ $|^\$$`)
	a.press("echo one-$((40+2))\r")
	a.see(`^one-42$`)
	a.press("\x1c")
	if status := a.left(); status != 0 {
		t.Errorf("detached with %d", status)
	}
	a.see(`trl: sh: detached; it keeps running`)
	a.clean()

	b := p.sit(t, 80, 24, p.trl, "attach", "sh")
	b.see(`(?s)^one-42\n\$$`)
	b.press("exit 3\r")
	if status := b.left(); status != 3 {
		t.Errorf("the program exited with 3, trl with %d", status)
	}
	b.see(`trl: sh: the program exited with status 3`)
	b.clean()
	if got := p.run(t, "screen", "sh"); !strings.Contains(got, "one-42\n$ exit 3") {
		t.Errorf("the last screen:\n%s", got)
	}
}

// TestProgramThatEndsAtOnce: what it said and how it ended is seen all the same.
func TestProgramThatEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for range 5 {
		a := p.sit(t, 80, 24, p.trl, "new", "-t", "--", "sh", "-c", "echo quick; exit 4")
		if status := a.left(); status != 4 {
			t.Errorf("status %d", status)
		}
		a.see(`(?s)^quick\ntrl: s-.*: the program exited with status 4`)
		a.clean()
	}
}

// TestAloneInAnotherSize: the terminal takes the size of its first viewer at once, so no frame is drawn.
func TestAloneInAnotherSize(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run(t, "new", "-t", "-d", "sh", "--cols", "70", "--rows", "20")
	p.run(t, "send", "sh", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do echo line-$i; done", "enter")
	p.run(t, "wait", "sh", "--text", "^line-30$")
	a := p.sit(t, 100, 30, p.trl, "attach", "sh")
	a.see(`^line-30$`)
	p.same(t, a, "sh")
	if strings.Contains(a.everything(), "\x1b[?1049h") {
		t.Errorf("it was drawn first: %q", a.everything())
	}
	a.press("\x1c")
	a.left()
	// What is above the screen is in the person's own scrollback.
	a.mu.Lock()
	above := ""
	for y := -a.screen.ScrollbackLen(); y < 30; y++ {
		above += a.screen.RowText(y) + "\n"
	}
	a.mu.Unlock()
	for _, line := range []string{"\nline-1\n", "\nline-2\n", "\nline-30\n"} {
		if strings.Count(above, line) != 1 {
			t.Errorf("%q is there %d times:\n%s", line, strings.Count(above, line), above)
		}
	}
	a.clean()
}

// TestWhatCannotBeAttached: clear words, and nothing is done to the terminal.
func TestWhatCannotBeAttached(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run(t, "new", "shelly")
	p.run(t, "new", "--program", "prog", "cat")
	p.run(t, "new", "-t", "-d", "gone", "true")
	p.run(t, "wait", "gone")
	for name, want := range map[string]string{
		"shelly": `trl: session "shelly": is a shell`,
		"prog":   `trl: session "prog": is a program`,
		"gone":   "trl: session \"(gone|s-.*)\": (has ended|not found)",
		"nosuch": `trl: session "nosuch": not found`,
	} {
		a := p.sit(t, 100, 24, p.trl, "attach", name)
		if status := a.left(); status != 125 {
			t.Errorf("%s: status %d", name, status)
		}
		a.see(want)
		a.clean()
	}
	a := p.sit(t, 100, 24, p.trl, "new", "-t", "self")
	a.see(`^\$`)
	a.press("trl attach self\r")
	a.see(`session "self": this terminal cannot attach to itself`)
	a.press("exit 0\r")
	a.left()
}

// TestStopEndsIt: when all sessions end, their viewers end too, and start no other daemon.
func TestStopEndsIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a := p.sit(t, 80, 24, p.trl, "new", "-t", "sh")
	a.see(`^\$`)
	p.Stop(t)
	if status := a.left(); status == 0 {
		t.Errorf("status %d", status)
	}
	a.see(`trl: sh: the daemon was stopped`)
	a.clean()
	if _, err := os.Lstat(p.Socket); err == nil {
		t.Error("another daemon was started")
	}
}
