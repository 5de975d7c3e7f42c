package chat

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

// TestCanContinue: a parent with job control gives trl a process group of its own. The parent of the leader
// of a session, such as sshd, and one that runs trl in its own group, such as a script, continue nothing.
func TestCanContinue(t *testing.T) {
	for want, attr := range map[string]*syscall.SysProcAttr{
		"true":                   {Setpgid: true},
		"false: the same group":  {},
		"false: another session": {Setsid: true},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.SysProcAttr = append(os.Environ(), reports+"=1"), attr
		out, err := cmd.CombinedOutput()
		if got, _, _ := strings.Cut(want, ":"); string(out) != got || err != nil {
			t.Errorf("%s: %q, %v", want, out, err)
		}
	}
}

// TestEditorSuspendWithoutShell: if no shell would continue trl, Ctrl-Z is no key, and typing goes on.
func TestEditorSuspendWithoutShell(t *testing.T) {
	e := &editor{pasted: map[string]string{}, chunks: make(chan []byte, 1), canStop: func() bool { return false }}
	e.stop = func() { t.Error("trl stops") }
	e.term = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e, io.Discard}, "> ")
	e.term.AutoCompleteCallback = e.key
	e.chunks <- []byte("ha\x1alf\r")
	if line, err := e.term.ReadLine(); line != "half" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
}
