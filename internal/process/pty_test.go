package process_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
)

// onTerminal starts a script on a pseudo-terminal of its own.
func onTerminal(t *testing.T, r *process.Reaper, script string) (*process.PTY, *process.Process) {
	t.Helper()
	pty, err := process.OpenPTY()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pty.Close)
	if err := pty.Resize(91, 17); err != nil {
		t.Fatal(err)
	}
	slave, err := pty.Slave()
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	p, err := r.Start(process.Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH"), envMark + "=" + mark()},
		Files: []*os.File{slave, slave, slave}, Setsid: true, Setctty: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return pty, p
}

// readUntil reads until the output contains the text.
func readUntil(t *testing.T, pty *process.PTY, want string) string {
	t.Helper()
	var got strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(got.String(), want) {
		n, err := pty.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
	}
	return got.String()
}

// drained reads the rest of the output.
func drained(t *testing.T, pty *process.PTY) (string, error) {
	t.Helper()
	var got strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := pty.TryRead(buf)
		got.Write(buf[:n])
		if n == 0 {
			return got.String(), err
		}
	}
}

func TestPTY(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		pty, p := onTerminal(t, r, `stty size; stty -a | tr ' ' '\n' | grep iutf8; read x; echo "got $x"; read y; stty size; exec 0<&- 1<&- 2<&-; exec 3<>/dev/tty; echo again >&3`)
		if got := readUntil(t, pty, "iutf8"); !strings.Contains(got, "17 91") || strings.Contains(got, "-iutf8") {
			t.Errorf("%q", got)
		}
		if n, err := pty.TryWrite([]byte("abc\n")); n != 4 || err != nil {
			t.Fatal(n, err)
		}
		readUntil(t, pty, "got abc")
		if err := pty.Resize(40, 10); err != nil {
			t.Fatal(err)
		}
		if _, err := pty.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		// Reading continues after a program closes the terminal and opens it again.
		if got := readUntil(t, pty, "again"); !strings.Contains(got, "10 40") {
			t.Errorf("%q", got)
		}
		<-p.Done()
	})
}

func TestPTYIsDrainedAfterTheEnd(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		// The background job keeps the terminal open and ignores the hangup.
		pty, p := onTerminal(t, r, `trap '' HUP; sleep 1000 & echo $!; seq 1000; echo the end`)
		<-p.Done()
		got, _ := drained(t, pty)
		if !strings.Contains(got, "999\r\n1000\r\nthe end\r\n") {
			t.Errorf("...%q", got[max(0, len(got)-100):])
		}
		pty.Interrupt()
		if _, err := pty.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read after Interrupt: %v", err)
		}
		pty.Close()
		pty.Close()
		if _, err := pty.TryRead(make([]byte, 10)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("read after Close: %v", err)
		}
		if _, err := pty.TryWrite([]byte("x")); err == nil {
			t.Error("write after Close")
		}
		process.KillAll(marked(), 9, 0)
		allReaped(t)
	})
}

func TestPTYTakesWhatThereIsRoomFor(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		pty, p := onTerminal(t, r, `stty raw -echo; echo ready; sleep 1000`)
		readUntil(t, pty, "ready")
		written := 0
		for {
			n, err := pty.TryWrite(make([]byte, 4096))
			if err != nil {
				t.Fatal(err)
			}
			if written += n; n == 0 {
				break
			}
			if written > 10<<20 {
				t.Fatal("there is room for everything")
			}
		}
		testkit.Eventually(t, "something is unread", func() bool { return pty.Unread() > 0 })
		// A write that waits ends with Close.
		failed := make(chan error, 1)
		go func() {
			_, err := pty.Write(make([]byte, 1<<20))
			failed <- err
		}()
		pty.Close()
		if err := <-failed; !errors.Is(err, os.ErrClosed) {
			t.Errorf("%v", err)
		}
		<-p.Done() // hung up
		process.KillAll(marked(), 9, 0)
		allReaped(t)
	})
}

func TestPTYSurvivesAHangup(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		pty, p := onTerminal(t, r, `echo one`)
		<-p.Done() // the end of the leader is a hangup for all descriptors, including our own
		if got, err := drained(t, pty); got != "one\r\n" || err != nil && err != io.EOF {
			t.Errorf("%q %v", got, err)
		}
		if err := pty.Reopen(); err != nil {
			t.Fatal(err)
		}
		slave, err := pty.Slave()
		if err != nil {
			t.Fatal(err)
		}
		defer slave.Close()
		if _, err := slave.WriteString("two"); err != nil {
			t.Fatal(err)
		}
		readUntil(t, pty, "two")
	})
}

func TestTerminalReader(t *testing.T) {
	if process.CanSeeReads(os.Getpid()) != nil {
		t.Skip("this system does not tell")
	}
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		pty, p := onTerminal(t, r, `read x; exec sleep 1000`)
		other, q := onTerminal(t, r, `read x`)
		reads := func(pid int, pty *process.PTY) bool {
			_, ok := process.TerminalReader(pid, pty.Device())
			return ok
		}
		testkit.Eventually(t, "it waits for input", func() bool { return reads(p.PID, pty) })
		if reads(p.PID, other) {
			t.Error("it is seen to read the terminal of another")
		}
		pty.Write([]byte("\n"))
		testkit.Eventually(t, "it sleeps", func() bool { return !reads(p.PID, pty) })
		other.Write([]byte("\n"))
		<-q.Done()
		p.Signal(9)
		<-p.Done()
	})
}
