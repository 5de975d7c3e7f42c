package attach_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/tests/trltest"
)

// flood writes lines without end until Ctrl-C, then a mark, and then nothing any more.
const flood = `trap 'printf "\nthe flood is over\n"; exec sleep 1000' INT
printf 'flooding\n'
while :; do printf '%s\n' "$0$0$0$0$0$0$0$0$0$0"; done`

// mostBehind is how many bytes a slow window may get before it shows the end of the flood. As
// a rule there are some 100 KiB. A machine so busy that trl attach itself is behind adds what
// it may be behind, 1 MiB. Without a bound there are many megabytes.
const mostBehind = 1 << 20

// TestSlowWindow: a window that takes 200 KB/s, such as one behind a slow line, shows what
// the terminal shows now soon after a flood has ended, and not first the whole flood. What
// counts is how many bytes the window is still given once the program has stopped.
func TestSlowWindow(t *testing.T) {
	t.Parallel()
	p := newPlace(t, trltest.Args("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"))
	url, _ := p.HTTP(t)
	for name, address := range map[string]string{"socket": "", "http": url, "grpc": p.GRPC(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.run(t, "new", "-t", "-d", name, "--", "sh", "-c", flood, "0123456789")
			args := []string{"attach", name}
			if address != "" {
				args = append(args, "--socket", address)
			}
			w := p.slowWindow(t, args...)
			w.read(3<<19, nil) // long enough for everything on the way to fill up
			w.press("\x03")
			seen := make(chan error, 1)
			go func() {
				_, err := p.client(t).SessionWait(t.Context(), api.SessionWaitParams{SessionID: name, Text: "the flood is over"})
				seen <- err
			}()
			mark, shown, over := []byte("the flood is over"), false, false
			for !over && !shown { // the window goes on reading, and may be the first to know
				select {
				case err := <-seen:
					if err != nil {
						t.Fatal(err)
					}
					over = true
				default:
					_, shown = w.read(2<<10, mark)
				}
			}
			if over {
				if n, shown := w.read(mostBehind, mark); !shown {
					t.Errorf("the window was given %d bytes after the end of the flood, and does not show it yet, but %q", n, strings.ToValidUTF8(string(w.last), "?"))
				}
			} else if err := <-seen; err != nil {
				t.Fatal(err)
			}
			w.press("\x1c")
			w.end()
		})
	}
}

// slowWindow is a terminal that takes 200 KB/s.
type slowWindow struct {
	t   *testing.T
	pty *process.PTY
	cmd *exec.Cmd
	// last are the last bytes that it took: a mark may be cut by two reads.
	last []byte
}

func (p *place) slowWindow(t *testing.T, args ...string) *slowWindow {
	t.Helper()
	w := &slowWindow{t: t, cmd: exec.Command(p.trl, args...)}
	var slave *os.File
	w.pty, slave = p.onTerminal(t, w.cmd)
	slave.Close()
	return w
}

// onTerminal starts a program on a new terminal of 80x24. It ends with the test at the latest. The
// caller closes the slave.
func (p *place) onTerminal(t *testing.T, cmd *exec.Cmd) (pty *process.PTY, slave *os.File) {
	t.Helper()
	pty, err := process.OpenPTY()
	if err != nil {
		t.Skipf("NOT TESTED: no pseudo-terminals here: %s", err)
	}
	t.Cleanup(pty.Close)
	if err := pty.Resize(80, 24); err != nil {
		t.Fatal(err)
	}
	if slave, err = pty.Slave(); err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.Env = p.work, p.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return pty, slave
}

func (w *slowWindow) press(keys string) {
	w.t.Helper()
	if _, err := io.WriteString(w.pty, keys); err != nil {
		w.t.Fatal(err)
	}
}

// read takes bytes at the pace of the window, at least that many, or until a mark is among them and
// those before. It returns how many, and whether the mark is shown.
func (w *slowWindow) read(most int, mark []byte) (n int, shown bool) {
	w.t.Helper()
	b := make([]byte, 2<<10)
	for n < most {
		got, err := w.pty.Read(b)
		if err != nil {
			w.t.Fatalf("after %d bytes: %s", n, err)
		}
		n += got
		w.last = append(w.last[max(0, len(w.last)-200):], b[:got]...)
		if mark != nil && bytes.Contains(w.last, mark) {
			return n, true
		}
		time.Sleep(time.Duration(got) * time.Second / 200_000)
	}
	return n, false
}

// end reads the rest and waits for the program.
func (w *slowWindow) end() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, w.pty)
	}()
	_ = w.cmd.Wait()
	w.pty.Interrupt()
	<-done
}
