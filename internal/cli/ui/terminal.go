package ui

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/trl-dev/trl/api"
)

// LeaveTime is how long a program that leaves waits for its terminal: for the end of a read,
// or for the next byte that the terminal accepts.
const LeaveTime = 2 * time.Second

// Terminal is the terminal that a person sits at. One goroutine uses it, except that another
// may call Read, and any may call Restore and Stop.
type Terminal struct {
	In, Out *os.File
	cooked  *term.State // the state before Raw; nil before the first Raw

	reading     chan struct{} // of capacity 1; full during a Read
	wake, woken *os.File      // a pipe: Stop closes wake, which ends a Read that waits
}

// NewTerminal returns the terminal that in reads and out writes.
func NewTerminal(in, out *os.File) *Terminal {
	return &Terminal{In: in, Out: out, reading: make(chan struct{}, 1)}
}

// Raw makes every key arrive at once and unchanged.
func (t *Terminal) Raw() (err error) {
	if t.wake == nil {
		if t.woken, t.wake, err = os.Pipe(); err != nil {
			return err
		}
	}
	state, err := term.MakeRaw(int(t.In.Fd()))
	if err == nil && t.cooked == nil {
		t.cooked = state
	}
	return err
}

// RawAgain is Raw for a program that was stopped and continued. It reports whether the terminal was no
// longer raw.
func (t *Terminal) RawAgain() (changed bool, err error) {
	before, err := term.GetState(int(t.In.Fd()))
	if err != nil {
		return false, err
	}
	if err := t.Raw(); err != nil {
		return false, err
	}
	now, err := term.GetState(int(t.In.Fd()))
	return err == nil && *now != *before, err
}

// Restore undoes Raw.
func (t *Terminal) Restore() {
	if t.cooked != nil {
		_ = term.Restore(int(t.In.Fd()), t.cooked)
	}
}

// Read reads keys, after Raw and until Stop.
func (t *Terminal) Read(p []byte) (int, error) {
	t.reading <- struct{}{}
	defer func() { <-t.reading }()
	in, stop := int(t.In.Fd()), int(t.woken.Fd())
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
			return t.In.Read(p)
		}
	}
}

// Stop ends Read. Later keys are for the program that reads the terminal next, such as the
// shell. Call it once, after Raw.
func (t *Terminal) Stop() {
	_ = t.wake.Close()
	select {
	case t.reading <- struct{}{}:
	case <-time.After(LeaveTime): // another program took the key that woke this Read
	}
}

// Size returns the size of the terminal, 0 and 0 if the terminal does not know it.
func (t *Terminal) Size() (cols, rows int) {
	cols, rows, err := term.GetSize(int(t.Out.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return 0, 0
	}
	return cols, rows
}

// ValidSize returns a size for the daemon, nil if the size is unknown or no terminal of a
// session can have it.
func ValidSize(cols, rows int) *api.TerminalSize {
	if cols < api.MinCols || rows < api.MinRows || cols > api.MaxCols || rows > api.MaxRows {
		return nil
	}
	return &api.TerminalSize{Cols: cols, Rows: rows}
}

// knowsEscapes reports whether the terminal acts on escape sequences. One without a type, or of the
// type dumb or unknown, such as the terminal in an editor, prints them.
func knowsEscapes() bool {
	switch os.Getenv("TERM") {
	case "", "dumb", "unknown":
		return false
	}
	return true
}

// CheckWindow returns an error if the terminal cannot show a screen, because it acts on no escape
// sequences.
func CheckWindow(what, instead string) error {
	if knowsEscapes() {
		return nil
	}
	name := cmp.Or(os.Getenv("TERM"), "not set")
	return WithHint(fmt.Errorf("%s needs another terminal: yours can only show lines (TERM is %s)", what, name), "%s", instead)
}
