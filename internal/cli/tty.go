package cli

import (
	"os"

	"golang.org/x/term"

	"github.com/trl-dev/trl/api"
)

// tty is the terminal that a person sits at. It is used by one goroutine, except for
// cook, which may be called at any time.
type tty struct {
	in, out *os.File
	cooked  *term.State // as it was; nil before raw
}

// terminal is the person's, if there is one on both sides.
func (a *app) terminal() (*tty, bool) {
	if !a.stdout.tty || !term.IsTerminal(int(a.stdin.Fd())) {
		return nil, false
	}
	return &tty{in: a.stdin, out: a.stdout.f}, true
}

// raw makes every key arrive at once and as it is.
func (t *tty) raw() error {
	state, err := term.MakeRaw(int(t.in.Fd()))
	if err == nil && t.cooked == nil {
		t.cooked = state
	}
	return err
}

// cook undoes raw.
func (t *tty) cook() {
	if t.cooked != nil {
		_ = term.Restore(int(t.in.Fd()), t.cooked)
	}
}

// size is how large the terminal is; 0 and 0 when it does not know.
func (t *tty) size() (cols, rows int) {
	cols, rows, err := term.GetSize(int(t.out.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return 0, 0
	}
	return cols, rows
}

// measured is a size as the daemon takes it; nil when it was not measured, or no terminal
// of a session can have it.
func measured(cols, rows int) *api.TerminalSize {
	if cols < api.MinCols || rows < api.MinRows || cols > api.MaxCols || rows > api.MaxRows {
		return nil
	}
	return &api.TerminalSize{Cols: cols, Rows: rows}
}
