package attach_test

import (
	"strings"
	"testing"
)

// TestRunTerminal: trl run -t gives a command the person's window, all of its keys and
// sizes, and its exit status.
func TestRunTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a := p.sit(t, 70, 20, p.trl, "run", "-t", `stty size; read x; echo "got <$x>"; until [ "$(stty size)" = "25 90" ]; do sleep 0.01; done; echo resized; exit 6`)
	a.see(`^20 70$`)
	a.press("some text\r")
	a.see(`^got <some text>$`)
	a.resize(90, 25)
	a.see(`^resized$`)
	if status := a.left(); status != 6 {
		t.Errorf("status %d", status)
	}
	if text := a.everything(); strings.Contains(text, "trl:") {
		t.Errorf("trl says something:\n%s", text)
	}
	a.clean()

	// The key that leaves a terminal is the program's.
	b := p.sit(t, 70, 20, p.trl, "run", "-t", "--", "sh", "-c", "stty -isig -icanon; echo ready; head -c 1 | od -An -tx1")
	b.see(`^ready$`)
	b.press("\x1c")
	b.see(`1c`)
	if status := b.left(); status != 0 {
		t.Errorf("status %d", status)
	}
	if got := p.run(t, "ls", "-q"); got != "" {
		t.Errorf("left behind: %s", got)
	}
}

// TestAttachWithoutName: the only terminal, or one of a list.
func TestAttachWithoutName(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	none := p.sit(t, 80, 24, p.trl, "attach")
	none.see(`there is no terminal to attach to`)
	none.left()
	p.run(t, "new", "-t", "-d", "one", "--", "sh", "-c", "echo I am one; cat")
	a := p.sit(t, 80, 24, p.trl, "attach")
	a.see(`^I am one$`)
	a.press("\x1c")
	a.left()
	p.run(t, "new", "-t", "-d", "two", "--", "sh", "-c", "echo I am two; cat")
	b := p.sit(t, 80, 24, p.trl, "attach")
	b.see(`attach to which\? \[1\]`)
	b.press("one\r")
	b.see(`^I am one$`)
	b.press("\x1c")
	b.left()
	c := p.sit(t, 80, 24, p.trl, "attach")
	c.see(`attach to which`)
	c.press("7\r")
	c.see(`"7" is not in the list`)
	if status := c.left(); status != 125 {
		t.Errorf("status %d", status)
	}
}

// TestAttachOrCreate: trl new -A starts a terminal once.
func TestAttachOrCreate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for i := range 2 {
		a := p.sit(t, 80, 24, p.trl, "new", "-A", "work", "sh", "-c", "echo I am $$; cat")
		a.see(`^I am \d+$`)
		a.press("\x1c")
		if status := a.left(); status != 0 {
			t.Errorf("%d: status %d", i, status)
		}
		if got := strings.Fields(p.run(t, "ls", "-q")); len(got) != 1 {
			t.Errorf("%d: %q", i, got)
		}
	}
	a := p.sit(t, 80, 24, p.trl, "new", "-A", "--record", "-e", "A=1", "work", "sh")
	a.see(`^I am \d+$`)
	a.press("\x1c")
	a.see(`terminal "work" existed already, so --record, --env, the program sh had no`)
	if status := a.left(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestKeyForInnerTrl: pressed twice, the key that leaves reaches a trl inside the terminal.
func TestKeyForInnerTrl(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run(t, "new", "-t", "-d", "inner", "--", "sh", "-c", "echo inside; cat")
	a := p.sit(t, 80, 24, p.trl, "new", "-t", "outer")
	a.see(`^\$ $|^\$$`)
	a.press(p.trl + " attach inner\r")
	a.see(`^inside$`)
	a.press("\x1c\x1c")
	a.see(`trl: inner: detached; it keeps running`)
	a.press("echo still-$((40+2))\r")
	a.see(`^(\$ )?still-42$`) // the shell may prompt only after what was typed
	a.press("\x1c")
	a.left()
	a.see(`trl: outer: detached; it keeps running`)
}
