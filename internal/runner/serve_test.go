package runner_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/testkit"
)

// visitor is another connection to a runner.
func (d *daemon) visitor(t *testing.T) *daemon {
	t.Helper()
	c, err := net.Dial("unix", d.dir+"/link.sock")
	if err != nil {
		t.Fatal(err)
	}
	v := &daemon{t: t, dir: d.dir, id: d.id, over: make(chan struct{})}
	v.use(c)
	t.Cleanup(v.leave)
	return v
}

// TestVisitors: a process that merely connects is not the daemon, and can ask nothing.
func TestVisitors(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	for range 3 {
		v := d.visitor(t)
		for _, call := range []string{link.Info.Name, link.Destroy.Name, link.ExecRun.Name} {
			_, err := v.conn.Call(context.Background(), untyped(call, struct{}{}))
			if api.AsError(err).Code != api.CodeForbidden || !strings.Contains(err.Error(), "the first call must be hello") {
				t.Errorf("%s: %v", call, err)
			}
		}
		if r := d.run("echo fine"); r.stdout != "fine\n" {
			t.Errorf("%q", r.stdout)
		}
		v.leave()
	}
}

// TestKey: a caller without the key of the connected daemon cannot replace that daemon; a caller with
// the key can, and any daemon can connect if none is connected.
func TestKey(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"}) // this session was made without a key
	first := d.visitor(t)
	if err := hello(first.conn, "secret"); err != nil {
		t.Fatal(err)
	}
	<-d.done
	for _, key := range []string{"", "guess"} {
		v := d.visitor(t)
		if err := hello(v.conn, key); api.AsError(err).Code != api.CodeForbidden {
			t.Errorf("key %q: %v", key, err)
		}
		if err := hello(first.conn, "secret"); err != nil {
			t.Errorf("the daemon is gone: %v", err)
		}
	}
	second := d.visitor(t)
	if err := hello(second.conn, "secret"); err != nil {
		t.Fatal(err)
	}
	<-first.done
	second.leave()
	older := d.visitor(t) // a daemon of an earlier version, which knows no keys
	testkit.Eventually(t, "an older daemon is welcome", func() bool { return hello(older.conn, "") == nil })
	last := d.visitor(t)
	if err := hello(last.conn, "secret"); err != nil {
		t.Fatal(err)
	}
	<-older.done
	d.conn, d.done = last.conn, last.done
	if r := d.run("echo fine"); r.stdout != "fine\n" {
		t.Errorf("%q", r.stdout)
	}
}

// TestLateHello: connections say hello in another order than they were made. The newest
// one is the daemon.
func TestLateHello(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	older, newer := d.visitor(t), d.visitor(t)
	if err := hello(newer.conn, ""); err != nil {
		t.Fatal(err)
	}
	<-d.done
	if err := hello(older.conn, ""); !errors.Is(err, api.ErrConflict) {
		t.Errorf("got %v", err)
	}
	d.conn, d.done = newer.conn, newer.done
	if r := d.run("echo fine"); r.stdout != "fine\n" {
		t.Errorf("%q", r.stdout)
	}
}

// TestReconnects: however often the connection breaks, the command goes on.
func TestReconnects(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	detached := true
	x := d.begin(api.ExecParams{Command: "sleep 1000", Detach: &detached})
	for range 20 {
		d.leave()
		d.connect()
	}
	if _, err := d.cancel(api.ExecCancelParams{ExecID: x.ExecID}); err != nil {
		t.Error(err)
	}
	if in := d.info(x.ExecID); in.Outcome == nil || !in.Outcome.Cancelled {
		t.Errorf("%+v", in)
	}
}
