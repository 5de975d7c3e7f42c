package attach_test

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// TestTwoViewersOfDifferentSize: the first owns the size, the other sees a part or has
// space around it, and takes it over with --take or when the first leaves.
func TestTwoViewersOfDifferentSize(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	owner := p.sit(t, 80, 24, p.trl, "new", "-t", "sh")
	owner.see(`^\$`)
	owner.press("printf 'left%72sright\\n' ''; stty size\r")
	owner.see(`^(\$ )?24 80$`)

	large := p.sit(t, 120, 40, p.trl, "attach", "sh")
	large.see(`^left {72}righ$`)
	large.see(`sh: 80x24, the size of another viewer; --take makes it yours`)
	small := p.sit(t, 40, 10, p.trl, "attach", "sh")
	small.see(`^(\$ )?24 80$`)
	small.see(`(?s)^left\nt\n24 80`)
	// All may type, and all see it.
	small.press("echo from-small\r")
	for _, s := range []*person{owner, large, small} {
		s.see(`^(\$ )?from-small$`)
	}
	small.press("printf '%60s' ''; echo far\r") // the view follows the cursor
	owner.see(`(?s)^ {60}far\n\$`)
	large.press("echo from-large\r")
	for _, s := range []*person{owner, large, small} {
		s.see(`^(\$ )?from-large$`)
	}
	if info := p.info(t, "sh"); info.Terminal.Cols != 80 || info.Terminal.Rows != 24 || info.Terminal.Viewers != 3 {
		t.Errorf("%+v", info.Terminal)
	}
	// A window that does not own the size can change without a trace.
	large.resize(100, 30)
	large.see(`sh: 80x24, the size`)
	owner.press("stty size\r")
	owner.see(`(?s)^24 80\n.*^(\$ )?24 80$`)

	taker := p.sit(t, 100, 28, p.trl, "attach", "sh", "--take")
	taker.see(`from-large`)
	taker.press("clear; stty size\r")
	taker.see(`^28 100$`)
	owner.see(`^28 100$`)
	taker.press("\x1c")
	taker.left()
	taker.clean()
	// It goes to who has been there longest.
	owner.until("the owner has its size back", func(*vt.Terminal) bool {
		info := p.info(t, "sh")
		return info.Terminal.Cols == 80 && info.Terminal.Rows == 24
	})
	owner.press("clear; stty size\r")
	owner.see(`^(\$ )?24 80$`)
	p.same(t, owner, "sh")
	for _, s := range []*person{small, large, owner} {
		s.press("\x1c")
		s.left()
		s.clean()
	}
	if info := p.info(t, "sh"); info.Terminal.Viewers != 0 {
		t.Errorf("%+v", info.Terminal)
	}
}

// TestWindowIsFollowed: the terminal has the size of the window, also when it changes
// many times.
func TestWindowIsFollowed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a := p.sit(t, 80, 24, p.trl, "new", "-t", "sh")
	a.see(`^\$`)
	a.press("for i in 1 2 3 4 5 6 7 8 9; do echo line-$i; done\r")
	a.see(`^(\$ )?line-9$`)
	for _, size := range [][2]int{{100, 30}, {60, 10}, {61, 11}, {132, 50}, {80, 24}, {70, 20}} {
		a.resize(size[0], size[1])
	}
	p.follows(t, a)
	a.press("stty size\r")
	a.see(`^(\$ )?20 70$`)
	p.same(t, a, "sh")
	a.press("exit\r")
	if status := a.left(); status != 0 {
		t.Errorf("status %d", status)
	}
	a.clean()
}

// TestReadOnlyTypesNothing: and leaves with Ctrl-C too.
func TestReadOnlyTypesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run(t, "new", "-t", "-d", "sh")
	p.run(t, "wait", "sh", "--input")
	a := p.sit(t, 100, 30, p.trl, "attach", "sh", "--read-only")
	a.see(`^\$`)
	a.see(`sh: 80x24, read-only`)
	a.press("echo typed\r")
	p.run(t, "send", "sh", "echo sent", "enter")
	a.see(`^(\$ )?sent$`)
	if text := p.screenOf(t, "sh").Text; strings.Contains(text, "typed") {
		t.Errorf("it was typed:\n%s", text)
	}
	a.press("\x03")
	if status := a.left(); status != 0 {
		t.Errorf("status %d", status)
	}
	a.clean()
}

// follows waits until the terminal of the session sh has the size of a window, and the
// window shows it.
func (p *place) follows(t *testing.T, s *person) {
	t.Helper()
	s.until("the terminal follows the window", func(shown *vt.Terminal) bool {
		info := p.info(t, "sh")
		cols, rows := shown.Size()
		return info.Terminal.Cols == cols && info.Terminal.Rows == rows
	})
	p.same(t, s, "sh")
}
