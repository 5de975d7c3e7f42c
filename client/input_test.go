package client_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestInputBesideItsRequest: bytes go behind a request to a daemon that has said that it takes
// them, on that connection, and in JSON to any other.
func TestInputBesideItsRequest(t *testing.T) {
	c, d, ln := dial(t)
	input := func(data string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := c.ExecInput(timeout(t), api.ExecInputParams{ExecID: "x", Bytes: []byte(data), WriteID: data})
			done <- err
		}()
		return done
	}
	// line is a request as it stands.
	line := func() (id, text string) {
		t.Helper()
		text, err := d.lines.ReadString('\n')
		var r request
		if err == nil {
			err = json.Unmarshal([]byte(text), &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.ID, text
	}
	expect := func(done <-chan error, want, answer string) {
		t.Helper()
		id, text := line()
		if want = `{"id":"` + id + `","method":"exec.input","params":{"exec_id":"x",` + want + "}\n"; text != want {
			t.Errorf("got %swant %s", text, want)
		}
		if answer == "" {
			return
		}
		d.say(answer, id)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	const old, takes = `{"id":%q,"ok":true,"data":{}}`, `{"id":%q,"ok":true,"data":{},"raw":true}`
	expect(input("a"), `"data":"a","write_id":"a"},"raw":true`, old)
	expect(input("\xff"), `"data_base64":"/w==","write_id":"\ufffd"},"raw":true`, takes)
	done := input("b\n")
	expect(done, `"write_id":"b\n"},"raw":2`, "")
	body := make([]byte, 2)
	if _, err := io.ReadFull(d.lines, body); err != nil || string(body) != "b\n" {
		t.Fatalf("%q, %v", body, err)
	}
	// The next daemon may be an older one. The id makes the repetition harmless.
	d.Close()
	d = accept(t, ln)
	expect(done, `"data":"b\n","write_id":"b\n"},"raw":true`, old)
	expect(input("c"), `"data":"c","write_id":"c"},"raw":true`, old)
}

// TestInputOfBytes: every byte arrives, in order, each way.
func TestInputOfBytes(t *testing.T) {
	testkit.Long(t)
	_, clients := ways(t)
	places(t)
	pipes, err := client.Spawn(long(t), trltest.Binary(t), "serve", "--stdio", "--log-level", "error")
	if err != nil {
		t.Fatal(err)
	}
	defer pipes.Close()
	clients["stdio"] = pipes
	random := rand.NewChaCha8([32]byte{1})
	want := make([]byte, 5_000_000)
	_, _ = random.Read(want)
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			ctx := long(t)
			out := filepath.Join(t.TempDir(), "out")
			x, err := c.ExecStart(ctx, api.ExecParams{SessionID: session(t, c), Command: "cat > " + out, StdinOpen: true})
			if err != nil {
				t.Fatal(err)
			}
			sent := 0
			for n := 1; sent < len(want); n = n*3 + 1 { // from one byte to more than a socket takes
				piece := want[sent:min(len(want), sent+n)]
				sent += len(piece)
				r, err := c.ExecInput(ctx, api.ExecInputParams{ExecID: x.ExecID, Bytes: piece, WriteID: strconv.Itoa(n), Close: sent == len(want)})
				if err != nil || r.StdinBytes != int64(sent) {
					t.Fatalf("%d bytes: %+v, %v", sent, r, err)
				}
			}
			if r, err := c.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{x.ExecID}}); err != nil || r.Happened[0].Outcome.ExitCode != 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
			}
			// Two forms of data in one request, and none.
			for _, p := range []api.ExecInputParams{{ExecID: x.ExecID, Bytes: []byte("a"), Data: "b"}, {ExecID: x.ExecID}} {
				if r, err := c.ExecInput(ctx, p); api.AsError(err).Code != api.CodeInvalidParams {
					t.Errorf("%+v, %v", r, err)
				}
			}
		})
	}
}
