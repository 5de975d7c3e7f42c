package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// shell is an installed shell.
type shell struct {
	name string
	path string
	// bare are the arguments of a shell that reads commands from a pipe; nil for
	// one that cannot.
	bare []string
}

// findShells returns those that are installed. dir is for a link: busybox is a
// shell only under the name of one.
func findShells(names []string, dir string) []shell {
	var list []shell
	for _, name := range names {
		program := name
		if name == "ash" {
			program = "busybox"
		}
		path, err := exec.LookPath(program)
		if err != nil {
			fmt.Fprintf(os.Stderr, "SKIPPED: %s is not installed\n", name)
			continue
		}
		if name == "ash" {
			link := filepath.Join(dir, "ash")
			if os.Symlink(path, link) == nil {
				path = link
			}
		}
		bare := map[string][]string{"bash": {"--norc", "--noprofile"}, "zsh": {"-f"}, "dash": {}, "ash": {}}[name]
		list = append(list, shell{name, path, bare})
	}
	return list
}

// bareShell is a persistent shell on two pipes that tells the status of every
// command: less than any service can do.
type bareShell struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startBare(s shell) (*bareShell, error) {
	cmd := exec.Command(s.path, s.bare...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &bareShell{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (b *bareShell) run(command string) error {
	if _, err := io.WriteString(b.in, command+"; echo $?\n"); err != nil {
		return err
	}
	line, err := b.out.ReadSlice('\n')
	if err == nil && !bytes.Equal(line, []byte("0\n")) {
		err = fmt.Errorf("bare shell: %q", line)
	}
	return err
}

func (b *bareShell) stop() {
	_ = b.in.Close()
	_ = b.cmd.Wait()
}

// floors measures what everything else is made of.
func (b *bench) floors() error {
	pong := exec.Command("cat")
	in, err := pong.StdinPipe()
	if err != nil {
		return err
	}
	out, err := pong.StdoutPipe()
	if err != nil {
		return err
	}
	if err := pong.Start(); err != nil {
		return err
	}
	buf := make([]byte, 1)
	ping, err := sample(2000, func() error {
		if _, err := in.Write(buf); err != nil {
			return err
		}
		_, err := io.ReadFull(out, buf)
		return err
	})
	_ = in.Close()
	_ = pong.Wait()
	if err != nil {
		return err
	}
	b.report.latency("floor: one byte to cat and back", ping, nil, 0, 0)
	spawn, err := sample(200, func() error { return exec.Command("/bin/sh", "-c", "true").Run() })
	if err != nil {
		return err
	}
	b.report.latency("floor: spawn sh -c true", spawn, nil, 0, 0)
	line, err := request("system.ping", object{})
	if err != nil {
		return err
	}
	there, err := sample(2000, func() error {
		_, err := b.conn.roundTrip(line)
		return err
	})
	if err != nil {
		return err
	}
	b.report.latency("system.ping: to the daemon and back", there, nil, 0, 0)
	return nil
}

// sample calls f n times and returns how long each took.
func sample(n int, f func() error) (samples, error) {
	list := make(samples, 0, n)
	for range n {
		start := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		list = append(list, time.Since(start))
	}
	return list, nil
}
