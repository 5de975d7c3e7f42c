package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/trl-dev/trl/internal/process"
)

// barePTY is a program on a pseudo-terminal that only the benchmark reads: no terminal can be
// faster.
type barePTY struct {
	*process.PTY
	cmd *exec.Cmd
}

func startPTY(command []string, env ...string) (*barePTY, error) {
	pty, err := process.OpenPTY()
	if err != nil {
		return nil, err
	}
	p := &barePTY{pty, exec.Command(command[0], command[1:]...)}
	slave, err := pty.Slave()
	if err == nil {
		defer slave.Close()
		err = pty.Resize(80, 24)
	}
	if err == nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
		p.cmd.Env = append(append(os.Environ(), "TERM=xterm-256color"), env...)
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		err = p.cmd.Start()
	}
	if err != nil {
		pty.Close()
		return nil, err
	}
	return p, nil
}

func (p *barePTY) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.Close()
}

// until reads until the program has written text.
func (p *barePTY) until(text string) error {
	var all []byte
	buf := make([]byte, 4<<10)
	for !bytes.Contains(all, []byte(text)) {
		n, err := p.Read(buf)
		if err != nil {
			return fmt.Errorf("%s: %w after %q", p.cmd.Path, err, all)
		}
		all = append(all, buf[:n]...)
	}
	return nil
}

// drain reads so many bytes.
func (p *barePTY) drain(bytes int64) error {
	n, err := io.CopyBuffer(io.Discard, io.LimitReader(p, bytes), make([]byte, 64<<10))
	if err == nil && n != bytes {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%s: %d of %d bytes: %w", p.cmd.Path, n, bytes, err)
	}
	return nil
}
