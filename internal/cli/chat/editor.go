package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/trl-dev/trl/internal/cli/ui"
)

const (
	// lineBreak is shown for a line break in the message that the person edits.
	lineBreak         = "⏎"
	pasteOn, pasteOff = "\x1b[?2004h", "\x1b[?2004l"
)

// editor is the line at the bottom of the terminal in which a person types messages; other
// output appears above it. golang.org/x/term edits the line: any goroutine may write to it while
// it edits, it sends the terminal no queries, and it costs nothing before its first use. The
// editor translates keys that the library does not know.
//
// Goroutines: one reads the terminal, one edits, and one follows the size of the window and
// redraws the line after a stop. All end with close.
type editor struct {
	tty        *ui.Terminal
	term       *term.Terminal
	complete   func(line string) []string // returns the completions of a line
	interrupts chan struct{}              // of capacity 1: Ctrl-C was pressed
	chunks     chan []byte
	done       chan struct{} // closed by close
	resized    chan os.Signal
	continued  chan os.Signal
	canStop    func() bool // whether a shell would continue trl
	stop       func()      // stops trl until a shell continues it

	// Only Read uses these.
	ready []byte // translated keys for the library
	held  []byte // the beginning of a key's sequence

	mu        sync.Mutex
	lineBegun time.Time         // guarded by mu; when the person began the line; zero if it is empty
	lastRead  time.Time         // guarded by mu; when the person last typed
	pasted    map[string]string // guarded by mu; pasted text by placeholder
	prompt    string            // guarded by mu
	part      []byte            // guarded by mu; the beginning of a line of output
	quiet     bool              // guarded by mu; the line is no message, and stays out of the history
	past      []string          // guarded by mu; messages, newest first
	continues bool              // guarded by mu; the next line belongs to the newest message
	closed    bool              // guarded by mu
	suspended bool              // guarded by mu; suspend draws the line again
	line      string            // guarded by mu; the line that is edited
	pos       int               // guarded by mu; of the cursor in it
}

// newEditor takes over the terminal until close.
func newEditor(t *ui.Terminal) (*editor, error) {
	e := &editor{
		tty: t, interrupts: make(chan struct{}, 1), chunks: make(chan []byte), done: make(chan struct{}),
		resized: make(chan os.Signal, 1), continued: make(chan os.Signal, 1), canStop: canContinue, stop: stopProcess, pasted: map[string]string{},
	}
	if err := t.Raw(); err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	e.term = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e, t.Out}, "")
	e.term.AutoCompleteCallback = e.key
	e.term.History = history{e}
	e.measure()
	_, _ = io.WriteString(t.Out, pasteOn)
	signal.Notify(e.resized, unix.SIGWINCH)
	signal.Notify(e.continued, unix.SIGCONT)
	go ui.ReadChunks(e.tty, 4<<10, e.chunks, e.done)
	go func() {
		for {
			select {
			case <-e.resized:
				e.measure()
			case <-e.continued:
				e.takeBack()
			case <-e.done:
				return
			}
		}
	}()
	return e, nil
}

func (e *editor) measure() {
	if cols, rows := e.tty.Size(); cols > 0 {
		_ = e.term.SetSize(cols, rows)
	}
}

// close restores the terminal, with the cursor on an empty line.
func (e *editor) close() {
	e.mu.Lock()
	closed := e.closed
	e.closed = true
	e.mu.Unlock()
	if closed {
		return
	}
	e.setPrompt("")
	signal.Stop(e.resized)
	signal.Stop(e.continued)
	close(e.done)
	e.tty.Stop()
	_, _ = io.WriteString(e.tty.Out, "\r\x1b[K"+pasteOff)
	e.tty.Restore()
}

// lines passes on each line that the person enters, until the end.
func (e *editor) lines(ctx context.Context, out chan<- typedLine) {
	defer close(out)
	for {
		line, err := e.term.ReadLine()
		if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
			return
		}
		e.mu.Lock()
		t := typedLine{text: e.expandLocked(line), at: e.lineBegun}
		if t.at.IsZero() {
			t.at = e.lastRead
		}
		e.lineBegun = time.Time{}
		e.mu.Unlock()
		select {
		case out <- t:
		case <-ctx.Done():
			return
		case <-e.done:
			return
		}
	}
}

// expandLocked returns a line with its line breaks and pasted text.
func (e *editor) expandLocked(line string) string {
	line = strings.ReplaceAll(line, lineBreak, "\n")
	for name, text := range e.pasted {
		line = strings.ReplaceAll(line, name, text)
	}
	return line
}

// typing returns when the person began the line; zero if it is empty.
func (e *editor) typing() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lineBegun
}

// setPrompt changes the prompt before the line.
func (e *editor) setPrompt(prompt string) {
	e.mu.Lock()
	same := e.prompt == prompt
	e.prompt = prompt
	e.mu.Unlock()
	if same {
		return
	}
	e.term.SetPrompt(prompt)
	_, _ = e.term.Write(nil) // redraws the line
}

// remember sets whether the next lines are messages, which go into the history.
func (e *editor) remember(on bool) {
	e.mu.Lock()
	e.quiet = !on
	e.mu.Unlock()
}

// Write writes above the line that the person edits. It writes whole lines only: the beginning
// of a line waits for its end, or until it fills the width of the terminal.
func (e *editor) Write(p []byte) (int, error) {
	cols, _ := e.tty.Size()
	e.mu.Lock()
	e.part = append(e.part, p...)
	whole := bytes.LastIndexByte(e.part, '\n') + 1
	out := bytes.Clone(e.part[:whole])
	e.part = e.part[whole:]
	if cols > 0 {
		for ui.Columns(e.part) >= cols {
			n := ui.Fitting(e.part, cols)
			out = append(append(out, e.part[:n]...), '\n')
			e.part = bytes.TrimPrefix(e.part[n:], []byte{' '})
		}
	}
	closed := e.closed
	e.mu.Unlock()
	var err error
	switch {
	case closed:
		_, err = e.tty.Out.Write(out)
	case len(out) > 0:
		_, err = e.term.Write(out)
	}
	return len(p), err
}

// key is called by the library for every key that does not edit, with the current line. The
// library does not hold its lock meanwhile.
func (e *editor) key(line string, pos int, key rune) (string, int, bool) {
	e.mu.Lock()
	switch {
	case line == "" && (key < 0x20 || key > 0xd800):
		e.lineBegun = time.Time{}
	case e.lineBegun.IsZero():
		e.lineBegun = e.lastRead
	}
	e.line, e.pos = line, pos
	e.mu.Unlock()
	switch key {
	case keyDeleteNext:
		return line[:pos] + afterWord(line[pos:]), pos, true
	case keySuspend:
		if e.canStop() {
			e.suspend(line, pos)
		}
		return "", 0, false
	}
	if key != '\t' || e.complete == nil {
		return "", 0, false
	}
	words := e.complete(line[:pos])
	if len(words) == 0 {
		return "", 0, false
	}
	common := words[0]
	for _, w := range words[1:] {
		for !strings.HasPrefix(w, common) {
			_, n := utf8.DecodeLastRuneInString(common)
			common = common[:len(common)-n]
		}
	}
	if len(words) == 1 {
		common += " "
	} else if common == line[:pos] {
		_, _ = e.Write([]byte(strings.Join(words, "  ") + "\n"))
	}
	return common + line[pos:], len(common), true
}

// suspend stops trl, as Ctrl-Z does elsewhere. The shell writes below the line; later the line
// appears again below what the shell has written.
func (e *editor) suspend(line string, pos int) {
	_, _ = e.term.Write(nil) // shows what was typed at once with Ctrl-Z
	row, last := e.rows(line, pos)
	e.setSuspended(true)
	_, _ = io.WriteString(e.tty.Out, pasteOff+strings.Repeat("\r\n", last-row+1))
	e.tty.Restore()
	e.stop()
	_ = e.tty.Raw()
	e.redraw(row)
	e.setSuspended(false)
}

func (e *editor) setSuspended(on bool) {
	e.mu.Lock()
	e.suspended = on
	e.mu.Unlock()
}

// takeBack takes the terminal back after another process has stopped and continued trl. A shell may
// have used it meanwhile: then it is not as trl left it.
func (e *editor) takeBack() {
	e.mu.Lock()
	skip, line, pos := e.closed || e.suspended, e.line, e.pos
	e.mu.Unlock()
	if skip {
		return
	}
	row := 0
	if changed, _ := e.tty.RawAgain(); changed {
		row, _ = e.rows(line, pos)
	}
	e.redraw(row)
}

// rows returns the row of the cursor and the last row of a line, from 0.
func (e *editor) rows(line string, pos int) (row, last int) {
	cols, _ := e.tty.Size()
	if cols <= 0 {
		cols = 80 // as the library assumes
	}
	e.mu.Lock()
	prompt := ui.Columns([]byte(e.prompt))
	e.mu.Unlock()
	return (prompt + utf8.RuneCountInString(line[:pos])) / cols, (prompt + utf8.RuneCountInString(line)) / cols
}

// redraw shows the line again. The library clears the rows from that of the cursor up to the first one
// of the line: as many rows as given, which would be those of a shell, are left out.
func (e *editor) redraw(row int) {
	_, _ = io.WriteString(e.tty.Out, pasteOn+strings.Repeat("\r\n", row))
	_, _ = e.term.Write(nil)
	e.measure()
}

// canContinue reports whether a shell with job control could continue trl after a stop: whether its
// parent is in another process group of the same session, as for the kernel's own decision about
// SIGTSTP. Without one, as after ssh -t HOST trl chat, trl would be stopped forever.
func canContinue() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	parent := unix.Getppid()
	group, err := unix.Getpgid(parent)
	other, sidErr := unix.Getsid(parent)
	return err == nil && sidErr == nil && group != unix.Getpgrp() && other == session
}

// stopProcess returns once the process has been stopped and continued. The signal alone may stop
// it only after the call that sends it has returned.
func stopProcess() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if unix.Kill(unix.Getpid(), unix.SIGSTOP) == nil {
		<-continued
	}
}
