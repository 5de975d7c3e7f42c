// Package kube is the program trl-kube, which speaks with Kubernetes for the daemon; package op has
// the requests and answers. It keeps no state except why pods ended, which the cluster says only
// once.
package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube/op"
)

// listenerFD is where the program finds its listening socket.
const listenerFD = 3

// maxRequest bounds the line of a request.
const maxRequest = 1 << 20

// Main serves the daemon until stdin, which the daemon holds open, ends.
func Main() int {
	file := os.NewFile(listenerFD, "listener")
	l, err := net.FileListener(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "trl-kube: is started by the daemon, not by hand")
		return 2
	}
	file.Close()
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	NewServer().Serve(ctx, l)
	return 0
}

// Server carries out the operations of a daemon.
type Server struct {
	mu       sync.Mutex
	clusters map[string]*cluster   // guarded by mu; by context
	execs    map[string]*execution // guarded by mu; until a wait has returned their end
	lastExec int64                 // guarded by mu
	watches  sync.WaitGroup        // of the pods in which programs were started
}

// NewServer returns a server that knows no cluster yet.
func NewServer() *Server {
	return &Server{clusters: map[string]*cluster{}, execs: map[string]*execution{}}
}

// Serve accepts connections until ctx ends, and then waits for the operations, which end too.
func (s *Server) Serve(ctx context.Context, l net.Listener) {
	var conns sync.WaitGroup
	defer s.watches.Wait()
	defer conns.Wait()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conns.Go(func() {
			defer conn.Close()
			s.serve(ctx, conn)
		})
	}
}

// call is one operation and its connection.
type call struct {
	op.Request
	conn net.Conn
	in   *bufio.Reader
	mu   sync.Mutex // one line at a time
}

func (c *call) send(a op.Answer) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.conn.Write(append(line, '\n'))
	return err
}

func (c *call) progress(step, format string, args ...any) {
	_ = c.send(op.Answer{Progress: &api.PlaceProgress{Step: step, Message: fmt.Sprintf(format, args...)}})
}

func (s *Server) serve(ctx context.Context, conn net.Conn) {
	c := &call{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	line, err := readLine(c.in)
	if err == nil {
		err = json.Unmarshal(line, &c.Request)
	}
	if err != nil {
		_ = c.send(op.Answer{Error: api.Errorf(api.CodeInvalidParams, "request: %s", err)})
		return
	}
	if c.Op == op.Exec {
		s.exec(ctx, c)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Nothing more comes in, so the end of the connection gives the operation up.
	go func() {
		_, _ = io.Copy(io.Discard, c.in)
		cancel()
	}()
	a, err := s.do(ctx, c)
	var ended *endedError
	switch {
	case errors.As(err, &ended):
		a = op.Answer{Ended: ended.cause}
	case err != nil:
		a = op.Answer{Error: asError(err)}
	}
	_ = c.send(a)
}

func (s *Server) do(ctx context.Context, c *call) (op.Answer, error) {
	if c.Op == op.Wait {
		return s.wait(ctx, c.ExecID)
	}
	k, err := s.cluster(c.Cluster)
	if err != nil {
		return op.Answer{}, err
	}
	switch c.Op {
	case op.Check:
		platform := make(chan *op.Pod, 1)
		go func() { platform <- k.platform(ctx) }() // beside the other request, whose time the caller measures
		version, err := k.version(ctx)
		return op.Answer{Version: version, Pod: <-platform}, err
	case op.Create:
		pod, err := k.create(ctx, c)
		return op.Answer{Pod: pod}, err
	case op.Find:
		pod, err := k.find(ctx, c.Options)
		return op.Answer{Pod: pod}, err
	case op.Remove:
		return op.Answer{}, k.remove(ctx, c.Pod)
	case op.List:
		strays, err := k.list(ctx, c.Daemon, c.Namespaces)
		return op.Answer{Strays: strays}, err
	}
	return op.Answer{}, api.Errorf(api.CodeMethodNotFound, "%s: no such operation", c.Op)
}

// readLine reads one line of at most maxRequest bytes.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxRequest:
			return nil, errors.New("is too long")
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
