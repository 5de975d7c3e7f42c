//go:build linux

package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube/op"
	"github.com/trl-dev/trl/internal/runtimes/kubernetes/clustertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.In(m)) }

// client speaks with a server in this process.
type client struct {
	*testing.T
	socket string
}

func newClient(t *testing.T) *client { return newClientOf(t, clustertest.Start(t).Kubeconfig) }

// newClientOf is newClient with another user of the cluster.
func newClientOf(t *testing.T, kubeconfig string) *client {
	t.Setenv("KUBECONFIG", kubeconfig)
	socket := filepath.Join(t.TempDir(), "kube.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // t.Context ends before the cleanups
	done := make(chan struct{})
	go func() {
		NewServer().Serve(ctx, l)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return &client{t, socket}
}

// dial sends a request.
func (c *client) dial(r op.Request) *net.UnixConn {
	c.Helper()
	dialed, err := net.Dial("unix", c.socket)
	if err != nil {
		c.Fatal(err)
	}
	conn := dialed.(*net.UnixConn)
	c.Cleanup(func() { conn.Close() })
	line, err := json.Marshal(r)
	if err == nil {
		_, err = conn.Write(append(line, '\n'))
	}
	if err != nil {
		c.Fatal(err)
	}
	return conn
}

// begin sends a request and returns the connection, its reader and the last answer, with the
// messages of progress before it.
func (c *client) begin(r op.Request) (conn *net.UnixConn, in *bufio.Reader, a op.Answer, progress []string) {
	c.Helper()
	conn = c.dial(r)
	in = bufio.NewReader(conn)
	var err error
	for err == nil {
		var text []byte
		if text, err = in.ReadBytes('\n'); err != nil {
			break
		}
		a = op.Answer{}
		if err = json.Unmarshal(text, &a); a.Progress == nil {
			break
		}
		progress = append(progress, a.Progress.Message)
	}
	if err != nil {
		c.Fatal(err)
	}
	return conn, in, a, progress
}

func (c *client) ask(r op.Request) op.Answer {
	c.Helper()
	conn, _, a, _ := c.begin(r)
	conn.Close()
	return a
}

func (c *client) create(id string, o api.PlaceOptions) *op.Pod {
	c.Helper()
	a := c.ask(op.Request{Op: op.Create, Daemon: "d1", SessionID: id, Options: o})
	if a.Error != nil {
		c.Fatal(a.Error)
	}
	c.Cleanup(func() { c.ask(op.Request{Op: op.Remove, Pod: *a.Pod}) })
	return a.Pod
}

// run runs a program in a pod to its end.
func (c *client) run(pod *op.Pod, stdin string, argv ...string) (string, *op.Exit) {
	c.Helper()
	conn, in, a, _ := c.begin(op.Request{Op: op.Exec, Pod: *pod, Argv: argv})
	if a.Error != nil || a.Ended != "" {
		c.Fatal(a.Error, a.Ended)
	}
	if _, err := io.WriteString(conn, stdin); err != nil {
		c.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		c.Fatal(err)
	}
	out, err := io.ReadAll(in)
	if err != nil {
		c.Fatal(err)
	}
	w := c.ask(op.Request{Op: op.Wait, ExecID: a.ExecID})
	if w.Error != nil {
		c.Fatal(w.Error)
	}
	return string(out), w.Exit
}

func TestPod(t *testing.T) {
	c := newClient(t)
	if a := c.ask(op.Request{Op: op.Check}); a.Version != "v"+clustertest.Version {
		t.Errorf("check: %+v", a)
	}
	pod := c.create("s-0000000001", api.PlaceOptions{Image: clustertest.Busybox})
	if pod.Node != "node1" || pod.OS != "linux" || pod.Arch == "" || pod.UID == "" || !pod.Made || !strings.Contains(pod.Image, "busybox") {
		t.Errorf("pod: %+v", pod)
	}
	out, exit := c.run(pod, "hello", "/bin/sh", "-c", "cat; echo ' world'; echo oops >&2; exit 3")
	if out != "hello world\n" || exit.Status != 3 || exit.Stderr != "oops\n" {
		t.Errorf("%q, %+v", out, exit)
	}
	if a := c.ask(op.Request{Op: op.List, Daemon: "d1", Namespaces: []string{"default"}}); len(a.Strays) != 1 || a.Strays[0].SessionID != "s-0000000001" || a.Strays[0].Pod.Name != pod.Name {
		t.Errorf("list: %+v", a)
	}
	if a := c.ask(op.Request{Op: op.Find, Options: api.PlaceOptions{Pod: pod.Name}}); a.Pod == nil || a.Pod.UID != pod.UID || a.Pod.Made || a.Pod.Container != containerName {
		t.Errorf("find: %+v", a)
	}
	for range 2 {
		if a := c.ask(op.Request{Op: op.Remove, Pod: *pod}); a.Error != nil {
			t.Error(a.Error)
		}
	}
	if _, _, a, _ := c.begin(op.Request{Op: op.Exec, Pod: *pod, Argv: []string{"/bin/true"}}); !strings.Contains(a.Ended, "was deleted") {
		t.Errorf("exec in a pod that was removed: %+v", a)
	}
}

func TestPodThatCannotStart(t *testing.T) {
	c := newClient(t)
	a := c.ask(op.Request{Op: op.Create, Daemon: "d1", SessionID: "s-0000000002", Options: api.PlaceOptions{Image: "localhost/none:1", Pull: "never"}})
	if a.Error == nil || a.Error.Code != api.CodeRuntimeUnavailable || !strings.Contains(a.Error.Message, "ErrImageNeverPull") {
		t.Errorf("image that is not there: %+v", a)
	}
	// A pod that no node takes: the caller gives up, and has the reason.
	conn := c.dial(op.Request{Op: op.Create, Daemon: "d1", SessionID: "s-0000000003", Options: api.PlaceOptions{
		Image: clustertest.Busybox, NodeSelector: map[string]string{"disk": "none"},
	}})
	for in := bufio.NewScanner(conn); in.Scan(); {
		if strings.Contains(in.Text(), "Unschedulable") {
			break
		}
	}
	conn.Close()
	c.wantNone()
}

// wantNone waits until no pod of the daemon is left.
func (c *client) wantNone() {
	c.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		a := c.ask(op.Request{Op: op.List, Daemon: "d1", Namespaces: []string{"default"}})
		if a.Error != nil {
			c.Fatal(a.Error)
		}
		if len(a.Strays) == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("left: %+v", a.Strays)
		}
	}
}
