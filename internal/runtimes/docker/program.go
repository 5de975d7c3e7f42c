package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/trl-dev/trl/internal/runtimes/remote"
)

// program is a program that the engine started in a container by exec.
//
// Goroutines: site.cutAfter, until Close.
type program struct {
	e    *engine
	exec string // its id
	conn client.HijackedResponse
	// open ends with Close.
	open  context.Context
	close context.CancelFunc

	mu  sync.Mutex // held while reading; Wait may be called while a Read still returns
	out stream     // guarded by mu
	end error      // guarded by mu; how reading ended, nil before the end
}

var _ remote.Process = (*program)(nil)

// exec starts a program in a running container. The errors are those of the client.
func (e *engine) exec(ctx context.Context, container, user string, argv []string) (*program, error) {
	made, err := e.ExecCreate(ctx, container, client.ExecCreateOptions{User: user, Cmd: argv, AttachStdin: true, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return nil, err
	}
	joined, err := e.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, err
	}
	p := &program{e: e, exec: made.ID, conn: joined.HijackedResponse}
	p.open, p.close = context.WithCancel(context.Background())
	p.out.from = p.conn.Reader
	return p, nil
}

func (p *program) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.out.Read(b)
	if err != nil {
		p.end = err
	}
	return n, err
}

func (p *program) Write(b []byte) (int, error) { return p.conn.Conn.Write(b) }
func (p *program) CloseWrite() error           { return p.conn.CloseWrite() }

func (p *program) Close() error {
	p.close()
	p.conn.Close()
	return nil
}

// past is a deadline that ends a read or write at once.
var past = time.Unix(1, 0)

// waitLimit bounds how long the engine may take to learn the exit status of a program whose
// outputs are closed.
const waitLimit = 10 * time.Second

// Wait reads what is left of the output: the stream ends when the program has ended.
func (p *program) Wait() (remote.Exit, error) {
	defer p.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	end := p.end
	if end == nil {
		_, end = io.Copy(io.Discard, &p.out)
	}
	exit := remote.Exit{Stderr: p.out.stderr.String()}
	if end != nil && !errors.Is(end, io.EOF) {
		return exit, fmt.Errorf("the connection to the program broke: %w", end)
	}
	ctx, cancel := context.WithTimeout(p.open, waitLimit)
	defer cancel()
	// The engine knows the status when it closes the outputs, unless the program closed them
	// itself. No call waits for the end of an exec, hence the questions.
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		state, err := p.e.ExecInspect(ctx, p.exec, client.ExecInspectOptions{})
		switch {
		case cerrdefs.IsNotFound(err):
			return exit, errors.New("the engine no longer knows the program")
		case err != nil:
			return exit, p.e.fails(ctx, "exit status of the program", err)
		case !state.Running:
			exit.Status = state.ExitCode
			return exit, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return exit, errors.New("the program still runs, as far as the engine knows")
		}
	}
}
