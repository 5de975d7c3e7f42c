package attach_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

// need skips a test where a program is not installed.
func need(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip("NOT TESTED:", err)
	}
}

// screenOf is what the daemon says that a session shows.
func (p *place) screenOf(t *testing.T, name string) api.SessionScreenResult {
	t.Helper()
	res, err := p.client(t).SessionScreen(t.Context(), api.SessionScreenParams{SessionID: name})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// same waits until a person sees exactly what the session shows: text, cursor, modes.
func (p *place) same(t *testing.T, s *person, name string) {
	t.Helper()
	c := p.client(t)
	var res api.SessionScreenResult
	s.until("the person sees what the session shows", func(shown *vt.Terminal) bool {
		var err error
		if res, err = c.SessionScreen(t.Context(), api.SessionScreenParams{SessionID: name}); err != nil {
			t.Fatal(err)
		}
		cursor, modes := shown.Cursor(), shown.Modes()
		return textOf(shown) == strings.TrimRight(res.Text, "\n") &&
			cursor.Visible == res.Cursor.Visible && (!cursor.Visible || cursor.X == res.Cursor.X && cursor.Y == res.Cursor.Y) &&
			shown.Alternate() == res.Alternate && shown.Title() == res.Title &&
			modes.Mouse == res.Modes.Mouse && modes.BracketedPaste == res.Modes.BracketedPaste && modes.ApplicationCursor == res.Modes.ApplicationCursor &&
			modes.KittyFlags == res.Modes.KittyFlags
	})
}

// TestProgramsSurvive: a viewer that attaches again sees the same screen and can continue.
func TestProgramsSurvive(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var long strings.Builder
	for i := range 300 {
		long.WriteString(strings.Repeat("line ", i%7) + "number " + string(rune('a'+i%26)) + " ünïcode 漢字\n")
	}
	if err := os.WriteFile(filepath.Join(p.work, "long.txt"), []byte(long.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program []string
		sees    string
		keys    string // typed on the first visit
		then    string // is seen after that
		more    string // typed on the second visit
		last    string // is seen then
		end     string
	}{
		{[]string{"vim", "-u", "NONE", "-N", "long.txt"}, "漢字", "Gohello from vim\x1b", "hello from vim", "ggdd", "line number b", ":q!\r"},
		{[]string{"less", "long.txt"}, "漢字", " ", "number y", "G", `\(END\)`, "q"},
		{[]string{"htop", "-d", "100"}, "PID", "", "F1", "\x1b[B", "PID", "q"},
	} {
		t.Run(c.program[0], func(t *testing.T) {
			t.Parallel()
			need(t, c.program[0])
			name := "p-" + c.program[0]
			a := p.sit(t, 90, 30, append([]string{p.trl, "new", "-t", name, "--"}, c.program...)...)
			a.see(c.sees)
			a.press(c.keys)
			a.see(c.then)
			p.same(t, a, name)
			a.press("\x1c")
			if status := a.left(); status != 0 {
				t.Errorf("detached with %d", status)
			}
			a.clean()
			b := p.sit(t, 90, 30, p.trl, "attach", name)
			b.see(c.then)
			p.same(t, b, name)
			b.press(c.more)
			b.see(c.last)
			p.same(t, b, name)
			b.resize(100, 40)
			b.until("the program fills the window", func(shown *vt.Terminal) bool {
				cols, rows := shown.Size()
				info := p.info(t, name)
				return info.Terminal.Cols == cols && info.Terminal.Rows == rows && shown.RowText(rows-2) != ""
			})
			p.same(t, b, name)
			b.press(c.end)
			if status := b.left(); status != 0 {
				t.Errorf("ended with %d", status)
			}
			b.clean()
		})
	}
}

// TestLeavingAnEditorShowsTheShell: also for a viewer that attached while the editor ran.
func TestLeavingAnEditorShowsTheShell(t *testing.T) {
	t.Parallel()
	need(t, "vim")
	p := newPlace(t)
	a := p.sit(t, 80, 24, p.trl, "new", "-t", "sh")
	a.see(`^\$`)
	a.press("echo before-$((1+1)); vim -u NONE -N\r")
	a.see(`^~`)
	a.press("\x1c")
	a.left()
	a.clean()
	b := p.sit(t, 80, 24, p.trl, "attach", "sh")
	b.see(`^~`)
	b.press(":q\r")
	b.see(`(?s)^before-2.*\n\$`)
	p.same(t, b, "sh")
	b.press("echo after\r")
	b.see(`^(\$ )?after$`)
	p.same(t, b, "sh")
	b.press("exit\r")
	b.left()
	b.clean()
}
