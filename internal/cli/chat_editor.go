package cli

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
	// lineBreak stands for the end of a line in a message that is being edited.
	lineBreak = "⏎"
	// mostPasted is how many characters of what is pasted are shown to be edited. More, and
	// what has several lines, is named in the line and put in its place when that is sent.
	mostPasted = 400

	pasteOn, pasteOff        = "\x1b[?2004h", "\x1b[?2004l"
	pasteBegins, pasteEnds   = "\x1b[200~", "\x1b[201~"
	probe                    = "\x07" // means nothing to the editor, but makes it tell its line
	clearLine                = "\x05\x15"
	keyInterrupt, keySuspend = 0x03, 0x1a
)

// newLineKeys end a line of the message, and do not send it: Alt-Enter, and Shift-Enter where
// the terminal tells it from Enter.
var newLineKeys = []string{"\x1b\r", "\x1b\n", "\x1b[13;2u", "\x1b[13;3u", "\x1b[27;2;13~", "\x1b[27;3;13~"}

// editor is where a person types messages, at the bottom of their terminal: what is written
// meanwhile goes above the line that they edit. The editing is that of golang.org/x/term, which
// may be written to from any goroutine while it edits, asks the terminal nothing, and does
// nothing before it is used; keys that it does not know are translated before it sees them.
//
// Goroutines: one that reads the terminal, one that edits, and one that follows the size. The
// first ends with the program, because a read of a terminal cannot be ended.
type editor struct {
	tty        *ui.Terminal
	term       *term.Terminal
	complete   func(line string) []string // what a line that begins so may go on to
	interrupts chan struct{}              // of capacity 1: Ctrl-C was pressed
	raw        chan []byte
	done       chan struct{} // closed by close
	resized    chan os.Signal

	// Used by Read alone.
	ready []byte // for the editor
	held  []byte // the beginning of a key

	mu     sync.Mutex
	begun  time.Time         // guarded by mu; when the line that is being typed was begun; zero when it is empty
	read   time.Time         // guarded by mu; when something was typed last
	pasted map[string]string // guarded by mu; by what stands for it
	prompt string            // guarded by mu
	part   []byte            // guarded by mu; of a line that is being written
	quiet  bool              // guarded by mu; what is typed is no message, and is not remembered
	past   []string          // guarded by mu; messages, the last one first
	closed bool              // guarded by mu
}

// newEditor takes over the terminal until close.
func newEditor(t *ui.Terminal) (*editor, error) {
	e := &editor{
		tty: t, interrupts: make(chan struct{}, 1), raw: make(chan []byte), done: make(chan struct{}),
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
	go e.keys()
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

// close gives the terminal back, with the cursor on a line of its own.
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

// lines passes on what is typed, a message at a time, until the end.
func (e *editor) lines(ctx context.Context, out chan<- typed) {
	defer close(out)
	for {
		line, err := e.term.ReadLine()
		if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
			return
		}
		e.mu.Lock()
		t := typed{text: e.expand(line), at: e.begun}
		if t.at.IsZero() {
			t.at = e.read
		}
		e.begun = time.Time{}
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

// expand is a line as it is meant. It needs mu.
func (e *editor) expand(line string) string {
	line = strings.ReplaceAll(line, lineBreak, "\n")
	for name, text := range e.pasted {
		line = strings.ReplaceAll(line, name, text)
	}
	return line
}

// typing is when the line that is being typed was begun; zero when there is none.
func (e *editor) typing() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.begun
}

// setPrompt shows another prompt before the line. Quiet says that what is typed there is not
// to be remembered.
func (e *editor) setPrompt(prompt string) {
	e.mu.Lock()
	same := e.prompt == prompt
	e.prompt = prompt
	e.mu.Unlock()
	if same {
		return
	}
	e.term.SetPrompt(prompt)
	_, _ = e.term.Write(nil) // shows it
}

// remember says whether the lines that follow are messages.
func (e *editor) remember(on bool) {
	e.mu.Lock()
	e.quiet = !on
	e.mu.Unlock()
}

// Write writes above the line that is being edited. Only whole lines can be: the beginning of
// one waits for its end, or until it is as long as the terminal is wide.
func (e *editor) Write(p []byte) (int, error) {
	cols, _ := e.tty.Size()
	e.mu.Lock()
	e.part = append(e.part, p...)
	whole := bytes.LastIndexByte(e.part, '\n') + 1
	out := bytes.Clone(e.part[:whole])
	e.part = e.part[whole:]
	if cols > 0 {
		for columns(e.part) >= cols {
			n := fitting(e.part, cols)
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

// key is told of every key that is no editing, and of the line as it is.
func (e *editor) key(line string, pos int, key rune) (string, int, bool) {
	e.mu.Lock()
	switch {
	case line == "" && (key < 0x20 || key > 0xd800):
		e.begun = time.Time{}
	case e.begun.IsZero():
		e.begun = e.read
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
		go func() { _, _ = e.Write([]byte(strings.Join(words, "  ") + "\n")) }() // the editor waits for this function
	}
	return common + line[pos:], len(common), true
}

// keys reads the terminal.
func (e *editor) keys() {
	defer close(e.raw)
	for {
		b := make([]byte, 4<<10)
		n, err := e.tty.Read(b)
		if n > 0 {
			select {
			case e.raw <- b[:n]:
			case <-e.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Read gives the editor what was typed.
func (e *editor) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		select {
		case b, ok := <-e.raw:
			if !ok {
				return 0, io.EOF
			}
			e.mu.Lock()
			e.read = time.Now()
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

// translate makes of what was typed what the editor knows.
func (e *editor) translate(b []byte) {
	b = append(e.held, b...)
	e.held = nil
	for len(b) > 0 {
		n, out := e.next(b)
		if n == 0 { // more is to come
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

// next is the length of the first key, and what it is for the editor; 0 when it is not
// complete.
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

// paste is what is put into the line for what was pasted.
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

// suspend stops the program, as Ctrl-Z does elsewhere.
func (e *editor) suspend() {
	_, _ = io.WriteString(e.tty.Out, pasteOff+"\r\n")
	e.tty.Restore()
	_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	_ = e.tty.Raw()
	_, _ = io.WriteString(e.tty.Out, pasteOn)
	e.measure()
}

// history is the messages that were typed.
type history struct{ e *editor }

// Add takes a line that was typed.
func (h history) Add(line string) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if strings.TrimSpace(line) != "" && !h.e.quiet && (len(h.e.past) == 0 || h.e.past[0] != line) {
		h.e.past = append([]string{line}, h.e.past...)
	}
}

// Len is how many there are.
func (h history) Len() int {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return len(h.e.past)
}

// At is one of them; 0 is the last.
func (h history) At(i int) string {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return h.e.past[i]
}
