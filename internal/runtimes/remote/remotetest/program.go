package remotetest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/trl-dev/trl/internal/runtimes/remote"
)

// errCut is the error of a program whose connection was cut.
var errCut = errors.New("remotetest: the connection was cut")

// program is a process of a place that is joined through the network.
type program struct {
	w      *World
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr bytes.Buffer
	once   sync.Once
	lost   chan struct{} // closed when the connection was cut
}

// noise is printed by the login shell of every place before a program starts.
const noise = "Welcome to this machine.\nIt has {curly} words."

// start starts a process of a place, behind a shell that prints something first.
func (w *World) start(p *place, argv []string) (*program, error) {
	inside, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, outside, err := os.Pipe()
	if err != nil {
		inside.Close()
		stdin.Close()
		return nil, err
	}
	defer inside.Close()
	defer outside.Close()
	pr := &program{w: w, stdin: stdin, stdout: stdout, lost: make(chan struct{})}
	pr.cmd = exec.Command("/bin/sh", append([]string{"-c", `printf '%s' "$0"; exec "$@"`, noise}, argv...)...)
	pr.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "GORACE=atexit_sleep_ms=0", "TRL_RUNNER_DIR=" + filepath.Join(p.dir, "run"),
		marker + "=" + p.id, "SSH_CONNECTION=1 2 3 4", "OF_PLACE=" + p.id,
	}
	pr.cmd.Dir = "/"
	pr.cmd.Stdin, pr.cmd.Stdout, pr.cmd.Stderr = inside, outside, &pr.stderr
	w.mu.Lock()
	defer w.mu.Unlock()
	w.argv = append(w.argv, strings.Join(argv, " "))
	if err := pr.cmd.Start(); err != nil {
		stdin.Close()
		stdout.Close()
		return nil, err
	}
	w.processes[pr] = struct{}{}
	return pr, nil
}

// cut breaks the connection. The process there reads the end of its stdin.
func (p *program) cut() {
	select {
	case <-p.lost:
	default:
		close(p.lost)
	}
	p.close()
}

func (p *program) close() {
	p.once.Do(func() {
		p.stdin.Close()
		p.stdout.Close()
	})
}

func (p *program) isLost() bool {
	select {
	case <-p.lost:
		return true
	default:
		return false
	}
}

func (p *program) Read(b []byte) (int, error) {
	n, err := p.stdout.Read(b)
	if err != nil && p.isLost() {
		err = errCut
	}
	return n, err
}

func (p *program) Write(b []byte) (int, error) { return p.stdin.Write(b) }

func (p *program) CloseWrite() error { return p.stdin.Close() }

func (p *program) Close() error {
	p.close()
	return nil
}

// Wait waits for the end of the process. After a cut its end is not known.
func (p *program) Wait() (remote.Exit, error) {
	err := p.cmd.Wait()
	p.close()
	p.w.mu.Lock()
	delete(p.w.processes, p)
	p.w.mu.Unlock()
	var exit *exec.ExitError
	switch {
	case p.isLost():
		return remote.Exit{}, errCut
	case err != nil && !errors.As(err, &exit):
		return remote.Exit{}, err
	}
	return remote.Exit{Status: p.cmd.ProcessState.ExitCode(), Stderr: p.stderr.String()}, nil
}
