package cli

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/trl-dev/trl/api"
)

// tty is the terminal that a person sits at. It is used by one goroutine, except for
// Read, which another may call, and for cook and stop, which may be called at any time.
type tty struct {
	in, out *os.File
	cooked  *term.State // as it was; nil before raw

	reading     chan struct{} // full during a Read
	wake, woken *os.File      // a pipe; stop closes wake and so ends the Read that waits
}

func newTTY(in, out *os.File) *tty {
	return &tty{in: in, out: out, reading: make(chan struct{}, 1)}
}

// terminal is the person's, if there is one on both sides.
func (a *app) terminal() (*tty, bool) {
	if !a.stdout.tty || !term.IsTerminal(int(a.stdin.Fd())) {
		return nil, false
	}
	return newTTY(a.stdin, a.stdout.f), true
}

// raw makes every key arrive at once and as it is.
func (t *tty) raw() (err error) {
	if t.wake == nil {
		if t.woken, t.wake, err = os.Pipe(); err != nil {
			return err
		}
	}
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

// Read reads what is typed, after raw and until stop.
func (t *tty) Read(p []byte) (int, error) {
	t.reading <- struct{}{}
	defer func() { <-t.reading }()
	in, stop := int(t.in.Fd()), int(t.woken.Fd())
	for {
		var ready unix.FdSet // select, because poll knows no terminals on macOS
		ready.Set(in)
		ready.Set(stop)
		_, err := unix.Select(max(in, stop)+1, &ready, nil, nil, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case ready.IsSet(stop):
			return 0, io.EOF
		default:
			return t.in.Read(p)
		}
	}
}

// stop ends Read. What is typed from now on is for the program that reads the terminal next,
// such as the shell. It is called once, after raw.
func (t *tty) stop() {
	_ = t.wake.Close()
	select {
	case t.reading <- struct{}{}:
	case <-time.After(leaveTime): // another program took what this Read was about to get
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
