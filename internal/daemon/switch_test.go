package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
)

// switchHTTP calls system.http and fails the test on an error.
func (r running) switchHTTP(p api.SystemHTTPParams) api.SystemHTTPResult {
	r.t.Helper()
	got, err := r.SystemHTTP(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

var on, off = true, false

// TestSwitchHTTP turns HTTP on and off many times while a session lives, and calls it.
func TestSwitchHTTP(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	d.create(api.SessionCreateParams{Name: "work"})
	if got := d.switchHTTP(api.SystemHTTPParams{}); got != (api.SystemHTTPResult{}) {
		t.Errorf("%+v", got)
	}
	var fds int
	for n := range 10 {
		got := d.switchHTTP(api.SystemHTTPParams{On: &on, Address: "127.0.0.1:0"})
		if !got.On || !strings.HasPrefix(got.URL, "http://127.0.0.1:") || got.TokenFile != filepath.Join(p.dir, "state", "token") || got.Configured != "" {
			t.Fatalf("%+v", got)
		}
		if again := d.switchHTTP(api.SystemHTTPParams{On: &on}); again != got {
			t.Errorf("again: %+v", again)
		}
		if info, err := d.SystemInfo(t.Context(), api.SystemInfoParams{}); err != nil || info.HTTP != got.URL {
			t.Errorf("%+v, %v", info.HTTP, err)
		}
		_, err := d.SystemHTTP(t.Context(), api.SystemHTTPParams{On: &on, Address: "127.0.0.1:1"})
		if !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), "is already on at "+got.URL+"; turn it off first") {
			t.Errorf("another address: %v", err)
		}
		token, err := client.Token(got.URL, got.TokenFile)
		if err != nil {
			t.Fatal(err)
		}
		web, err := client.DialURL(t.Context(), got.URL, token)
		if err != nil {
			t.Fatal(err)
		}
		web.ReconnectFor = 0
		if r, err := web.ExecRun(t.Context(), api.ExecParams{SessionID: "work", Command: "n=$((n+1)); echo $n"}); err != nil || r.Stdout != fmt.Sprintln(n+1) {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := web.SystemHTTP(t.Context(), api.SystemHTTPParams{On: &off}); err == nil || api.AsError(err).Code != api.CodeForbidden {
			t.Errorf("a caller of HTTP turned it off: %v", err)
		}
		if got := d.switchHTTP(api.SystemHTTPParams{On: &off}); got != (api.SystemHTTPResult{}) {
			t.Errorf("%+v", got)
		}
		if _, err := web.SystemPing(t.Context(), api.SystemPingParams{}); err == nil {
			t.Error("it still answers")
		}
		web.Close()
		stats, err := d.SystemStats(t.Context(), api.SystemStatsParams{})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			fds = stats.OpenFDs
		} else if stats.OpenFDs > fds+2 {
			t.Errorf("%d descriptors, at first %d", stats.OpenFDs, fds)
		}
	}
	for address, code := range map[string]*api.Error{"0.0.0.0:0": api.ErrInvalidParams, "nowhere": api.ErrInvalidParams} {
		if _, err := d.SystemHTTP(t.Context(), api.SystemHTTPParams{On: &on, Address: address}); !errors.Is(err, code) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := d.SystemHTTP(t.Context(), api.SystemHTTPParams{Address: "127.0.0.1:0"}); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("an address that is not used: %v", err)
	}
	d.switchHTTP(api.SystemHTTPParams{On: &on, Address: "127.0.0.1:0"}) // and the daemon ends with it
	d.stop()
}

// TestSwitchHTTPCancels: a caller that waits over HTTP learns that HTTP was turned off, and its
// command ends, as when the caller disconnects. A command of another caller continues.
func TestSwitchHTTPCancels(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	d.create(api.SessionCreateParams{Name: "theirs"})
	mine := d.create(api.SessionCreateParams{Name: "mine"})
	kept, err := d.ExecStart(t.Context(), api.ExecParams{SessionID: mine, Command: "exec sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	got := d.switchHTTP(api.SystemHTTPParams{On: &on, Address: "127.0.0.1:0"})
	token, err := os.ReadFile(got.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan string, 1)
	go func() {
		req, _ := http.NewRequestWithContext(context.Background(), "POST", got.URL+"/v1/exec.run", strings.NewReader(`{"session_id":"theirs","command":"exec sleep 1000"}`))
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		answer <- string(text)
	}()
	testkit.Eventually(t, "the command runs", func() bool {
		r, err := d.SessionInfo(t.Context(), api.SessionInfoParams{SessionID: "theirs"})
		return err == nil && r.State == api.SessionRunning
	})
	d.switchHTTP(api.SystemHTTPParams{On: &off})
	if text := <-answer; !strings.Contains(text, "http: was turned off") {
		t.Errorf("%s", text)
	}
	testkit.Eventually(t, "the command has ended", func() bool {
		r, err := d.SessionInfo(t.Context(), api.SessionInfoParams{SessionID: "theirs"})
		return err == nil && r.State == api.SessionIdle
	})
	if x, err := d.ExecInfo(t.Context(), api.ExecInfoParams{ExecID: kept.ExecID}); err != nil || x.State != api.ExecRunning {
		t.Errorf("%+v, %v", x, err)
	}
	d.stop()
}

// TestHTTPKeepsTheDaemon: a daemon that others can call does not exit on its own, until HTTP is
// turned off.
func TestHTTPKeepsTheDaemon(t *testing.T) {
	p := newPlace(t, "TRL_AUTO_EXIT_S=0.2")
	d := p.start()
	d.switchHTTP(api.SystemHTTPParams{On: &on, Address: "127.0.0.1:0"})
	d.Close()
	time.Sleep(600 * time.Millisecond) // nothing may happen in this time
	c, err := client.Dial(t.Context(), p.socket())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SystemHTTP(t.Context(), api.SystemHTTPParams{On: &off}); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if code := d.wait(); code != 0 || !strings.Contains(d.log.String(), "nothing to do for 200ms") {
		t.Errorf("exit status %d", code)
	}
}
