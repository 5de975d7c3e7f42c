package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// daemon is the far end of a client: it sees requests as lines and says what the test wants.
type daemon struct {
	*net.UnixConn
	t     *testing.T
	lines *bufio.Reader
}

// listen returns the listener of a daemon and its address.
func listen(t *testing.T) (*net.UnixListener, string) {
	t.Helper()
	dir := testkit.Dir(t)
	path := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.(*net.UnixListener), path
}

// accept takes the next connection of a client.
func accept(t *testing.T, ln *net.UnixListener) *daemon {
	t.Helper()
	_ = ln.SetDeadline(time.Now().Add(patience))
	conn, err := ln.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { conn.Close() })
	return &daemon{UnixConn: conn, t: t, lines: bufio.NewReader(conn)}
}

// dial returns a client and the daemon it has its first connection to.
func dial(t *testing.T) (*client.Client, *daemon, *net.UnixListener) {
	t.Helper()
	ln, path := listen(t)
	c, err := client.Dial(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, accept(t, ln), ln
}

// connect returns a client that has one connection only, and the daemon it speaks to.
func connect(t *testing.T) (*client.Client, *daemon) {
	t.Helper()
	ln, path := listen(t)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(conn)
	t.Cleanup(func() { c.Close() })
	return c, accept(t, ln)
}

type request struct {
	ID     string
	Method string
	Params json.RawMessage
}

func (d *daemon) request() request {
	d.t.Helper()
	line, err := d.lines.ReadString('\n')
	var r request
	if err == nil {
		err = json.Unmarshal([]byte(line), &r)
	}
	if err != nil {
		d.t.Fatalf("%s in %q", err, line)
	}
	return r
}

func (d *daemon) say(format string, args ...any) {
	d.t.Helper()
	if _, err := fmt.Fprintf(d, format+"\n", args...); err != nil {
		d.t.Fatal(err)
	}
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// TestEveryMethod calls each method of the Service through the client and checks
// its name and parameters on the wire against the method table.
func TestEveryMethod(t *testing.T) {
	c, d := connect(t)
	v := reflect.ValueOf(c)
	for _, m := range api.Methods() {
		noun, verb, _ := strings.Cut(m.Name, ".")
		var f reflect.Value
		for i := range v.NumMethod() {
			if strings.EqualFold(v.Type().Method(i).Name, noun+verb) {
				f = v.Method(i)
			}
		}
		if !f.IsValid() {
			t.Errorf("%s: the client does not have it", m.Name)
			continue
		}
		params := reflect.New(m.Params)
		if field := params.Elem().FieldByName("SessionID"); field.IsValid() {
			field.SetString("s-42")
		}
		var results []reflect.Value
		done := make(chan struct{})
		go func() {
			defer close(done)
			results = f.Call([]reflect.Value{reflect.ValueOf(timeout(t)), params.Elem()})
		}()
		r := d.request()
		if r.Method != m.Name {
			t.Errorf("%s: sent as %s", m.Name, r.Method)
		}
		if got := reflect.New(m.Params); json.Unmarshal(r.Params, got.Interface()) != nil || !reflect.DeepEqual(got.Interface(), params.Interface()) {
			t.Errorf("%s: params %s", m.Name, r.Params)
		}
		d.say(`{"id":%q,"ok":true,"data":{"stream_id":"x","session_id":"s-42","unknown_to_us":1}}`, r.ID)
		<-done
		if err, _ := results[1].Interface().(error); err != nil {
			t.Errorf("%s: %s", m.Name, err)
		}
	}
}

func TestAnswersInAnyOrder(t *testing.T) {
	c, d := connect(t)
	const calls = 100
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			name := fmt.Sprintf("n%d", i)
			info, err := c.SessionCreate(timeout(t), api.SessionCreateParams{Name: name})
			if err != nil || info.Name != name {
				t.Errorf("%s: %+v, %v", name, info.Name, err)
			}
		})
	}
	var requests []request
	for range calls {
		requests = append(requests, d.request())
	}
	for i := range requests {
		r := requests[len(requests)-1-i]
		d.say(`{"id":%q,"ok":true,"data":%s}`, r.ID, r.Params)
	}
	wg.Wait()
}

func TestErrorsKeepTheirCode(t *testing.T) {
	c, d := connect(t)
	go func() {
		r := d.request()
		d.say(`{"id":%q,"ok":false,"error":{"code":"SESSION_BUSY","message":"session \"a\": busy","details":{"exec_id":"x-1"}}}`, r.ID)
		r = d.request()
		d.say(`{"id":%q,"ok":false,"error":{"code":"BRAND_NEW","message":"m"}}`, r.ID)
		r = d.request()
		d.say(`{"id":%q,"ok":true,"data":{"uptime_s":"no number"}}`, r.ID)
	}()
	_, err := c.ExecRun(timeout(t), api.ExecParams{SessionID: "a", Command: "x"})
	var e *api.Error
	if !errors.Is(err, api.ErrSessionBusy) || !errors.As(err, &e) || e.Message != `session "a": busy` || e.Details["exec_id"] != "x-1" {
		t.Errorf("%v", err)
	}
	_, err = c.ExecRun(timeout(t), api.ExecParams{SessionID: "a", Command: "x"})
	if !errors.As(err, &e) || e.Code != "BRAND_NEW" {
		t.Errorf("%v", err)
	}
	_, err = c.SystemPing(timeout(t), api.SystemPingParams{})
	if !errors.As(err, &e) || e.Code != api.CodeInternal || !strings.Contains(err.Error(), "system.ping: answer: ") {
		t.Errorf("%v", err)
	}
}

func TestCallByName(t *testing.T) {
	c, d := connect(t)
	go func() {
		if r := d.request(); r.Method != "new.method" || string(r.Params) != `{"a":[1]}` {
			t.Errorf("%+v", r)
		}
		d.say(`{"stream_id":"x-unknown","seq":1,"type":"stdout","data":"nobody asked"}`)
		d.say(`{"something":"else"}`)
		d.say(`{"id":"999","ok":true,"data":{}}`)
		d.say(`{"id":"1","ok":true,"data":{"big":12345678901234567890, "s":"<&>"}}`)
		if r := d.request(); string(r.Params) != `null` {
			t.Errorf("%+v", r)
		}
		d.say(`{"id":"2","ok":true,"data":null}`)
	}()
	data, err := c.Call(timeout(t), "new.method", json.RawMessage(`{"a":[1]}`))
	if err != nil || string(data) != `{"big":12345678901234567890, "s":"<&>"}` {
		t.Errorf("%s, %v", data, err)
	}
	if data, err = c.Call(timeout(t), "m", nil); err != nil || string(data) != "null" {
		t.Errorf("%s, %v", data, err)
	}
	if _, err = c.Call(timeout(t), "m", json.RawMessage(`{broken`)); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("%v", err)
	}
}

// TestContextEndsTheWaiting: the call returns, and a late answer does no harm.
func TestContextEndsTheWaiting(t *testing.T) {
	c, d := connect(t)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := c.SystemPing(ctx, api.SystemPingParams{})
		failed <- err
	}()
	late := d.request()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	d.say(`{"id":%q,"ok":true,"data":{"version":"late"}}`, late.ID)
	go func() { d.say(`{"id":%q,"ok":true,"data":{"version":"right"}}`, d.request().ID) }()
	if r, err := c.SystemPing(timeout(t), api.SystemPingParams{}); err != nil || r.Version != "right" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestContextEndsTheSending: the daemon reads nothing and the socket is full.
func TestContextEndsTheSending(t *testing.T) {
	c, _ := connect(t)
	ctx, cancel := context.WithCancel(context.Background())
	text := strings.Repeat("x", 4<<20)
	failed := make(chan error)
	for range 3 {
		go func() {
			_, err := c.ExecRun(ctx, api.ExecParams{SessionID: "s", Command: text})
			failed <- err
		}()
	}
	cancel()
	for range 3 {
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}

func TestLostConnection(t *testing.T) {
	c, d := connect(t)
	failed := make(chan error)
	for range 2 {
		go func() {
			_, err := c.SystemPing(timeout(t), api.SystemPingParams{})
			failed <- err
		}()
	}
	d.request()
	d.request()
	d.Close()
	for range 2 {
		if err := <-failed; !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), "connection lost") {
			t.Errorf("%v", err)
		}
	}
	<-c.Done()
	if _, err := c.SystemPing(timeout(t), api.SystemPingParams{}); !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("%v", err)
	}
}

// TestRefusedConnection: what the daemon said before it hung up is the error,
// whether the request could still be sent or not.
func TestRefusedConnection(t *testing.T) {
	c, d := connect(t)
	d.say(`{"id":null,"ok":false,"error":{"code":"FORBIDDEN","message":"connection: not you"}}`)
	d.Close()
	_, err := c.SystemPing(timeout(t), api.SystemPingParams{})
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeForbidden || e.Message != "connection: not you" {
		t.Errorf("%v", err)
	}
}

func TestGarbageEndsTheConnection(t *testing.T) {
	c, d := connect(t)
	d.say(`HTTP/1.1 400 Bad Request`)
	<-c.Done()
	if _, err := c.SystemPing(timeout(t), api.SystemPingParams{}); !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestClose(t *testing.T) {
	c, d := connect(t)
	failed := make(chan error)
	go func() {
		_, err := c.SystemPing(timeout(t), api.SystemPingParams{})
		failed <- err
	}()
	d.request()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("%v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.lines.ReadByte(); err != io.EOF {
		t.Errorf("the daemon sees %v", err)
	}
}

func TestDialErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	_, err := client.Dial(context.Background(), path)
	if !errors.Is(err, api.ErrRuntimeUnavailable) || !errors.Is(err, syscall.ENOENT) ||
		err.Error() != "daemon at "+path+": connect: no such file or directory" {
		t.Errorf("%v", err)
	}
}

func TestPeerPID(t *testing.T) {
	c, _ := connect(t)
	if pid, ok := c.PeerPID(); !ok || pid != os.Getpid() {
		t.Errorf("%d, %v", pid, ok)
	}
	a, b := net.Pipe()
	over := client.New(a)
	if _, ok := over.PeerPID(); ok {
		t.Error("a pipe has no peer")
	}
	over.Close()
	b.Close()
}

func TestDefaultSocket(t *testing.T) {
	t.Setenv("TRL_SOCKET_PATH", "/a/b.sock")
	if got := client.DefaultSocket(); got != "/a/b.sock" {
		t.Error(got)
	}
	t.Setenv("TRL_SOCKET_PATH", "")
	before := client.DefaultSocket()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	if got := client.DefaultSocket(); got != before {
		t.Errorf("%s with XDG_RUNTIME_DIR, %s without", got, before)
	}
}
