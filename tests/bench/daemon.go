package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// daemon is a `trl serve` of our own, in directories of its own.
type daemon struct {
	cmd    *exec.Cmd
	dir    string
	socket string
}

func startDaemon(binary string, flags ...string) (*daemon, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w (run make build first)", err)
	}
	dir, err := os.MkdirTemp("", "trlbench")
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir, socket: filepath.Join(dir, "trl.sock")}
	d.cmd = exec.Command(binary, append([]string{"serve", "--socket", d.socket, "--state-dir", filepath.Join(dir, "state"),
		"--max-sessions", "2000", "--log-level", "error", "--ready-fd", "3"}, flags...)...)
	d.cmd.Stderr = os.Stderr
	ready, child, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	d.cmd.ExtraFiles = []*os.File{child}
	err = d.cmd.Start()
	child.Close()
	if err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(ready).ReadString('\n'); err != nil {
		d.stop()
		return nil, fmt.Errorf("the daemon is not ready: it said %q: %w", line, err)
	}
	return d, nil
}

func (d *daemon) version(binary string) string {
	out, _ := exec.Command(binary, "version").Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// stop ends the daemon and with it all sessions.
func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	_ = d.cmd.Wait()
	_ = os.RemoveAll(d.dir)
}
