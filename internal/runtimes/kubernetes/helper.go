package kubernetes

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube/op"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runtimes/remote"
)

// Config configures a Driver.
type Config struct {
	// Program returns the path of trl-kube. It is called when the program is first needed.
	Program func() (string, error)
	// Spawn starts a child of the daemon, and Forget is called when the child has ended.
	Spawn  func(process.Spec) (*process.Process, error)
	Forget func(pid int)
	// Dir is a private directory for the socket.
	Dir string
	// Environ is the environment of the program: KUBECONFIG, and what the programs need that a
	// kubeconfig names for logging in.
	Environ []string
}

// helper is the program trl-kube, which runs while it is needed.
type helper struct {
	config Config

	mu      sync.Mutex
	closed  bool
	running *running // guarded by mu; nil before the first start
}

// running is one process of the program.
type running struct {
	proc   *process.Process
	socket string
	stdin  *os.File // its end ends the program
}

// stop ends the program.
func (r *running) stop() {
	r.stdin.Close()
	_ = r.proc.Signal(syscall.SIGKILL)
	<-r.proc.Done()
}

func (h *helper) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.running != nil {
		h.running.stop()
		h.running = nil
	}
}

// dial connects to the program, which it starts if it does not run.
func (h *helper) dial(ctx context.Context) (*net.UnixConn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, api.ErrDaemonEnding
	}
	if h.running != nil {
		select {
		case <-h.running.proc.Done():
			h.running.stdin.Close()
			h.running = nil
		default:
		}
	}
	if h.running == nil {
		started, err := h.start()
		if err != nil {
			return nil, api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: trl-kube: %s", err)
		}
		h.running = started
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", h.running.socket)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

func (h *helper) start() (*running, error) {
	path, err := h.config.Program()
	if err != nil {
		return nil, err
	}
	// Sockets that an earlier daemon left are removed. The name of this one is new: in a container,
	// the earlier daemon had the same process id.
	left, _ := filepath.Glob(filepath.Join(h.config.Dir, "kube-*.sock"))
	for _, path := range left {
		os.Remove(path)
	}
	socket := filepath.Join(h.config.Dir, "kube-"+rand.Text()[:8]+".sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, err
	}
	listener, err := l.File()
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	in, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	proc, err := h.config.Spawn(process.Spec{
		Path: path, Args: []string{"trl-kube"}, Dir: "/", Env: h.config.Environ, Files: []*os.File{in, null, null, listener}, Setsid: true,
	})
	if err != nil {
		hold.Close()
		os.Remove(socket)
		return nil, err
	}
	go func() {
		<-proc.Done()
		os.Remove(socket)
		h.config.Forget(proc.PID)
	}()
	return &running{proc: proc, socket: socket, stdin: hold}, nil
}

// begin sends a request and returns the connection and the last answer.
func (h *helper) begin(ctx context.Context, r op.Request, progress func(api.PlaceProgress)) (conn *net.UnixConn, in *bufio.Reader, a op.Answer, err error) {
	if conn, err = h.dial(ctx); err != nil {
		return nil, nil, a, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	in = bufio.NewReaderSize(conn, 64<<10)
	if a, err = talk(conn, in, r, progress); err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if !isAPI(err) {
			err = api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: trl-kube: %s", err)
		}
		return nil, nil, a, err
	}
	return conn, in, a, nil
}

func isAPI(err error) bool {
	var given *api.Error
	var ended *remote.EndedError
	return errors.As(err, &given) || errors.As(err, &ended)
}

func talk(conn net.Conn, in *bufio.Reader, r op.Request, progress func(api.PlaceProgress)) (a op.Answer, err error) {
	line, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return a, err
	}
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return a, fmt.Errorf("it ended: %w", err)
		}
		a = op.Answer{}
		if err := json.Unmarshal(text, &a); err != nil {
			return a, err
		}
		switch {
		case a.Progress != nil:
			if progress != nil {
				progress(*a.Progress)
			}
		case a.Error != nil:
			return a, a.Error
		case a.Ended != "":
			return a, &remote.EndedError{Cause: a.Ended}
		default:
			return a, nil
		}
	}
}

// ask makes a request that has one answer.
func (h *helper) ask(ctx context.Context, r op.Request, progress func(api.PlaceProgress)) (op.Answer, error) {
	conn, _, a, err := h.begin(ctx, r, progress)
	if err == nil {
		conn.Close()
	}
	return a, err
}

// exec starts a program in a pod.
func (h *helper) exec(ctx context.Context, cluster string, pod op.Pod, argv []string) (remote.Process, error) {
	conn, in, a, err := h.begin(ctx, op.Request{Op: op.Exec, Cluster: cluster, Pod: pod, Argv: argv}, nil)
	if err != nil {
		return nil, err
	}
	return &inPod{UnixConn: conn, in: in, helper: h, id: a.ExecID}, nil
}

// inPod is a program in a pod.
type inPod struct {
	*net.UnixConn
	in     *bufio.Reader // may have bytes that came with the answer
	helper *helper
	id     string
}

func (p *inPod) Read(b []byte) (int, error) { return p.in.Read(b) }

// WriteTo passes the output on without a copy of its own.
func (p *inPod) WriteTo(w io.Writer) (int64, error) { return p.in.WriteTo(w) }

// Wait asks how the program ended.
func (p *inPod) Wait() (remote.Exit, error) {
	a, err := p.helper.ask(context.Background(), op.Request{Op: op.Wait, ExecID: p.id}, nil)
	if err != nil {
		return remote.Exit{}, err
	}
	if a.Exit == nil {
		return remote.Exit{}, errors.New("the connection to the pod broke")
	}
	return remote.Exit{Status: a.Exit.Status, Stderr: a.Exit.Stderr}, nil
}
