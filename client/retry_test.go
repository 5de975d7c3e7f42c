package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// TestNextCallDialsAgain: any call is repeated if no byte of it was sent.
func TestNextCallDialsAgain(t *testing.T) {
	c, d, ln := dial(t)
	d.Close()
	var calls sync.WaitGroup
	const many = 20
	for range many {
		calls.Go(func() {
			if _, err := c.SessionInfo(timeout(t), api.SessionInfoParams{SessionID: "s"}); err != nil {
				t.Error(err)
			}
		})
	}
	d = accept(t, ln) // one connection for all of them
	for range many {
		d.say(`{"id":%q,"ok":true,"data":{}}`, d.request().ID)
	}
	calls.Wait()
	if _, ok := c.PeerPID(); !ok {
		t.Error("the peer of the new connection is not known")
	}
}

// TestCallsAfterALoss: a call that may be repeated is repeated; the others return an error.
func TestCallsAfterALoss(t *testing.T) {
	ctx := context.Background()
	input := func(id string) func(c *client.Client) error {
		return func(c *client.Client) error {
			_, err := c.ExecInput(ctx, api.ExecInputParams{ExecID: "x", Data: "a", WriteID: id})
			return err
		}
	}
	byName := func(method, params string) func(c *client.Client) error {
		return func(c *client.Client) error {
			_, err := c.Call(ctx, method, json.RawMessage(params))
			return err
		}
	}
	send := func(id string) func(c *client.Client) error {
		return func(c *client.Client) error {
			_, err := c.DialogueSend(ctx, api.DialogueSendParams{DialogueID: "d", Text: "a", MessageID: id})
			return err
		}
	}
	destroy := func(id string) func(c *client.Client) error {
		return func(c *client.Client) error {
			_, err := c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: id})
			return err
		}
	}
	create := func(p api.SessionCreateParams) func(c *client.Client) error {
		return func(c *client.Client) error {
			_, err := c.SessionCreate(ctx, p)
			return err
		}
	}
	for _, test := range []struct {
		name  string
		twice bool
		call  func(c *client.Client) error
	}{
		{"exec.wait", true, func(c *client.Client) error { _, err := c.ExecWait(ctx, api.ExecWaitParams{}); return err }},
		{"exec.input", true, input("w1")},
		{"exec.input", false, input("")},
		{"exec.input", true, byName("exec.input", `{"exec_id":"x","close":true,"write_id":"w"}`)},
		{"exec.input", false, byName("exec.input", `{"exec_id":"x","close":true,"message_id":"m"}`)},
		{"dialogue.send", true, send("3f1c5a52-0000-4000-8000-000000000001")},
		{"dialogue.send", false, send("")},
		{"dialogue.send", true, byName("dialogue.send", `{"dialogue_id":"d","text":"a","message_id":"m"}`)},
		{"exec.run", true, func(c *client.Client) error { _, err := c.ExecRun(ctx, api.ExecParams{}); return err }},
		{"session.destroy", true, destroy("s-1")},
		{"session.destroy", false, destroy("name")}, // another session may have the name by then
		{"session.destroy", true, byName("session.destroy", `{"session_id":"s-1"}`)},
		{"session.destroy", false, byName("session.destroy", `{"session_id":"name"}`)},
		{"session.create", false, create(api.SessionCreateParams{})},
		{"session.create", true, create(api.SessionCreateParams{Ephemeral: true})}, // the first one ends without its connection
		{"session.create", true, create(api.SessionCreateParams{Ephemeral: true, Kind: api.KindShell})},
		{"session.create", false, create(api.SessionCreateParams{Ephemeral: true, Kind: api.KindTerminal})}, // its program has begun
		{"session.create", false, create(api.SessionCreateParams{Ephemeral: true, Kind: api.KindProgram})},
		{"session.create", false, create(api.SessionCreateParams{Ephemeral: true, Name: "taken"})},
		{"session.create", false, create(api.SessionCreateParams{Ephemeral: true, LingerS: new(float64)})},
		{"new.method", false, func(c *client.Client) error { _, err := c.Call(ctx, "new.method", nil); return err }},
	} {
		c, d, ln := dial(t)
		failed := make(chan error, 1)
		go func() { failed <- test.call(c) }()
		for range 2 { // also when the next daemon does not stay
			r := d.request()
			d.Close()
			if !test.twice {
				break
			}
			d = accept(t, ln)
			if again := d.request(); string(again.Params) != string(r.Params) || again.Method != r.Method {
				t.Errorf("%s: first %s, then %s", test.name, r.Params, again.Params)
			}
			d.Close()
			d = accept(t, ln)
		}
		if test.twice {
			d.say(`{"id":%q,"ok":true,"data":{}}`, d.request().ID)
		}
		err := <-failed
		if test.twice && err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if !test.twice && (!errors.Is(err, api.ErrRuntimeUnavailable) ||
			!strings.HasSuffix(err.Error(), "; it is not known whether "+test.name+" was done")) {
			t.Errorf("%s: %v", test.name, err)
		}
		c.Close()
	}
}

// TestRefusedConnectionOfASocket: one that is full or ends is tried again, one that does
// not want us is not.
func TestRefusedConnectionOfASocket(t *testing.T) {
	c, d, ln := dial(t)
	d.Close()
	failed := make(chan error)
	run := func() {
		_, err := c.ExecRun(timeout(t), api.ExecParams{SessionID: "s", Command: "c"})
		failed <- err
	}
	go run()
	for _, code := range []api.Code{api.CodeResourcePressure, api.CodeRuntimeUnavailable} {
		d = accept(t, ln)
		d.say(`{"id":null,"ok":false,"error":{"code":%q,"message":"connection: no"}}`, code)
		d.Close()
	}
	d = accept(t, ln)
	d.say(`{"id":%q,"ok":true,"data":{}}`, d.request().ID)
	if err := <-failed; err != nil {
		t.Error(err)
	}
	d.Close()
	go run()
	d = accept(t, ln)
	d.say(`{"id":null,"ok":false,"error":{"code":"FORBIDDEN","message":"connection: not you"}}`)
	d.Close()
	var e *api.Error
	if err := <-failed; !errors.As(err, &e) || e.Code != api.CodeForbidden {
		t.Errorf("%v", err)
	}
}

// TestWithoutReconnecting: the client does not wait for a daemon, but uses one that has started again.
func TestWithoutReconnecting(t *testing.T) {
	ln, path := listen(t)
	c, err := client.Dial(timeout(t), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.ReconnectFor = 0
	d := accept(t, ln)
	failed := make(chan error)
	ping := func() { _, err := c.SystemPing(timeout(t), api.SystemPingParams{}); failed <- err }
	go ping()
	d.request()
	ln.Close()
	d.Close()
	if err := <-failed; !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), "connection lost") {
		t.Errorf("%v", err)
	}
	go ping()
	if err := <-failed; !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	again, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	go ping()
	d = accept(t, again.(*net.UnixListener))
	d.say(`{"id":%q,"ok":true,"data":{}}`, d.request().ID)
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

// TestDaemonThatDoesNotServe: the client waits for a daemon that starts; a daemon that stops may
// already have begun the request.
func TestDaemonThatDoesNotServe(t *testing.T) {
	c, d, _ := dial(t)
	failed := make(chan error)
	answer := func(reason string) {
		d.say(`{"id":%q,"ok":false,"error":{"code":"RUNTIME_UNAVAILABLE","message":"not now: %s","details":{"reason":%q}}}`, d.request().ID, reason, reason)
	}
	go func() {
		_, err := c.SessionSet(timeout(t), api.SessionSetParams{SessionID: "s"})
		failed <- err
	}()
	answer(api.ReasonStarting)
	answer(api.ReasonStopping)
	if err := <-failed; err == nil || err.Error() != "not now: stopping" {
		t.Errorf("%v", err)
	}
	go func() {
		_, err := c.ExecWait(timeout(t), api.ExecWaitParams{ExecIDs: []string{"x"}})
		failed <- err
	}()
	answer(api.ReasonStopping)
	answer(api.ReasonStarting)
	answer("gone")
	if err := <-failed; err == nil || err.Error() != "not now: gone" {
		t.Errorf("%v", err)
	}
}

// TestCreateWhileTheDaemonEnds: a daemon that ends creates no session and no dialogue, so the client asks
// the next one, unless the user stopped the daemon.
func TestCreateWhileTheDaemonEnds(t *testing.T) {
	for method, create := range map[string]func(*client.Client) error{
		"session.create": func(c *client.Client) error {
			_, err := c.SessionCreate(timeout(t), api.SessionCreateParams{})
			return err
		},
		"dialogue.create": func(c *client.Client) error {
			_, err := c.DialogueCreate(timeout(t), api.DialogueCreateParams{})
			return err
		},
	} {
		c, d, ln := dial(t)
		failed := make(chan error, 1)
		for _, last := range []string{`"ok":true,"data":{}`, `"ok":false,"error":{"code":"RUNTIME_UNAVAILABLE","message":"stopped","details":{"reason":"stopping","sessions":"ended"}}`} {
			go func() { failed <- create(c) }()
			d.say(`{"id":%q,"ok":false,"error":{"code":"RUNTIME_UNAVAILABLE","message":"not now","details":{"reason":"stopping"}}}`, d.request().ID)
			d.Close()
			d = accept(t, ln)
			d.say(`{"id":%q,%s}`, d.request().ID, last)
			if err := <-failed; (err != nil) != strings.Contains(last, "stopped") || err != nil && err.Error() != "stopped" {
				t.Errorf("%s: %v", method, err)
			}
		}
	}
}

// TestManyDaemons: a call outlives a row of daemons that each work on it for a while. Together they
// take longer than the client looks for a daemon.
func TestManyDaemons(t *testing.T) {
	for name, end := range map[string]error{
		"that announce their end": api.ErrDaemonEnding,
		"that vanish":             client.Lost(api.Errorf(api.CodeRuntimeUnavailable, "gone")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				daemons := 0
				c := client.Over(func() error {
					time.Sleep(client.DefaultReconnectFor / 4) // the command runs
					if daemons++; daemons <= 8 {
						return end
					}
					return nil
				})
				if _, err := c.ExecRun(t.Context(), api.ExecParams{SessionID: "s", Command: "x"}); err != nil {
					t.Error(err)
				}
				if daemons != 9 {
					t.Errorf("%d daemons got the call", daemons)
				}
			})
		})
	}
}

// TestOwnerOfAnEndingDaemon: a daemon that ends answers session.create and disconnects at once. The
// client claims the session from the next daemon, also if the loss comes before it has recorded the
// session.
func TestOwnerOfAnEndingDaemon(t *testing.T) {
	for range 100 {
		c, d, ln := dial(t)
		done := make(chan error)
		go func() {
			_, err := c.SessionCreate(timeout(t), api.SessionCreateParams{Ephemeral: true})
			done <- err
		}()
		d.say(`{"id":%q,"ok":true,"data":{"session_id":"s-1"}}`, d.request().ID)
		d.Close()
		d = accept(t, ln)
		r := d.request()
		if r.Method != "session.own" {
			t.Fatalf("got %s", r.Method)
		}
		d.say(`{"id":%q,"ok":true,"data":{"session_id":"s-1"}}`, r.ID)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}
