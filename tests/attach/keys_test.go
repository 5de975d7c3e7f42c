package attach_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNobodyElseAnswers: the terminal of the person would answer too, if it were asked.
func TestNobodyElseAnswers(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	p := newPlace(t)
	script := `
import sys, tty
tty.setraw(0)
sys.stdout.write("\x1b[H\x1b[c\x1b[>c\x1b[6n\x1b[5n\x1b[?2004$p\x1b[>q\x1b]11;?\x07\x1b]10;?\x1b\\\x1b]4;1;?\x07\x1b[?u\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x05\x1bZ\x1b[18t\x1b[21t\x1b]52;c;?\x07ready")
sys.stdout.flush()
got = b""
while not got.endswith(b"END"):
    got += sys.stdin.buffer.raw.read(1000)
open("answers", "ab").write(got[:-3])
`
	if err := os.WriteFile(filepath.Join(p.work, "ask.py"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	answers := func() string {
		b, err := os.ReadFile(filepath.Join(p.work, "answers"))
		if err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(p.work, "answers"))
		return string(b)
	}
	// The answers without a viewer.
	p.run(t, "new", "-t", "-d", "alone", "--", "python3", "ask.py")
	p.run(t, "wait", "alone", "--text", "ready")
	p.run(t, "send", "alone", "-l", "END")
	p.run(t, "wait", "alone", "--exit")
	want := answers()
	if !strings.HasPrefix(want, "\x1b[?") {
		t.Fatalf("nobody answers: %q", want)
	}
	// In a window of the same size, where the output passes, and in another.
	for _, cols := range []int{80, 100} {
		p.run(t, "new", "-t", "-d", "seen", "--", "sh", "-c", "read go; exec python3 ask.py")
		var first *person
		if cols != 80 {
			first = p.sit(t, 80, 24, p.trl, "attach", "seen")
			first.entered()
		}
		a := p.sit(t, cols, 24, p.trl, "attach", "seen")
		a.entered()
		a.press("go\r")
		a.see("ready")
		a.press("END")
		if first != nil {
			first.left()
		}
		if status := a.left(); status != 0 {
			t.Errorf("status %d", status)
		}
		if got := answers(); got != want {
			t.Errorf("with a viewer of %d columns: answers %q, want %q", cols, got, want)
		}
		a.clean()
	}
}

// TestDetachKey: in every way that a terminal may send it, and not in what is pasted.
func TestDetachKey(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run(t, "new", "-t", "-d", "sh", "--", "sh", "-c", `printf '\033[?2004h'; stty -echo -isig -icanon; cat -v`)
	a := p.sit(t, 80, 24, p.trl, "attach", "sh")
	a.entered()
	a.press("\x1b[200~pasted\x1cin\x1b[201~")
	a.see(`pasted\^\\in`)
	a.press("a\x1b[92;5u")
	if status := a.left(); status != 0 {
		t.Errorf("status %d", status)
	}
	a.clean()
	b := p.sit(t, 80, 24, p.trl, "attach", "sh", "--detach-key", "ctrl-]")
	b.see(`in\^\[\[201~a`) // what was typed before the key is there
	b.press("\x1cmore")
	b.see(`\^\\more`)
	b.press("\x1d")
	b.left()
	b.clean()
	c := p.sit(t, 80, 24, p.trl, "attach", "sh", "--detach-key", "none")
	c.see(`more`)
	c.press("\x1c\x1d\x1b[92;5ulast")
	c.see(`\^\\\^\]\^\[\[92;5ulast`)
	p.run(t, "kill", "sh")
	if status := c.left(); status == 0 {
		t.Error("a program that was killed ended well")
	}
	c.clean()
}
