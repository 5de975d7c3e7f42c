package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed xterm.cjs
var xtermScript []byte

// xterm is xterm.js in a process of its own, which answers one request at a time.
type xterm struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// startXterm installs what tests/vt/package-lock.json says into dir and starts it.
func startXterm(dir string) (*xterm, error) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is not installed", tool)
		}
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join("tests/vt", name))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "xterm.cjs"), xtermScript, 0o644); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--fetch-retries=1", "--loglevel=error")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		said, _, _ := strings.Cut(string(out), "\n")
		return nil, fmt.Errorf("npm ci: %w: %s", err, said)
	}
	x := &xterm{cmd: exec.Command("node", "--expose-gc", "xterm.cjs")}
	x.cmd.Dir, x.cmd.Stderr = dir, os.Stderr
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	x.out = json.NewDecoder(out)
	if x.in, err = x.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return x, x.cmd.Start()
}

// write has a file written so often.
func (x *xterm) write(file string, passes int) (spent, error) {
	var answer struct{ Seconds, CPU float64 }
	err := x.ask(object{"file": file, "passes": passes}, &answer)
	return spent{answer.Seconds, answer.CPU}, err
}

// memory is the heap of a terminal that a file was written to.
func (x *xterm) memory(file string) (float64, error) {
	var answer struct{ Bytes float64 }
	err := x.ask(object{"memory": file}, &answer)
	return answer.Bytes, err
}

func (x *xterm) ask(request object, answer any) error {
	line, err := json.Marshal(request)
	if err == nil {
		_, err = x.in.Write(append(line, '\n'))
	}
	if err == nil {
		err = x.out.Decode(answer)
	}
	if err != nil {
		return fmt.Errorf("xterm.js: %s: %w", line, err)
	}
	return nil
}

func (x *xterm) stop() {
	_ = x.in.Close()
	_ = x.cmd.Wait()
}
