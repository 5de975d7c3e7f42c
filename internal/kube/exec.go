package kube

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube/op"
)

// execution is a program that runs in a pod, or has ended and was not waited for.
type execution struct {
	done chan struct{} // closed when exit and err are set
	exit *op.Exit
	err  error
}

// forgetAfter is how long the end of a program is kept for a later wait.
const forgetAfter = 10 * time.Minute

// exec starts a program in a pod and joins it to the connection. life is that of the server.
func (s *Server) exec(life context.Context, c *call) {
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	k, err := s.cluster(c.Cluster)
	if err == nil {
		err = k.checkRuns(ctx, c.Pod)
	}
	var executor remotecommand.Executor
	if err == nil {
		executor, err = k.executor(c.Pod, c.Argv)
	}
	if err != nil {
		var ended *endedError
		if errors.As(err, &ended) {
			_ = c.send(op.Answer{Ended: ended.cause})
			return
		}
		_ = c.send(op.Answer{Error: asError(err)})
		return
	}
	e := &execution{done: make(chan struct{})}
	s.mu.Lock()
	s.lastExec++
	id := strconv.FormatInt(s.lastExec, 10)
	s.execs[id] = e
	s.mu.Unlock()
	time.AfterFunc(forgetAfter, func() {
		<-e.done
		s.mu.Lock()
		delete(s.execs, id)
		s.mu.Unlock()
	})
	stderr := &tail{}
	if err := c.send(op.Answer{ExecID: id}); err != nil {
		e.err = err
		close(e.done)
		return
	}
	go k.watch(life, &s.watches, c.Pod).cutAfter(ctx, cancel)
	in := &input{c: c, broken: cancel}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: c.conn, Stderr: stderr})
	var code exec.CodeExitError
	switch {
	case err == nil:
		e.exit = &op.Exit{Stderr: stderr.String()}
	case errors.As(err, &code):
		e.exit = &op.Exit{Status: code.Code, Stderr: stderr.String()}
	case ctx.Err() != nil && life.Err() == nil: // by cutAfter, or because the caller's connection broke
		e.err = errors.New("the connection to the pod was cut")
	default:
		e.err = err
	}
	close(e.done)
}

// input is the connection as the stdin of a program. A connection that breaks, and not only ends,
// ends the program's connection too.
type input struct {
	c      *call
	broken func()
}

func (i *input) Read(p []byte) (int, error) {
	n, err := i.c.in.Read(p)
	var broken *net.OpError
	if errors.As(err, &broken) {
		i.broken()
	}
	return n, err
}

// wait waits until a program has ended.
func (s *Server) wait(ctx context.Context, id string) (op.Answer, error) {
	s.mu.Lock()
	e := s.execs[id]
	s.mu.Unlock()
	if e == nil {
		return op.Answer{}, api.Errorf(api.CodeExecNotFound, "kubernetes: program %q: not found", id)
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return op.Answer{}, ctx.Err()
	}
	s.mu.Lock()
	delete(s.execs, id)
	s.mu.Unlock()
	return op.Answer{Exit: e.exit}, e.err
}

// executor starts a program over a WebSocket, or as older clusters do it.
func (k *cluster) executor(pod op.Pod, argv []string) (remotecommand.Executor, error) {
	u := k.base.JoinPath("api/v1/namespaces", pod.Namespace, "pods", pod.Name, "exec")
	u.RawQuery = url.Values{
		"container": {pod.Container}, "command": argv, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"},
	}.Encode()
	socket, err := remotecommand.NewWebSocketExecutor(k.config, http.MethodGet, u.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(k.config, http.MethodPost, u)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
