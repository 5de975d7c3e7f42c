package attach_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestTerminalThatNobodyReads: a viewer of a program that writes without end, in a window that no longer
// takes output, can still detach, and its terminal is not left raw.
func TestTerminalThatNobodyReads(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run(t, "new", "-t", "-d", "yes", "--", "yes")
	line := `[0.0001, "o", "` + strings.Repeat("recorded ", 100) + `\r\n"]` + "\n"
	text := `{"version":3,"term":{"cols":80,"rows":24}}` + "\n" + strings.Repeat(line, 20000)
	if err := os.WriteFile(filepath.Join(p.work, "long.cast"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, args string
		sig        unix.Signal
		key        string
		close      bool // close the terminal
		want       int
	}{
		{name: "attach TERM", args: "attach yes", sig: unix.SIGTERM, want: 143},
		{name: "attach INT", args: "attach yes", sig: unix.SIGINT, want: 130},
		{name: "attach HUP", args: "attach yes", sig: unix.SIGHUP, want: 129},
		{name: "attach key", args: "attach yes", key: "\x1c", want: 0},
		{name: "attach closed", args: "attach yes", close: true, want: 129},
		{name: "attach read-only key", args: "attach yes --read-only", key: "\x03", want: 0},
		{name: "play TERM", args: "play long.cast", sig: unix.SIGTERM, want: 143},
		{name: "play key", args: "play long.cast", key: "q", want: 0},
		{name: "play closed", args: "play long.cast", close: true, want: 129},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pty, cmd := p.stuck(t, append([]string{p.trl}, strings.Fields(c.args)...)...)
			switch {
			case c.sig != 0:
				if err := cmd.Process.Signal(c.sig); err != nil {
					t.Fatal(err)
				}
			case c.close:
				pty.Close()
			default:
				if _, err := pty.Write([]byte(c.key)); err != nil {
					t.Fatal(err)
				}
			}
			if status := statusOf(t, cmd); status != c.want {
				t.Errorf("status %d, want %d", status, c.want)
			}
			if c.close {
				return
			}
			slave, err := pty.Slave()
			if err != nil {
				t.Fatal(err)
			}
			defer slave.Close()
			if mode, err := getTermios(int(slave.Fd())); err != nil || mode.Lflag&unix.ICANON == 0 || mode.Lflag&unix.ECHO == 0 {
				t.Errorf("the terminal is still raw: %+v, %v", mode, err)
			}
		})
	}
}

// stuck runs a program on a terminal without a reader, until nothing more can be written.
func (p *place) stuck(t *testing.T, args ...string) (*process.PTY, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	pty, slave := p.onTerminal(t, cmd)
	defer slave.Close()
	testkit.Eventually(t, fmt.Sprintf("the terminal of %q is full", args), func() bool {
		room := []unix.PollFd{{Fd: int32(slave.Fd()), Events: unix.POLLOUT}}
		n, err := unix.Poll(room, 0)
		return err == nil && n == 0
	})
	return pty, cmd
}

// statusOf waits for the end of a program.
func statusOf(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	stop := time.AfterFunc(patience, func() { _ = cmd.Process.Signal(unix.SIGKILL) })
	defer stop.Stop()
	_ = cmd.Wait()
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		t.Fatalf("%q was ended by %s", cmd.Args, ws.Signal())
	}
	return ws.ExitStatus()
}

// TestTerminalThatIsReadLate: output that waits for a slow terminal is not lost, and neither is the
// end of the program.
func TestTerminalThatIsReadLate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pty, cmd := p.stuck(t, p.trl, "new", "-t", "late", "--", "sh", "-c", "yes | head -n 50000; echo the end; exit 7")
	read := make(chan string)
	go func() { // until all is there that should be
		text := ""
		b := make([]byte, 1<<10)
		for !strings.Contains(text, "the end") || !strings.Contains(text, "\x1b[?1049l") {
			n, err := pty.Read(b)
			if text += string(b[:n]); err != nil {
				break
			}
		}
		read <- text
	}()
	if status := statusOf(t, cmd); status != 7 {
		t.Errorf("status %d", status)
	}
	stop := time.AfterFunc(patience, pty.Interrupt)
	defer stop.Stop()
	if text := <-read; !strings.Contains(text, "the end") || !strings.Contains(text, "\x1b[?1049l") {
		t.Errorf("… %q", text[max(len(text)-1000, 0):])
	}
}
