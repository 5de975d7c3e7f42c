// Package attach_test sits at real pseudo-terminals and runs the real program on them, as
// people do who attach to a terminal: alone, in pairs, and inside tmux.
package attach_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/terminal/vt"
	"github.com/trl-dev/trl/tests/trltest"
)

// patience bounds what should happen soon. Nothing waits that long when all is well.
const patience = 2 * time.Minute

// place is a daemon and what is needed to use it from the command line.
type place struct {
	*trltest.Daemon
	trl  string
	work string
	env  []string
}

func newPlace(t *testing.T, opts ...trltest.Option) *place {
	t.Helper()
	d := trltest.Start(t, opts...)
	p := &place{Daemon: d, trl: trltest.Binary(t), work: t.TempDir()}
	p.env = []string{
		"PATH=" + filepath.Dir(p.trl) + ":" + os.Getenv("PATH"), "HOME=" + p.work, "LANG=C.UTF-8", "TERM=xterm-256color", "PS1=$ ", "SHELL=/bin/sh", "HISTFILE=",
		"TRL_SOCKET_PATH=" + d.Socket, "TRL_STATE_DIR=" + d.StateDir, "TRL_RUNTIME_DIR=" + d.RuntimeDir,
		"GORACE=atexit_sleep_ms=0 log_path=" + filepath.Join(filepath.Dir(d.StateDir), "race"),
	}
	return p
}

// run runs `trl args...` without a terminal.
func (p *place) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(p.trl, args...)
	cmd.Dir, cmd.Env = p.work, p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("trl %q: %s\n%s", args, err, out)
	}
	return string(out)
}

// client speaks to the daemon.
func (p *place) client(t *testing.T) *client.Client { return p.Daemon.Client(t) }

// info tells about a session.
func (p *place) info(t *testing.T, name string) api.SessionDetails {
	t.Helper()
	s, err := p.client(t).SessionInfo(t.Context(), api.SessionInfoParams{SessionID: name})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// person sits at a terminal: an emulator that shows what is written, and answers what it
// is asked, as real ones do.
type person struct {
	t   *testing.T
	pty *process.PTY
	cmd *exec.Cmd

	mu      sync.Mutex
	screen  *vt.Terminal  // guarded by mu
	changed chan struct{} // guarded by mu; closed and made anew when something was written
	written []byte        // guarded by mu; everything
	closed  bool          // guarded by mu
}

// sit runs a program on a terminal of that size.
func (p *place) sit(t *testing.T, cols, rows int, args ...string) *person {
	t.Helper()
	pty, err := process.OpenPTY()
	if err != nil {
		t.Skipf("NOT TESTED: no pseudo-terminals here: %s", err)
	}
	s := &person{t: t, pty: pty, screen: vt.New(vt.Config{Cols: cols, Rows: rows, Scrollback: 5000}), changed: make(chan struct{})}
	if err := pty.Resize(cols, rows); err != nil {
		t.Fatal(err)
	}
	slave, err := pty.Slave()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Dir, s.cmd.Env = p.work, p.env
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.look()
	}()
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
		pty.Interrupt()
		<-done
		pty.Close()
		if t.Failed() {
			t.Logf("%q shows:\n%s", args, s.text())
		}
	})
	return s
}

// look shows what is written and answers.
func (s *person) look() {
	b := make([]byte, 64<<10)
	for {
		n, err := s.pty.Read(b)
		s.mu.Lock()
		s.screen.Write(b[:n])
		s.written = append(s.written, b[:n]...)
		answers := append([]byte(nil), s.screen.Replies()...)
		s.closed = err != nil
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if len(answers) > 0 {
			_, _ = s.pty.Write(answers)
		}
		if err != nil {
			return
		}
	}
}

// press types something.
func (s *person) press(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.pty, text); err != nil {
		s.t.Fatal(err)
	}
}

// resize drags the window.
func (s *person) resize(cols, rows int) {
	s.t.Helper()
	s.mu.Lock()
	s.screen.Resize(cols, rows)
	s.mu.Unlock()
	if err := s.pty.Resize(cols, rows); err != nil {
		s.t.Fatal(err)
	}
}

// text is what is shown.
func (s *person) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return textOf(s.screen)
}

// textOf is the rows of a screen, blanks at their ends left out, without those at the
// bottom that are empty.
func textOf(t *vt.Terminal) string {
	_, rows := t.Size()
	var lines []string
	for y := range rows {
		lines = append(lines, t.RowText(y))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// until waits until a condition holds for what is shown.
func (s *person) until(what string, holds func(*vt.Terminal) bool) {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		ok, changed, closed := holds(s.screen), s.changed, s.closed
		s.mu.Unlock()
		if ok {
			return
		}
		if closed {
			s.t.Fatalf("ended before %s; it shows\n%s", what, s.text())
		}
		select {
		case <-changed:
		case <-deadline:
			s.t.Fatalf("not within %s: %s; it shows\n%s", patience, what, s.text())
		}
	}
}

// see waits until the screen matches.
func (s *person) see(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(`(?m)` + pattern)
	s.until(fmt.Sprintf("%q is shown", pattern), func(t *vt.Terminal) bool { return re.MatchString(textOf(t)) })
}

// everything is all that was ever written to the terminal.
func (s *person) everything() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.written)
}

// left waits until the program has ended and returns its status.
func (s *person) left() int {
	s.t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(patience):
		_ = s.cmd.Process.Signal(unix.SIGQUIT) // its goroutines tell why
		time.Sleep(time.Second)
		_ = s.cmd.Process.Kill()
		<-done
		s.t.Fatalf("%q did not end within %s; it shows\n%s", s.cmd.Args, patience, s.text())
	}
	// The rest of what it wrote.
	slave, err := s.pty.Slave()
	if err == nil {
		_, _ = slave.WriteString("\x1b]7;file:///end\x1b\\")
		s.until("all is read", func(t *vt.Terminal) bool { return t.WorkingDir() == "/end" })
		_ = slave.Close()
	}
	ws := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// clean fails the test when the terminal is not as a fresh one, but for what it shows.
func (s *person) clean() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	cols, rows := s.screen.Size()
	fresh := vt.New(vt.Config{Cols: cols, Rows: rows})
	// Everything that a snapshot holds beside text: screens, modes, region, charsets, pen,
	// tab stops, saved cursors, keyboard.
	const wipe = "\x1b[H\x1b[2J\x1b[3J\x1b7\x1b]7;file:///\x1b\\\x1b]2;\x1b\\"
	fresh.Write([]byte(wipe))
	s.screen.Write([]byte(wipe))
	if s.screen.Alternate() {
		s.t.Error("the alternate screen was left on")
	}
	if s.screen.Modes() != fresh.Modes() || s.screen.Cursor() != fresh.Cursor() {
		s.t.Errorf("left on: %+v, cursor %+v", s.screen.Modes(), s.screen.Cursor())
	}
	if got, want := string(s.screen.Snapshot(0)), string(fresh.Snapshot(0)); got != want {
		s.t.Errorf("not as it was: %q, want %q", got, want)
	}
	mode, err := s.termios()
	if err != nil || mode.Lflag&unix.ECHO == 0 || mode.Lflag&unix.ICANON == 0 || mode.Lflag&unix.ISIG == 0 {
		s.t.Errorf("the terminal is still raw: %+v, %v", mode, err)
	}
}

// termios are the settings of the terminal.
func (s *person) termios() (*unix.Termios, error) {
	slave, err := s.pty.Slave()
	if err != nil {
		return nil, err
	}
	defer slave.Close()
	return getTermios(int(slave.Fd()))
}

// entered waits until the session is shown: what is shown of it may be nothing.
func (s *person) entered() {
	s.t.Helper()
	s.until("the session is shown", func(*vt.Terminal) bool { return strings.Contains(string(s.written), "\x1b[H\x1b[J") })
}
