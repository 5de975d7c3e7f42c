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
	lineBreak = "⏎"
	// mostPasted is how many pasted characters are put into the line. For longer text and for
	// several lines, a placeholder is shown, which the text replaces when the line is sent.
	mostPasted = 400

	pasteOn, pasteOff        = "\x1b[?2004h", "\x1b[?2004l"
	pasteBegins, pasteEnds   = "\x1b[200~", "\x1b[201~"
	probe                    = "\x07" // the editor ignores it, but reports its line
	clearLine                = "\x05\x15"
	keyInterrupt, keySuspend = 0x03, 0x1a
)

// newLineKeys add a line to the message without sending it: Alt-Enter, and Shift-Enter if the
// terminal distinguishes it from Enter.
var newLineKeys = []string{"\x1b\r", "\x1b\n", "\x1b[13;2u", "\x1b[13;3u", "\x1b[27;2;13~", "\x1b[27;3;13~"}

// editor is the line at the bottom of the terminal in which a person types messages; other
// output appears above it. golang.org/x/term edits the line: any goroutine may write to it while
// it edits, it sends the terminal no queries, and it costs nothing before its first use. The
// editor translates keys that the library does not know.
//
// Goroutines: one reads the terminal, one edits, and one follows the size of the window. All end
// with close.
type editor struct {
	tty        *ui.Terminal
	term       *term.Terminal
	complete   func(line string) []string // returns the completions of a line
	interrupts chan struct{}              // of capacity 1: Ctrl-C was pressed
	chunks     chan []byte
	done       chan struct{} // closed by close
	resized    chan os.Signal

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
	closed    bool              // guarded by mu
}

// newEditor takes over the terminal until close.
func newEditor(t *ui.Terminal) (*editor, error) {
	e := &editor{
		tty: t, interrupts: make(chan struct{}, 1), chunks: make(chan []byte), done: make(chan struct{}),
		resized: make(chan os.Signal, 1), pasted: map[string]string{},
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
	go ui.ReadChunks(e.tty, 4<<10, e.chunks, e.done)
	go func() {
		for {
			select {
			case <-e.resized:
				e.measure()
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

// key is called by the library for every key that does not edit, with the current line.
func (e *editor) key(line string, pos int, key rune) (string, int, bool) {
	e.mu.Lock()
	switch {
	case line == "" && (key < 0x20 || key > 0xd800):
		e.lineBegun = time.Time{}
	case e.lineBegun.IsZero():
		e.lineBegun = e.lastRead
	}
	e.mu.Unlock()
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
		go func() { _, _ = e.Write([]byte(strings.Join(words, "  ") + "\n")) }() // not here: the library holds its lock
	}
	return common + line[pos:], len(common), true
}

// Read returns translated keys to the library.
func (e *editor) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		select {
		case b, ok := <-e.chunks:
			if !ok {
				return 0, io.EOF
			}
			e.mu.Lock()
			e.lastRead = time.Now()
			e.mu.Unlock()
			e.translate(b)
		case <-e.done:
			return 0, io.EOF
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// translate turns typed bytes into keys that the library knows.
func (e *editor) translate(b []byte) {
	b = append(e.held, b...)
	e.held = nil
	for len(b) > 0 {
		n, out := e.next(b)
		if n == 0 { // the rest of the sequence is missing
			e.held = bytes.Clone(b)
			break
		}
		e.ready = append(e.ready, out...)
		b = b[n:]
	}
	if len(e.ready) > 0 {
		e.ready = append(e.ready, probe...)
	}
}

// next returns the length of the first key and its translation; 0 if the key is not complete.
func (e *editor) next(b []byte) (n int, out []byte) {
	switch {
	case b[0] == keyInterrupt:
		select {
		case e.interrupts <- struct{}{}:
		default:
		}
		return 1, []byte(clearLine)
	case b[0] == keySuspend:
		e.suspend()
		return 1, nil
	case b[0] != 0x1b:
		return 1, b[:1]
	case bytes.HasPrefix(b, []byte(pasteBegins)):
		end := bytes.Index(b, []byte(pasteEnds))
		if end < 0 {
			return 0, nil
		}
		return end + len(pasteEnds), e.paste(string(b[len(pasteBegins):end]))
	}
	for _, key := range newLineKeys {
		switch {
		case bytes.HasPrefix(b, []byte(key)):
			return len(key), []byte(lineBreak)
		case strings.HasPrefix(key, string(b)):
			return 0, nil
		}
	}
	if strings.HasPrefix(pasteBegins, string(b)) {
		return 0, nil
	}
	return 1, b[:1]
}

// paste returns what to put into the line for pasted text.
func (e *editor) paste(text string) []byte {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(text, "\ufffd"))
	if !strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r == 0x7f }) && utf8.RuneCountInString(text) <= mostPasted {
		return []byte(text)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	name := fmt.Sprintf("[pasted %d: %s]", len(e.pasted)+1, ui.Plural(len(ui.Lines(text)), "line", "lines"))
	e.pasted[name] = text
	return []byte(name)
}

// suspend stops trl, as Ctrl-Z does elsewhere.
func (e *editor) suspend() {
	_, _ = io.WriteString(e.tty.Out, pasteOff+"\r\n")
	e.tty.Restore()
	_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	_ = e.tty.Raw()
	_, _ = io.WriteString(e.tty.Out, pasteOn)
	e.measure()
}

// history is the list of earlier messages, for the arrow keys.
type history struct{ e *editor }

// Add adds a line.
func (h history) Add(line string) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if strings.TrimSpace(line) != "" && !h.e.quiet && (len(h.e.past) == 0 || h.e.past[0] != line) {
		h.e.past = append([]string{line}, h.e.past...)
	}
}

// Len returns the number of messages.
func (h history) Len() int {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return len(h.e.past)
}

// At returns a message; 0 is the newest.
func (h history) At(i int) string {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return h.e.past[i]
}
