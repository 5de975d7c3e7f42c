package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// opened is a stream and the connection it has.
type opened struct {
	stream api.Stream
	err    error
}

// begin opens a stream in the background: the daemon has to answer it.
func begin(open func() (api.Stream, error)) <-chan opened {
	done := make(chan opened, 1)
	go func() {
		s, err := open()
		done <- opened{s, err}
	}()
	return done
}

// streaming opens exec.stream on a connection of its own, with the first push.
func streaming(t *testing.T, c *client.Client, ln *net.UnixListener, p api.ExecStreamParams) (api.Stream, *daemon) {
	t.Helper()
	done := begin(func() (api.Stream, error) { return c.ExecStream(timeout(t), p) })
	d := accept(t, ln)
	d.say("{\"id\":%q,\"ok\":true,\"data\":{\"stream_id\":\"x-1\",\"exec_id\":\"x-1\",\"session_id\":\"s\"}}\n"+
		`{"stream_id":"x-1","seq":1,"type":"stdout","offset":0,"data":"first"}`, d.request().ID)
	o := <-done
	if o.err != nil {
		t.Fatal(o.err)
	}
	recv(t, o.stream, 1, "first")
	return o.stream, d
}

var command = api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: "s", Command: "c"}}

// attached takes the next connection, checks how the stream is asked for again and answers.
func attached(t *testing.T, ln *net.UnixListener, params string) *daemon {
	t.Helper()
	d := accept(t, ln)
	r := d.request()
	if string(r.Params) != params {
		t.Errorf("asked again with %s, want %s", r.Params, params)
	}
	d.say(`{"id":%q,"ok":true,"data":{"stream_id":"x-1/2","exec_id":"x-1","session_id":"s"}}`, r.ID)
	return d
}

// TestStreamHasItsOwnConnection: closing a stream frees its connection, and a stream that is not read
// delays no other call.
func TestStreamHasItsOwnConnection(t *testing.T) {
	c, shared, ln := dial(t)
	asleep, flood := streaming(t, c, ln, command)
	go func() {
		for data := strings.Repeat("y", 64<<10); ; {
			if _, err := io.WriteString(flood, `{"stream_id":"x-1","seq":2,"type":"stdout","offset":5,"data":"`+data+"\"}\n"); err != nil {
				return
			}
		}
	}()
	s, d := streaming(t, c, ln, command)
	for range 3 {
		go func() { shared.say(`{"id":%q,"ok":true,"data":{}}`, shared.request().ID) }()
		if _, err := c.SystemPing(timeout(t), api.SystemPingParams{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.lines.ReadByte(); err != io.EOF {
		t.Errorf("the daemon sees %v", err)
	}
	if _, err := s.Recv(); err != io.ErrClosedPipe {
		t.Errorf("after Close: %v", err)
	}
	if err := asleep.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-c.Done():
		t.Error("a stream took its client with it")
	default:
	}
}

func TestStreamGoesOnAfterALoss(t *testing.T) {
	c, _, ln := dial(t)
	s, d := streaming(t, c, ln, command)
	d.say(`{"stream_id":"x-1","seq":2,"type":"stderr","offset":0,"data":"né"}`)
	recv(t, s, 2, "né")
	d.say(`{"stream_id":"x-1","seq":3,"type":"stdout","offset":5,"data":"this line is cut o`)
	d.Close()

	const again = `{"session_id":"","command":"","exec_id":"x-1","after_seq":2}`
	next := make(chan api.StreamEvent, 1)
	go func() {
		ev, err := s.Recv()
		if err != nil {
			t.Error(err)
		}
		next <- ev
	}()
	d = attached(t, ln, again)
	d.Close() // and once more, before anything came
	d = attached(t, ln, again)
	// Numbered by a reader that holds back parts of characters, records may overlap.
	d.say(`{"stream_id":"x-1/2","seq":2,"type":"stderr","offset":0,"data":"né"}`)
	d.say(`{"stream_id":"x-1/2","seq":2,"type":"gap","stream":"stdout","from":2,"to":5}`)
	d.say(`{"stream_id":"x-1/2","seq":3,"type":"stdout","offset":3,"data":"stthe"}`)
	if ev := <-next; ev.Data != "the" || *ev.Offset != 5 || ev.Seq != 3 {
		t.Errorf("%+v", ev)
	}
	d.say(`{"stream_id":"x-1/2","seq":4,"type":"gap","stream":"stdout","from":6,"to":20}`)
	d.say(`{"stream_id":"x-1/2","seq":5,"type":"stderr","offset":1,"data":"\ufffd\u0001","data_base64":"w6kB/w=="}`)
	d.say(`{"stream_id":"x-1/2","seq":6,"type":"news"}`)
	d.say(`{"stream_id":"x-1/2","seq":7,"type":"exit","exit_code":3}`)
	if ev, err := s.Recv(); err != nil || ev.Type != api.EventGap || *ev.From != 8 || *ev.To != 20 || ev.StreamID != "x-1" {
		t.Errorf("%+v, %v", ev, err)
	}
	if ev, err := s.Recv(); err != nil || string(api.Data(ev.Data, ev.DataBase64)) != "\x01\xff" || *ev.Offset != 3 {
		t.Errorf("%+v, %v", ev, err)
	}
	if ev, err := s.Recv(); err != nil || ev.Type != "news" {
		t.Errorf("%+v, %v", ev, err)
	}
	if ev, err := s.Recv(); err != nil || ev.ExitCode != 3 {
		t.Errorf("%+v, %v", ev, err)
	}
	for range 2 {
		if _, err := s.Recv(); err != io.EOF {
			t.Errorf("%v", err)
		}
	}
	if _, err := d.lines.ReadByte(); err != io.EOF {
		t.Errorf("a stream that is over keeps its connection: %v", err)
	}
}

// TestStreamFromOffset: what was left out stays out, however often it is asked for.
func TestStreamFromOffset(t *testing.T) {
	c, _, ln := dial(t)
	done := begin(func() (api.Stream, error) {
		return c.ExecStream(timeout(t), api.ExecStreamParams{ExecID: "x-1", FromOffset: 10, Stream: "stdout"})
	})
	first := `{"session_id":"","command":"","exec_id":"x-1","stream":"stdout","from_offset":10}`
	accept(t, ln).Close() // harmless: nothing is started
	d := attached(t, ln, first)
	o := <-done
	if o.err != nil {
		t.Fatal(o.err)
	}
	d.Close()
	go func() {
		d := attached(t, ln, first)
		d.say(`{"stream_id":"x-1","seq":7,"type":"stdout","offset":10,"data":"ten"}`)
		d.Close()
		d = attached(t, ln, `{"session_id":"","command":"","exec_id":"x-1","after_seq":7,"stream":"stdout"}`)
		d.say(`{"stream_id":"x-1","seq":8,"type":"stderr","offset":4,"data":"hidden"}`)
		d.say(`{"stream_id":"x-1","seq":9,"type":"stderr","offset":10,"data":"seen"}`)
	}()
	recv(t, o.stream, 7, "ten")
	recv(t, o.stream, 9, "seen")
	o.stream.Close()
}

// TestStreamThatCannotGoOn: the command dies with its connection.
func TestStreamThatCannotGoOn(t *testing.T) {
	c, _, ln := dial(t)
	p, detach := command, false
	p.Detach = &detach
	s, d := streaming(t, c, ln, p)
	d.say(`{"stream_id":"x-1","seq":1,"type":"error","error":{"code":"RUNTIME_UNAVAILABLE","message":"the daemon is shutting down","details":{"reason":"stopping","sessions":"ended"}}}`)
	for range 2 {
		if _, err := s.Recv(); !errors.Is(err, api.ErrRuntimeUnavailable) ||
			err.Error() != `the daemon is shutting down; exec "x-1" is cancelled, because it was not detached` {
			t.Errorf("%v", err)
		}
	}

	c.ReconnectFor = 0
	s, d = streaming(t, c, ln, command)
	d.Close()
	if _, err := s.Recv(); !errors.Is(err, api.ErrRuntimeUnavailable) || err.Error() != "daemon: connection lost: the daemon closed it" {
		t.Errorf("%v", err)
	}

	// The client cannot know whether the command was started.
	done := begin(func() (api.Stream, error) { return c.ExecStream(timeout(t), command) })
	d = accept(t, ln)
	d.request()
	d.Close()
	if o := <-done; !errors.Is(o.err, api.ErrRuntimeUnavailable) || !strings.HasSuffix(o.err.Error(), "; it is not known whether exec.stream was done") {
		t.Errorf("%v", o.err)
	}
}

// TestTiedStreamGoesOn: with the next daemon the command is tied to its stream as before.
func TestTiedStreamGoesOn(t *testing.T) {
	c, _, ln := dial(t)
	p, detach := command, false
	p.Detach = &detach
	s, d := streaming(t, c, ln, p)
	d.Close()
	next := make(chan error, 1)
	go func() {
		_, err := s.Recv()
		next <- err
	}()
	d = accept(t, ln)
	r := d.request()
	if params := string(r.Params); !strings.Contains(params, `"exec_id":"x-1"`) || !strings.Contains(params, `"detach":false`) {
		t.Errorf("%s", params)
	}
	d.say(`{"id":%q,"ok":true,"data":{"stream_id":"x-1/1","exec_id":"x-1","session_id":"s-1"}}`, r.ID)
	d.say(`{"stream_id":"x-1/1","seq":2,"type":"stdout","offset":5,"data":"a"}`)
	if err := <-next; err != nil {
		t.Error(err)
	}
}

// TestDaemonSaysThatItEnds: the next one is asked. Anything else that a daemon says is so.
func TestDaemonSaysThatItEnds(t *testing.T) {
	c, _, ln := dial(t)
	s, d := streaming(t, c, ln, command)
	const ends = `{"stream_id":"x-1","seq":1,"type":"error","error":{"code":"RUNTIME_UNAVAILABLE","message":"gone","details":{"reason":"stopping"}}}`
	d.say(ends)
	next := make(chan error, 1)
	go func() {
		_, err := s.Recv()
		next <- err
	}()
	d = accept(t, ln)
	d.say(`{"id":null,"ok":false,"error":{"code":"RUNTIME_UNAVAILABLE","message":"gone","details":{"reason":"stopping"}}}`)
	d.Close()
	d = accept(t, ln)
	d.say(`{"id":%q,"ok":false,"error":{"code":"RUNTIME_UNAVAILABLE","message":"not yet","details":{"reason":"starting"}}}`, d.request().ID)
	d = attached(t, ln, `{"session_id":"","command":"","exec_id":"x-1","after_seq":1}`)
	d.say(`{"stream_id":"x-1","seq":2,"type":"stdout","offset":5,"data":"new"}`)
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	d.say(`{"stream_id":"x-1","seq":2,"type":"error","error":{"code":"RUNTIME_UNAVAILABLE","message":"runner: gone"}}`)
	if _, err := s.Recv(); err == nil || err.Error() != "runner: gone" {
		t.Errorf("%v", err)
	}

	// A daemon that does not know the command has answered.
	s, d = streaming(t, c, ln, command)
	d.Close()
	go func() {
		d := accept(t, ln)
		d.say(`{"id":%q,"ok":false,"error":{"code":"EXEC_NOT_FOUND","message":"exec \"x-1\": not found"}}`, d.request().ID)
	}()
	if _, err := s.Recv(); !errors.Is(err, api.ErrExecNotFound) {
		t.Errorf("%v", err)
	}
}

func TestEventsGoOnAfterALoss(t *testing.T) {
	c, _, ln := dial(t)
	done := begin(func() (api.Stream, error) {
		return c.EventSubscribe(timeout(t), api.EventSubscribeParams{Types: []string{"exec"}})
	})
	subscribed := func(params string) *daemon {
		d := accept(t, ln)
		r := d.request()
		if string(r.Params) != params {
			t.Errorf("asked with %s, want %s", r.Params, params)
		}
		d.say(`{"id":%q,"ok":true,"data":{"stream_id":"e-1","seq":40}}`, r.ID)
		return d
	}
	d := subscribed(`{"types":["exec"]}`)
	s := (<-done).stream
	d.Close()
	go func() {
		d := subscribed(`{"types":["exec"],"after_seq":40}`)
		d.say(`{"stream_id":"e-1","seq":42,"type":"exec.running","exec_id":"x-1"}`)
		d.Close()
		d = subscribed(`{"types":["exec"],"after_seq":42}`)
		d.say(`{"stream_id":"e-1","seq":42,"type":"exec.running","exec_id":"x-1"}`)
		d.say(`{"stream_id":"e-1","seq":43,"type":"missed","from":40,"to":43}`)
		d.say(`{"stream_id":"e-1","seq":49,"type":"missed","from":43,"to":50}`)
		d.say(`{"stream_id":"e-1","seq":50,"type":"exec.exited","exec_id":"x-1","exit_code":4}`)
	}()
	if ev, err := s.Recv(); err != nil || ev.Seq != 42 {
		t.Errorf("%+v, %v", ev, err)
	}
	if ev, err := s.Recv(); err != nil || ev.Type != api.EventMissed || *ev.From != 44 || *ev.To != 50 {
		t.Errorf("%+v, %v", ev, err)
	}
	if ev, err := s.Recv(); err != nil || ev.Seq != 50 || ev.ExecOutcome == nil || ev.ExitCode != 4 {
		t.Errorf("%+v, %v", ev, err)
	}
	s.Close()
}

// TestOutageCanBeEnded: by the context, by the stream, by the client, and by the time
// that was set for it.
func TestOutageCanBeEnded(t *testing.T) {
	for _, how := range []struct {
		name string
		want error
	}{{"context", context.Canceled}, {"stream", io.ErrClosedPipe}, {"client", api.ErrRuntimeUnavailable}, {"time", api.ErrRuntimeUnavailable}} {
		t.Run(how.name, func(t *testing.T) {
			c, d, ln := dial(t)
			if how.name == "time" {
				c.ReconnectFor = 50 * time.Millisecond
			}
			ctx, cancel := context.WithCancel(timeout(t))
			defer cancel()
			done := begin(func() (api.Stream, error) { return c.ExecStream(ctx, command) })
			on := accept(t, ln)
			on.say(`{"id":%q,"ok":true,"data":{"stream_id":"x-1","exec_id":"x-1"}}`, on.request().ID)
			s := (<-done).stream
			ln.Close()
			on.Close()
			d.Close()
			ended := make(chan error, 2)
			go func() { _, err := s.Recv(); ended <- err }()
			go func() { _, err := c.SystemPing(ctx, api.SystemPingParams{}); ended <- err }()
			switch how.name {
			case "context":
				cancel()
			case "stream":
				s.Close()
				if err := <-ended; !errors.Is(err, how.want) {
					t.Errorf("%v", err)
				}
				cancel()
				<-ended
				return
			case "client":
				c.Close()
			}
			for range 2 {
				if err := <-ended; !errors.Is(err, how.want) {
					t.Errorf("%v", err)
				}
			}
		})
	}
}
