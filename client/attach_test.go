package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// attaching opens session.attach on a connection of its own, with a snapshot at byte 100.
func attaching(t *testing.T, c *client.Client, ln *net.UnixListener, p api.SessionAttachParams) (*client.Stream, *daemon) {
	t.Helper()
	done := begin(func() (api.Stream, error) { return c.SessionAttach(timeout(t), p) })
	d := accept(t, ln)
	d.say("{\"id\":%q,\"ok\":true,\"data\":{\"stream_id\":\"1\",\"session_id\":\"s-1\",\"viewer_id\":\"v1\"}}\n"+
		`{"stream_id":"1","seq":1,"type":"snapshot","offset":100,"data":"screen","cols":80,"rows":24,"owner_id":"v1"}`, d.request().ID)
	o := <-done
	if o.err != nil {
		t.Fatal(o.err)
	}
	recv(t, o.stream, 1, "screen")
	return o.stream.(*client.Stream), d
}

// viewing takes the next connection, checks how the viewer asks for more and answers.
func viewing(t *testing.T, ln *net.UnixListener, id, params string) *daemon {
	t.Helper()
	d := accept(t, ln)
	r := d.request()
	if string(r.Params) != params {
		t.Errorf("asked again with\n%s, want\n%s", r.Params, params)
	}
	d.say(`{"id":%q,"ok":true,"data":{"stream_id":"1","session_id":"s-1","viewer_id":%q}}`, r.ID, id)
	return d
}

// TestViewerGoesOnAfterALoss: exactly the bytes that are missing, wherever the loss was.
func TestViewerGoesOnAfterALoss(t *testing.T) {
	c, _, ln := dial(t)
	s, d := attaching(t, c, ln, api.SessionAttachParams{SessionID: "name", Snapshot: true, Size: &api.TerminalSize{Cols: 80, Rows: 24}})
	var told []error
	s.Watch(func(lost error) { told = append(told, lost) })
	d.say(`{"stream_id":"1","seq":2,"type":"output","offset":100,"data":"né"}`)
	recv(t, s, 2, "né")
	d.say(`{"stream_id":"1","seq":3,"type":"output","offset":103,"data":"cut o`)
	d.Close()

	const again = `{"session_id":"s-1","from_offset":103,"size":{"cols":80,"rows":24},"take_size":true}`
	next := make(chan api.StreamEvent, 1)
	go func() {
		ev, err := s.Recv()
		if err != nil {
			t.Error(err)
		}
		next <- ev
	}()
	viewing(t, ln, "v2", again).Close() // and once more, before anything came
	d = viewing(t, ln, "v3", again)
	d.say(`{"stream_id":"1","seq":1,"type":"resize","offset":103,"cols":80,"rows":24,"owner_id":"other"}`)
	if ev := <-next; ev.Type != api.EventResize || ev.Seq != 3 || ev.OwnerID != "other" {
		t.Errorf("%+v", ev)
	}
	if id := s.Start().ViewerID; id != "v3" {
		t.Errorf("viewer %s", id)
	}
	// Overlapping bytes are not returned twice.
	d.say(`{"stream_id":"1","seq":2,"type":"output","offset":100,"data":"né"}`)
	d.say(`{"stream_id":"1","seq":3,"type":"output","offset":101,"data":"écut"}`)
	if ev, err := s.Recv(); err != nil || ev.Data != "cut" || *ev.Offset != 103 || ev.Seq != 4 {
		t.Errorf("%+v, %v", ev, err)
	}
	// The viewer was too slow: it gets the screen instead of the bytes, which continue after it.
	d.say(`{"stream_id":"1","seq":4,"type":"snapshot","offset":5000,"data":"later","cols":80,"rows":24}`)
	recv(t, s, 5, "later")
	d.say(`{"stream_id":"1","seq":5,"type":"output","offset":5000,"data_base64":"/w=="}`)
	if ev, err := s.Recv(); err != nil || ev.DataBase64 != "/w==" {
		t.Errorf("%+v, %v", ev, err)
	}
	d.Close()
	go func() {
		ev, _ := s.Recv()
		next <- ev
	}()
	// The viewer no longer owns the size, and does not take it from the new owner.
	d = viewing(t, ln, "v4", `{"session_id":"s-1","from_offset":5001,"size":{"cols":80,"rows":24}}`)
	d.say(`{"stream_id":"1","seq":1,"type":"exit","offset":5001,"exit_code":3}`)
	if ev := <-next; ev.Type != api.EventExit || ev.ExitCode != 3 {
		t.Errorf("%+v", ev)
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Errorf("%v", err)
	}
	if len(told) != 6 || told[0] == nil || told[1] != nil {
		t.Errorf("the watcher was told %v", told)
	}
}

// TestViewerWhoseSessionEndedMeanwhile: no bytes are left to be had.
func TestViewerWhoseSessionEndedMeanwhile(t *testing.T) {
	c, _, ln := dial(t)
	s, d := attaching(t, c, ln, api.SessionAttachParams{SessionID: "name", ReadOnly: true})
	d.Close()
	ended := make(chan error, 1)
	go func() { _, err := s.Recv(); ended <- err }()
	d = accept(t, ln)
	if r := d.request(); string(r.Params) != `{"session_id":"s-1","from_offset":100,"read_only":true}` {
		t.Errorf("asked again with %s", r.Params)
	} else {
		d.say(`{"id":%q,"ok":false,"error":{"code":"SESSION_TERMINATED","message":"session \"s-1\": has ended"}}`, r.ID)
	}
	if err := <-ended; !errors.Is(err, api.ErrSessionTerminated) {
		t.Errorf("%v", err)
	}
}

// TestViewerTellsItsSize: the last one, to the attachment of now.
func TestViewerTellsItsSize(t *testing.T) {
	c, shared, ln := dial(t)
	s, d := attaching(t, c, ln, api.SessionAttachParams{SessionID: "name"})
	resized := func(want string) {
		t.Helper()
		r := shared.request()
		if string(r.Params) != want {
			t.Errorf("resized with %s, want %s", r.Params, want)
		}
		shared.say(`{"id":%q,"ok":true,"data":{"cols":100,"rows":30,"applied":true}}`, r.ID)
	}
	go resized(`{"session_id":"s-1","cols":100,"rows":30,"viewer_id":"v1"}`)
	if res, err := s.Resize(timeout(t), 100, 30); err != nil || !res.Applied {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := s.Resize(timeout(t), 0, 0); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("0x0: %v", err)
	}
	d.Close()
	next := make(chan string, 1)
	go func() {
		ev, err := s.Recv()
		if err != nil {
			t.Error(err)
		}
		next <- ev.Data
	}()
	// Resized between the request and its answer: the new attachment gets the size once more.
	d = accept(t, ln)
	r := d.request()
	if string(r.Params) != `{"session_id":"s-1","from_offset":100,"size":{"cols":100,"rows":30},"take_size":true}` {
		t.Errorf("asked again with %s", r.Params)
	}
	go resized(`{"session_id":"s-1","cols":101,"rows":31,"viewer_id":"v1"}`)
	if _, err := s.Resize(timeout(t), 101, 31); err != nil {
		t.Error(err)
	}
	d.say(`{"id":%q,"ok":true,"data":{"stream_id":"1","session_id":"s-1","viewer_id":"v2"}}`, r.ID)
	resized(`{"session_id":"s-1","cols":101,"rows":31,"viewer_id":"v2"}`)
	d.say(`{"stream_id":"1","seq":1,"type":"output","offset":100,"data":"x"}`)
	if data := <-next; data != "x" {
		t.Errorf("%q", data)
	}
	ctx, cancel := context.WithCancel(timeout(t))
	cancel()
	if _, err := s.Resize(ctx, 9, 9); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
