package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// leads tells this program to be the leader of a terminal's session instead of testing.
const leads = "TRL_TEST_LEADS"

// lead runs a command on the terminal that stdin is, as a shell does, and stays when it has
// ended: where the leader of a session ended, what was written to the terminal and still on
// its way was lost now and then. The status is the last thing on the terminal.
func lead() {
	report, hold := os.NewFile(3, "report"), os.NewFile(4, "hold")
	_ = os.Unsetenv(leads)
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(report, cmd.Process.Pid)
	_ = report.Close()
	_ = cmd.Wait()
	fmt.Printf("\x00%d\x00", statusOf(cmd))
	_, _ = io.Copy(io.Discard, hold)
}

// onTerminal is a command on a terminal of its own.
type onTerminal struct {
	master *os.File
	pid    int
	seen   chan string // what a person would see there, with plain line ends; closed at its end
	ended  chan int    // the exit status
}

// onTerminal starts cmd on a terminal.
func (s *sandbox) onTerminal(t *testing.T, cmd *exec.Cmd) *onTerminal {
	t.Helper()
	master, slave := openTerminal(t)
	report, reported, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	held, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	leader := exec.Command(os.Args[0], append([]string{cmd.Path}, cmd.Args[1:]...)...)
	leader.Dir, leader.Env = cmd.Dir, append(cmd.Env[:len(cmd.Env):len(cmd.Env)], leads+"=1")
	leader.Stdin, leader.Stdout, leader.Stderr = slave, slave, slave
	leader.ExtraFiles = []*os.File{reported, held}
	leader.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	_, _, _ = slave.Close(), reported.Close(), held.Close()
	line, err := io.ReadAll(report)
	if err != nil {
		t.Fatal(err)
	}
	_ = report.Close()
	pid, err := strconv.Atoi(strings.TrimSpace(string(line)))
	if err != nil {
		t.Fatalf("%q was not started: %v", cmd.Args, err)
	}
	p := &onTerminal{master: master, pid: pid, seen: make(chan string, 1000), ended: make(chan int, 1)}
	go func() {
		defer close(p.ended)
		var tail []byte // the status, and what is behind it
		for b := make([]byte, 4096); bytes.Count(tail, []byte{0}) < 2; {
			n, err := master.Read(b)
			if err != nil {
				break
			}
			text := b[:n]
			if at := bytes.IndexByte(text, 0); len(tail) == 0 && at >= 0 {
				text, tail = text[:at], append(tail, text[at:]...)
			} else if len(tail) > 0 {
				text, tail = nil, append(tail, text...)
			}
			if len(text) > 0 {
				p.seen <- strings.ReplaceAll(string(text), "\r\n", "\n")
			}
		}
		close(p.seen)
		_ = hold.Close()
		_ = leader.Wait()
		if status, err := strconv.Atoi(strings.Trim(string(tail), "\x00")); err == nil {
			p.ended <- status
		}
	}()
	return p
}

// all waits for the end, and returns what was to be seen and the exit status.
func (p *onTerminal) all(t *testing.T) (string, int) {
	t.Helper()
	var text strings.Builder
	for more := range p.seen {
		text.WriteString(more)
	}
	return text.String(), p.status(t)
}

func (p *onTerminal) status(t *testing.T) int {
	t.Helper()
	status, ok := <-p.ended
	if !ok {
		t.Error("the terminal is gone before its command")
	}
	return status
}
