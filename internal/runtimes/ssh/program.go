package ssh

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/internal/runtimes/remote"
)

// program is a program on the other machine, in a session of a master. It implements remote.Process.
//
// It has one goroutine, which reads stderr and ends with Close or Wait.
type program struct {
	m       *master
	ctl     *control
	session uint32
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	said    tail          // stderr
	silent  chan struct{} // closed when stderr has been read to its end
	ahead   []byte        // of stdout, read together with the preamble
	once    sync.Once
	left    atomic.Bool // Close was called
}

var _ remote.Process = (*program)(nil)

var errLeft = errors.New("ssh: the session was closed before the program ended")

// open opens a session on a master. The session keeps the master until it is closed.
func (m *master) open(ctx context.Context, command string) (*program, error) {
	var theirs [3]*os.File
	p := &program{m: m, silent: make(chan struct{})}
	defer func() {
		for _, f := range theirs {
			if f != nil {
				f.Close()
			}
		}
	}()
	var err error
	if theirs[0], p.stdin, err = os.Pipe(); err == nil {
		if p.stdout, theirs[1], err = os.Pipe(); err == nil {
			p.stderr, theirs[2], err = os.Pipe()
		}
	}
	if err == nil {
		p.ctl, err = dialControl(m.socket, time.Now().Add(openPatience))
	}
	if err == nil {
		stop := context.AfterFunc(ctx, func() { _ = p.ctl.conn.SetDeadline(time.Unix(1, 0)) })
		p.session, err = p.ctl.session(command, m.c.d.sent, theirs)
		if !stop() && err == nil {
			err = os.ErrDeadlineExceeded
		}
	}
	if err == nil {
		err = m.c.d.task(func() {
			defer close(p.silent)
			_, _ = io.Copy(&p.said, p.stderr)
		})
	}
	if err != nil {
		p.closeFiles()
		return nil, err
	}
	_ = p.ctl.conn.SetDeadline(time.Time{})
	return p, nil
}

// Read reads the stdout of the program.
func (p *program) Read(b []byte) (int, error) {
	if len(p.ahead) > 0 {
		n := copy(b, p.ahead)
		p.ahead = p.ahead[n:]
		return n, nil
	}
	return p.stdout.Read(b)
}

// Write writes to the stdin of the program.
func (p *program) Write(b []byte) (int, error) { return p.stdin.Write(b) }

// CloseWrite ends the stdin of the program.
func (p *program) CloseWrite() error { return p.stdin.Close() }

// Close closes the session.
func (p *program) Close() error {
	p.once.Do(func() {
		p.left.Store(true)
		p.closeFiles()
		p.m.c.release(p.m)
	})
	return nil
}

func (p *program) closeFiles() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
	if p.ctl != nil {
		p.ctl.close()
	}
}

// Wait returns the exit status. The protocol has none for a program that was killed by a signal: it
// is 255 then, as that of ssh.
func (p *program) Wait() (remote.Exit, error) {
	defer p.Close()
	status, known := p.ctl.exit(p.session)
	// A process that the program left running may keep stderr open.
	_ = p.stderr.SetReadDeadline(time.Now().Add(time.Second))
	<-p.silent
	if known {
		return remote.Exit{Status: status, Stderr: p.said.String()}, nil
	}
	if p.left.Load() {
		return remote.Exit{}, errLeft
	}
	if p.m.answers() {
		return remote.Exit{Status: 255, Stderr: p.said.String()}, nil
	}
	return remote.Exit{}, p.m.broken()
}

// answers reports whether the process of ssh still serves its socket.
func (m *master) answers() bool {
	ctl, err := dialControl(m.socket, time.Now().Add(openPatience))
	if err != nil {
		return false
	}
	defer ctl.close()
	_, err = ctl.alive()
	return err == nil
}

// broken returns why the connection broke.
func (m *master) broken() error {
	select {
	case <-m.dead:
		return m.err
	case <-time.After(time.Second):
		return unavailable(m.c.t.Destination, "the connection broke", m.said.String())
	}
}
