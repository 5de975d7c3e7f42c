package attach_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// with is the place with other variables in the environment.
func (p *place) with(env ...string) *place {
	q := *p
	q.env = slices.Clone(p.env)
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		q.env = slices.DeleteFunc(q.env, func(have string) bool { return strings.HasPrefix(have, name+"=") })
		q.env = append(q.env, kv)
	}
	return &q
}

// TestTerminalOfLines: on a terminal that cannot show screens, trl attach explains that in words.
func TestTerminalOfLines(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run(t, "new", "-t", "-d", "a", "--", "sh", "-c", "printf 'shown\\n'; sleep 1000")
	for _, term := range []string{"TERM=dumb", "TERM="} {
		dumb := p.with(term)
		for _, args := range [][]string{{"attach", "a"}, {"new", "-t", "b"}, {"record", "-o", p.work + "/x.cast"}} {
			s := dumb.sit(t, 80, 24, append([]string{p.trl}, args...)...)
			if status := s.left(); status == 0 {
				t.Errorf("%s %q: status 0", term, args)
			}
			s.see("can only show lines")
			if strings.Contains(s.everything(), "\x1b[") && strings.Contains(s.everything(), "\x1b[?") {
				t.Errorf("%s %q: wrote %q", term, args, s.everything())
			}
		}
		s := dumb.sit(t, 80, 24, p.trl, "attach", "a", "--force")
		s.see("^shown")
		s.press("\x1c")
		s.left()
	}
}

// TestTerminalWithoutUTF8: it gets ASCII, and every column stays in its place.
func TestTerminalWithoutUTF8(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const shown = "┌─ä日x•┐ \\033]2;ü\\007"
	for name, locale := range map[string][]string{"all": {"LC_ALL=C", "LANG=C.UTF-8"}, "none": {"LANG="}, "latin": {"LC_CTYPE=de_DE.ISO-8859-1"}} {
		s := p.with(locale...).sit(t, 80, 24, p.trl, "new", "-t", name, "--", "sh", "-c", "printf '"+shown+"end'; sleep 1000")
		s.see(`^\+-\?\?\?x\*\+ end`)
		for _, b := range []byte(s.everything()) {
			if b >= 0x80 {
				t.Fatalf("%s: wrote %q", name, s.everything())
			}
		}
		s.press("\x1c")
		s.left()
	}
	s := p.with("LC_ALL=C").sit(t, 80, 24, p.trl, "attach", "all", "--force")
	s.see(`^┌─ä日x•┐ end`)
	s.press("\x1c")
	s.left()
}

// TestClickInPartOfAScreen: in a window that is smaller than the terminal, the program gets the
// position of a click on the terminal's screen.
func TestClickInPartOfAScreen(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	owner := p.sit(t, 80, 24, p.trl, "new", "-t", "m", "--", "sh", "-c", `stty raw -echo; printf '\033[?1000;1006hready\033[20;60H'; cat -v`)
	owner.until("the cursor is in its place", func(s *vt.Terminal) bool { return s.Cursor().X == 59 && s.Cursor().Y == 19 })
	small := p.sit(t, 40, 10, p.trl, "attach", "m")
	var at vt.Cursor
	small.until("the mouse is on, and the cursor shown", func(s *vt.Terminal) bool {
		at = s.Cursor() // hidden while the window is drawn
		return s.Modes().Mouse == "vt200" && at.Visible && at.X > 0
	})
	// On the cell of the cursor, which is in column 60 and row 20.
	small.press("\x1b[<0;" + strconv.Itoa(at.X+1) + ";" + strconv.Itoa(at.Y+1) + "M")
	owner.see(`\^\[\[<0;60;20M`)
	small.press("\x1c")
	small.left()
	small.clean()
}

// TestSplitDetachKey: the key that detaches is known in the encoding of kitty, wherever it is
// cut into reads, and nothing of it is typed.
func TestSplitDetachKey(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run(t, "new", "-t", "-d", "k", "--", "sh", "-c", `stty raw -echo; printf '\033[>1uready\r\n'; cat -v`)
	const key = "\x1b[92;5u"
	for cut := 1; cut < len(key); cut++ {
		s := p.sit(t, 80, 24, p.trl, "attach", "k")
		s.until("the keys are encoded", func(v *vt.Terminal) bool { return v.Modes().KittyFlags == 1 })
		s.press(key[:cut])
		for s.pty.Unread() > 0 { // the program has read it before the rest comes
			time.Sleep(time.Millisecond)
		}
		s.press(key[cut:])
		if status := s.left(); status != 0 {
			t.Errorf("cut at %d: status %d", cut, status)
		}
		s.clean()
	}
}
