package chat

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/term"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// TestEditorSuspend: Ctrl-Z leaves the cursor below the line for the shell. Afterwards the prompt
// and the line appear again, and nothing that the shell wrote is cleared.
func TestEditorSuspend(t *testing.T) {
	const shell = "(shell)"
	long := strings.Repeat("x", 100)
	rows := "> " + long[:78] + "\r\n" + long[78:] // on a terminal of 80 columns
	for _, c := range []struct{ typed, before, after string }{
		{"", "\r\n", "\x1b[2D\x1b[K> "},
		{"half", "\r\n", "\x1b[6D\x1b[K> half"},
		{"half\x02", "\r\n", "\x1b[5D\x1b[K> half\x1b[D"},
		{long, "\r\n", "\r\n\x1b[22D\x1b[K\x1b[A\x1b[K" + rows},
		{long + "\x01", "\r\n\r\n", "\x1b[2D\x1b[K" + rows + "\x1b[A\x1b[20D"},
	} {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		e := &editor{tty: ui.NewTerminal(out, out), prompt: "> ", pasted: map[string]string{}, chunks: make(chan []byte, 2)}
		e.canStop, e.stop = func() bool { return true }, func() { _, _ = out.WriteString(shell) }
		e.term = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{e, out}, e.prompt)
		e.term.AutoCompleteCallback = e.key
		e.chunks <- []byte(c.typed + "\x1a")
		close(e.chunks)
		_, _ = e.term.ReadLine()
		all, err := os.ReadFile(out.Name())
		before, after, stopped := strings.Cut(string(all), pasteOff)
		if err != nil || !stopped || after != c.before+shell+pasteOn+c.after {
			t.Errorf("%q: %q, then %q, want %q", c.typed, before, after, c.before+shell+pasteOn+c.after)
		}
	}
}
