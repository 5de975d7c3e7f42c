package client_test

import (
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestLabelStays: a connection that replaces a lost one begins with the label of the Client.
func TestLabelStays(t *testing.T) {
	c, d, ln := dial(t)
	done := make(chan error, 1)
	go func() {
		r, err := c.SystemHello(timeout(t), api.SystemHelloParams{Label: "cli@box"})
		if r.Caller.Label != "cli@box" {
			t.Errorf("caller %+v", r.Caller)
		}
		done <- err
	}()
	d.say(`{"id":%q,"ok":true,"data":{"caller":{"transport":"socket","label":"cli@box"}}}`, d.request().ID)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	d.Close()

	go func() {
		_, err := c.SystemPing(timeout(t), api.SystemPingParams{})
		done <- err
	}()
	d = accept(t, ln)
	if r := d.request(); r.Method != "system.hello" || string(r.Params) != `{"label":"cli@box"}` {
		t.Errorf("the connection begins with %s %s", r.Method, r.Params)
	}
	r := d.request()
	if r.Method != "system.ping" {
		t.Errorf("then %s", r.Method)
	}
	d.say(`{"id":"0","ok":false,"error":{"code":"UNKNOWN_METHOD","message":"an older daemon"}}`)
	d.say(`{"id":%q,"ok":true,"data":{"uptime_s":1,"version":"test"}}`, r.ID)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
