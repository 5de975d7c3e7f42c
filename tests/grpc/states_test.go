package grpc_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
)

// printer starts a command that prints its input, and follows it.
func (f *far) printer(t *testing.T, o client.RemoteOptions) (*client.RemoteSession, *observer) {
	t.Helper()
	x, err := f.near.ExecStart(timeout(t), api.ExecParams{SessionID: f.session(t, api.SessionCreateParams{}).SessionID, Command: "cat", StdinOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	o.ExecID = x.ExecID
	return f.open(t, x.SessionID, o)
}

// print has the command print a text, by the socket.
func (f *far) print(t *testing.T, r *client.RemoteSession, text string) {
	t.Helper()
	_, exec := r.IDs()
	if _, err := f.near.ExecInput(timeout(t), api.ExecInputParams{ExecID: exec, Data: text}); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, r *client.RemoteSession, offset int64, text string) {
	t.Helper()
	p, err := r.Recv(timeout(t))
	if err != nil || p.Type != api.EventStdout || p.Offset != offset || string(p.Data) != text {
		t.Fatalf("%+v, %v", p, err)
	}
}

// failed reads until it has failed, and returns why.
func failed(t *testing.T, r *client.RemoteSession) *client.RemoteError {
	t.Helper()
	for {
		_, err := r.Recv(timeout(t))
		var e *client.RemoteError
		if errors.As(err, &e) {
			return e
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestGivesUpAndTriesAgain: the client gives up on a daemon that it cannot reach, finds it again with
// Retry, and the bytes continue where they stopped.
func TestGivesUpAndTriesAgain(t *testing.T) {
	f := startFar(t)
	r, seen := f.printer(t, client.RemoteOptions{Backoff: client.Backoff{First: time.Millisecond, Most: 20 * time.Millisecond, GiveUp: 200 * time.Millisecond}})
	f.print(t, r, "one")
	expect(t, r, 0, "one")
	for i := range int64(2) {
		f.proxy.Refuse()
		f.proxy.Cut()
		f.print(t, r, "two")
		if e := failed(t, r); e.Reason != client.ReasonUnreachable || !strings.Contains(e.Error(), "connection refused") || !errors.Is(e, api.ErrRuntimeUnavailable) {
			t.Errorf("%v", e)
		}
		if err := r.Write(timeout(t), []byte("never")); !errors.As(err, new(*client.RemoteError)) {
			t.Errorf("%v", err)
		}
		if c := seen.await(client.StateFailed); c.Reason != client.ReasonUnreachable || c.Cause == nil || r.State() != c {
			t.Errorf("%+v", c)
		}
		r.Retry() // too early
		seen.await(client.StateReconnecting)
		seen.await(client.StateFailed)
		f.proxy.Listen()
		r.Retry()
		seen.await(client.StateReconnected)
		expect(t, r, 3+3*i, "two")
	}
	r.Retry() // nothing to be done
	if err := r.Write(timeout(t), []byte("three")); err != nil {
		t.Fatal(err)
	}
	expect(t, r, 9, "three")
	if r.State().State != client.StateReconnected {
		t.Errorf("%+v", r.State())
	}
}

// TestStallIsNoticed: a connection on which nothing comes is not a connection.
func TestStallIsNoticed(t *testing.T) {
	f := startFarWith(t, quick)
	r, seen := f.printer(t, client.RemoteOptions{})
	f.print(t, r, "one")
	expect(t, r, 0, "one")
	f.proxy.Stall()
	if c := seen.await(client.StateReconnecting); !strings.Contains(c.Cause.Error(), "stalled") {
		t.Errorf("%+v", c)
	}
	seen.await(client.StateReconnected)
	f.print(t, r, "two")
	expect(t, r, 3, "two")

	// A write into it is done once it is noticed.
	f.proxy.Stall()
	if err := r.Write(timeout(t), []byte("three")); err != nil {
		t.Fatal(err)
	}
	expect(t, r, 6, "three")
	// A connection that is only quiet is not touched.
	f.client.Close()
	f.client = f.dial(t, steady)
	f.printer(t, client.RemoteOptions{})
	before := f.proxy.Connections()
	time.Sleep(5 * steady.KeepAlive)
	if n := f.proxy.Connections(); n != before {
		t.Errorf("%d connections more", n-before)
	}
}

// TestSessionGone: there is nothing to come back to.
func TestSessionGone(t *testing.T) {
	f := startFar(t, "--retention-s", "0")
	r, seen := f.printer(t, client.RemoteOptions{})
	f.proxy.Refuse()
	f.proxy.Cut()
	seen.await(client.StateReconnecting)
	session, exec := r.IDs()
	if _, err := f.near.SessionDestroy(timeout(t), api.SessionDestroyParams{SessionID: session, Force: true}); err != nil {
		t.Fatal(err)
	}
	for { // until it is forgotten
		if _, err := f.near.ExecInfo(timeout(t), api.ExecInfoParams{ExecID: exec}); errors.Is(err, api.ErrExecNotFound) || errors.Is(err, api.ErrSessionNotFound) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	f.proxy.Listen()
	e := failed(t, r)
	if e.Reason != client.ReasonSessionGone || !errors.Is(e, api.ErrExecNotFound) && !errors.Is(e, api.ErrSessionNotFound) {
		t.Errorf("%v", e)
	}
	still(t, f, r)
	r.Retry()
	seen.await(client.StateReconnecting)
	if c := seen.await(client.StateFailed); c.Reason != client.ReasonSessionGone {
		t.Errorf("%+v", c)
	}
	for _, o := range []client.RemoteOptions{{}, {ExecID: exec}, {Attach: &api.SessionAttachParams{}}} {
		_, err := client.OpenRemote(timeout(t), f.client, session, o)
		if !errors.As(err, &e) || e.Reason != client.ReasonSessionGone {
			t.Errorf("%v", err)
		}
	}
}

// still checks that a session that has failed is not looked for.
func still(t *testing.T, f *far, r *client.RemoteSession) {
	t.Helper()
	before := f.proxy.Connections()
	time.Sleep(10 * forEver.Most)
	if n := f.proxy.Connections(); n != before || r.State().State != client.StateFailed {
		t.Errorf("%d connections more, %+v", n-before, r.State())
	}
}

// TestRejected: a client whose token is rejected does not try again with the same token.
func TestRejected(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	const first, second = "first-token-0123456789", "other-token-0123456789"
	give := func(text string) {
		t.Helper()
		if err := os.WriteFile(tokens+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tokens+".new", tokens); err != nil {
			t.Fatal(err)
		}
	}
	give(first)
	o := steady
	o.Token = first
	f := startFarWith(t, o, "--token-file", tokens)
	r, seen := f.printer(t, client.RemoteOptions{})
	give(second)
	f.proxy.Cut()
	if e := failed(t, r); e.Reason != client.ReasonAuthRejected || api.AsError(e).Code != api.CodeAuthFailed {
		t.Errorf("%v", e)
	}
	still(t, f, r)
	if _, err := client.OpenRemote(timeout(t), f.client, "s", client.RemoteOptions{ExecID: "x"}); !errors.As(err, new(*client.RemoteError)) {
		t.Errorf("%v", err)
	}
	give(first)
	r.Retry()
	seen.await(client.StateReconnected)
	f.print(t, r, "in")
	expect(t, r, 0, "in")
}

// TestRefused: what the daemon cannot do is not asked for again.
func TestRefused(t *testing.T) {
	f := startFar(t)
	shell := f.session(t, api.SessionCreateParams{}).SessionID
	var e *client.RemoteError
	if _, err := client.OpenRemote(timeout(t), f.client, shell, client.RemoteOptions{}); !errors.As(err, &e) || e.Reason != client.ReasonRefused || !strings.Contains(err.Error(), "is a shell") {
		t.Errorf("%v", err)
	}
	if _, err := client.OpenRemote(timeout(t), f.client, shell, client.RemoteOptions{Attach: &api.SessionAttachParams{}}); !errors.As(err, &e) || e.Reason != client.ReasonRefused {
		t.Errorf("%v", err)
	}
	for _, o := range []client.RemoteOptions{{ExecID: "x", Attach: &api.SessionAttachParams{}}} {
		if _, err := client.OpenRemote(timeout(t), f.client, shell, o); !errors.Is(err, api.ErrInvalidParams) {
			t.Errorf("%v", err)
		}
	}
	if _, err := client.OpenRemote(timeout(t), f.client, "", client.RemoteOptions{}); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("%v", err)
	}
}

// TestCloseEndsEverything that waits.
func TestCloseEndsEverything(t *testing.T) {
	f := startFarWith(t, quick)
	r, seen := f.printer(t, client.RemoteOptions{})
	f.proxy.Refuse()
	f.proxy.Cut()
	seen.await(client.StateReconnecting)
	ends := make(chan error, 2)
	go func() { _, err := r.Recv(timeout(t)); ends <- err }()
	go func() { ends <- r.Write(timeout(t), []byte("x")) }()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Recv(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.Close()
	r.Close()
	for range 2 {
		if err := <-ends; !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	}
	r.Retry()
	if _, err := r.Recv(timeout(t)); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}

	// A write that is on its way into a connection that does not answer.
	f.proxy.Listen()
	r, _ = f.printer(t, client.RemoteOptions{})
	f.proxy.Stall()
	go func() { ends <- r.Write(timeout(t), []byte("x")) }()
	r.Close()
	if err := <-ends; !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}

	// That of the client is the end of all that goes through it.
	r, seen = f.printer(t, client.RemoteOptions{})
	f.client.Close()
	if c := seen.await(client.StateFailed); c.Reason != client.ReasonUnreachable {
		t.Errorf("%+v", c)
	}
	if e := failed(t, r); !strings.Contains(e.Error(), "closed by this side") {
		t.Errorf("%v", e)
	}
}

// TestSlowConsumer: a slow consumer delays no other and misses nothing.
func TestSlowConsumer(t *testing.T) {
	f := startFar(t, large...)
	session := f.session(t, api.SessionCreateParams{}).SessionID
	x, err := f.near.ExecStart(timeout(t), api.ExecParams{SessionID: session, Command: "seq 1 2000000"})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := f.open(t, session, client.RemoteOptions{ExecID: x.ExecID})
	if _, err := f.near.ExecWait(timeout(t), api.ExecWaitParams{ExecIDs: []string{x.ExecID}}); err != nil {
		t.Fatal(err)
	}
	for range 10 { // over the same connection
		if _, err := f.client.SystemPing(timeout(t), api.SystemPingParams{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(steady.KeepAlive / 2)
	}
	out, exit := take(t, r)
	if exit == nil || int64(len(out[api.EventStdout])) != exit.StdoutBytes || !strings.HasSuffix(string(out[api.EventStdout]), "\n2000000\n") {
		t.Errorf("%d bytes, %+v", len(out[api.EventStdout]), exit)
	}
	if r.State().State != client.StateConnected {
		t.Errorf("%+v", r.State())
	}
}

// TestSnapshotThenBytes: a viewer begins with the screen, and after a loss goes on with
// the byte that is missing.
func TestSnapshotThenBytes(t *testing.T) {
	f := startFar(t)
	s := f.session(t, api.SessionCreateParams{Kind: api.KindTerminal, Name: "t", Command: []string{"sh", "-c", "stty raw -echo; printf ready; cat"}})
	if w, err := f.near.SessionWait(timeout(t), api.SessionWaitParams{SessionID: "t", Text: "ready"}); err != nil || w.TimedOut {
		t.Fatalf("%+v, %v", w, err)
	}
	r, seen := f.open(t, "t", client.RemoteOptions{Attach: &api.SessionAttachParams{}})
	if id, exec := r.IDs(); id != s.SessionID || exec != "" {
		t.Errorf("%s, %s", id, exec)
	}
	p, err := r.Recv(timeout(t))
	if err != nil || p.Type != api.EventSnapshot || p.Offset != 5 || !strings.Contains(string(p.Data), "ready") || p.Event.ViewerEvent == nil || p.Event.Cols != 80 {
		t.Fatalf("%+v, %v", p, err)
	}
	at := p.Offset
	for i, text := range []string{"one", "\xff\x00", "three"} {
		f.proxy.Cut()
		seen.await(client.StateReconnecting)
		if err := r.Write(timeout(t), []byte(text)); err != nil {
			t.Fatal(err)
		}
		for got := ""; got != text; {
			p, err := r.Recv(timeout(t))
			if err != nil || p.Type != api.EventOutput && p.Type != api.EventResize {
				t.Fatalf("%d: %+v, %v", i, p, err)
			}
			if p.Type == api.EventOutput {
				if p.Offset != at {
					t.Fatalf("byte %d after %d", p.Offset, at)
				}
				got, at = got+string(p.Data), at+int64(len(p.Data))
			}
		}
	}
}

// TestShareTurnsNothingOn: a caller from elsewhere cannot make the daemon serve HTTP.
func TestShareTurnsNothingOn(t *testing.T) {
	f := startFar(t)
	id := testkit.Must(f.near.SessionCreate(t.Context(), api.SessionCreateParams{}))(t).SessionID
	_, err := f.client.WebShare(t.Context(), api.WebShareParams{SessionID: id})
	testkit.WantError(t, err, api.CodeConflict, "HTTP is off")
	if info := testkit.Must(f.near.SystemInfo(t.Context(), api.SystemInfoParams{}))(t); info.HTTP != "" {
		t.Errorf("HTTP is on at %s", info.HTTP)
	}
	testkit.Must(f.near.WebShare(t.Context(), api.WebShareParams{SessionID: id}))(t)
	if share := testkit.Must(f.client.WebShare(t.Context(), api.WebShareParams{SessionID: id}))(t); !strings.HasPrefix(share.URL, "http://127.0.0.1:") {
		t.Errorf("%+v", share)
	}
}
