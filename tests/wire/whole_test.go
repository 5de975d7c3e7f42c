package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/tests/trltest"
)

// wholeSize is many times what the daemon keeps of a command's output, by its flags wholeFlags.
const wholeSize = 12_000_000

var wholeFlags = slices.Clip([]string{"--output-bytes", "1MiB"})

// wholeCommand writes that much as fast as it can, no two lines of it the same.
var wholeCommand = fmt.Sprintf("seq 1 100000000 2>/dev/null | head -c %d", wholeSize)

// TestWholeStream: the stream that starts a command delivers everything the command
// writes, over every transport, however fast the command writes.
func TestWholeStream(t *testing.T) {
	for _, transport := range []string{"socket", "stdio", "websocket", "grpc", "http"} {
		t.Run(transport, func(t *testing.T) {
			s := newScript(t, transport, wholeFlags...)
			s.send(`{"id":1,"method":"session.create","params":{}}` + "\n")
			s.expect(`{"id":1,"ok":true,"data":{"session_id":"$s","...":"*"}}`)
			s.send(s.expand(fmt.Sprintf(`{"id":2,"method":"exec.stream","params":{"session_id":"${s}","command":%q}}`, wholeCommand)) + "\n")
			s.expect(`{"id":2,"ok":true,"data":{"stream_id":"*","exec_id":"$x","...":"*"}}`)
			whole(t, func() ([]byte, error) { return s.lines.ReadBytes('\n') })
		})
	}
	t.Run("sse", func(t *testing.T) {
		body := wholeHTTP(t, "text/event-stream").Body
		lines := bufio.NewReader(body)
		start := true
		whole(t, func() ([]byte, error) {
			for {
				line, err := lines.ReadBytes('\n')
				data, ok := bytes.CutPrefix(line, []byte("data: "))
				if !ok && err == nil {
					continue
				}
				if start && err == nil {
					start = false
					continue
				}
				return data, err
			}
		})
	})
	t.Run("raw", func(t *testing.T) {
		resp := wholeHTTP(t, "application/octet-stream")
		check := &checker{t: t}
		if _, err := io.Copy(check, resp.Body); err != nil {
			t.Fatal(err)
		}
		check.end()
		if resp.Trailer.Get("X-Trl-Complete") != "true" || resp.Trailer.Get("X-Trl-Exit-Code") != "0" {
			t.Errorf("trailers %v", resp.Trailer)
		}
	})
	for _, transport := range []string{"socket", "stdio", "http", "grpc"} {
		t.Run("client over "+transport, func(t *testing.T) { wholeClient(t, transport) })
	}
}

// whole reads pushes to the exit and checks that together they are everything.
func whole(t *testing.T, next func() ([]byte, error)) {
	t.Helper()
	check := &checker{t: t}
	for {
		line, err := next()
		if err != nil {
			t.Fatalf("after %d bytes: %s", check.size, err)
		}
		var ev api.StreamEvent
		if err := json.Unmarshal(line, &ev); err != nil {
			t.Fatalf("%.200q: %s", line, err)
		}
		switch ev.Type {
		case api.EventStdout:
			data := []byte(ev.Data)
			if ev.DataBase64 != "" {
				if data, err = base64.StdEncoding.DecodeString(ev.DataBase64); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = check.Write(data)
		case api.EventExit:
			check.end()
			return
		default:
			t.Fatalf("after %d bytes: %.300s", check.size, line)
		}
	}
}

// checker compares what is written to it with what the command writes.
type checker struct {
	t    *testing.T
	size int64
	line int64
	want []byte // not yet compared
}

func (c *checker) Write(p []byte) (int, error) {
	for len(c.want) < len(p) {
		c.line++
		c.want = fmt.Appendln(c.want, c.line)
	}
	if !bytes.Equal(p, c.want[:len(p)]) {
		c.t.Fatalf("after %d bytes: got %.100q, want %.100q", c.size, p, c.want)
	}
	c.want = c.want[len(p):]
	c.size += int64(len(p))
	return len(p), nil
}

func (c *checker) end() {
	if c.size != wholeSize {
		c.t.Fatalf("%d of %d bytes", c.size, wholeSize)
	}
}

// wholeHTTP starts the command over HTTP and returns the answer.
func wholeHTTP(t *testing.T, accept string) *http.Response {
	t.Helper()
	d := trltest.Start(t, trltest.Args(append(wholeFlags, "--http", "127.0.0.1:0")...))
	session, err := d.Client(t).SessionCreate(context.Background(), api.SessionCreateParams{})
	if err != nil {
		t.Fatal(err)
	}
	url, token := d.HTTP(t)
	params := fmt.Sprintf(`{"session_id":%q,"command":%q}`, session.SessionID, wholeCommand)
	req, err := http.NewRequest("POST", url+"/v1/exec.stream", strings.NewReader(params))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {accept}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != accept {
		t.Fatalf("%s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	return resp
}

// pipes are the ends of a daemon on stdio, as one.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// wholeClient is the Go client.
func wholeClient(t *testing.T, transport string) {
	var c *client.Client
	var err error
	ctx := context.Background()
	switch transport {
	case "socket":
		c = trltest.Start(t, trltest.Args(wholeFlags...)).Client(t)
	case "stdio":
		d := trltest.Start(t, trltest.Stdio(), trltest.Args(wholeFlags...))
		c = client.New(pipes{d.Stdout, d.Stdin})
	case "http":
		d := trltest.Start(t, trltest.Args(append(wholeFlags, "--http", "127.0.0.1:0")...))
		url, token := d.HTTP(t)
		c, err = client.DialHTTP(url, token)
	case "grpc":
		d := trltest.Start(t, trltest.Args(append(wholeFlags, "--grpc", "127.0.0.1:0")...))
		c, err = client.DialGRPC(ctx, d.GRPC(t), client.GRPCOptions{Token: d.Token(t)})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	session, err := c.SessionCreate(ctx, api.SessionCreateParams{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: session.SessionID, Command: wholeCommand}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := &checker{t: t}
	for {
		ev, err := s.Recv()
		if err != nil {
			t.Fatalf("after %d bytes: %s", check.size, err)
		}
		switch ev.Type {
		case api.EventStdout:
			_, _ = check.Write(api.Data(ev.Data, ev.DataBase64))
		case api.EventExit:
			check.end()
			return
		default:
			t.Fatalf("after %d bytes: %+v", check.size, ev)
		}
	}
}

// TestWholeWithoutReader: a reader that disconnects, or stays and reads nothing, blocks the command
// for a bounded time.
func TestWholeWithoutReader(t *testing.T) {
	for _, transport := range []string{"socket", "websocket", "http", "grpc"} {
		for _, how := range []string{"gone", "dead"} {
			t.Run(transport+"/"+how, func(t *testing.T) {
				stall := "600"
				if how == "dead" {
					stall = "1"
				}
				s := newScript(t, transport, append(wholeFlags, "--reader-stall-s", stall)...)
				c, ctx := s.daemon.Client(t), context.Background()
				session, err := c.SessionCreate(ctx, api.SessionCreateParams{})
				if err != nil {
					t.Fatal(err)
				}
				s.send(fmt.Sprintf(`{"id":1,"method":"exec.stream","params":{"session_id":%q,"command":%q}}`+"\n", session.SessionID, wholeCommand))
				s.expect(`{"id":1,"ok":true,"data":{"stream_id":"*","exec_id":"$x","...":"*"}}`)
				if how == "gone" {
					s.leave()
				}
				exec := s.vars["x"]
				if _, err := c.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{exec}}); err != nil {
					t.Fatal(err)
				}
				info, err := c.ExecInfo(ctx, api.ExecInfoParams{ExecID: exec})
				if err != nil || info.Outcome == nil || info.Outcome.ExitCode != 0 || info.StdoutBytes != wholeSize {
					t.Errorf("%+v, %v", info, err)
				}
			})
		}
	}
}

// TestRawPushes: a stream that asks for it gets its output as bytes behind its pushes; on
// a WebSocket, whose messages are text, it gets the usual pushes.
func TestRawPushes(t *testing.T) {
	const command = `printf '\000\377\nx'; printf e >&2; exit 3`
	for _, transport := range []string{"socket", "stdio", "websocket"} {
		t.Run(transport, func(t *testing.T) {
			s := newScript(t, transport)
			s.send(`{"id":1,"method":"session.create","params":{}}` + "\n")
			s.expect(`{"id":1,"ok":true,"data":{"session_id":"$s","...":"*"}}`)
			s.send(s.expand(fmt.Sprintf(`{"id":2,"method":"exec.stream","raw":true,"params":{"session_id":"${s}","command":%q}}`, command)) + "\n")
			s.expect(`{"id":2,"ok":true,"data":{"stream_id":"*","...":"*"}}`)
			got, raw := map[string]string{}, 0
			for {
				line, err := s.lines.ReadBytes('\n')
				if err != nil {
					t.Fatal(err)
				}
				var push struct {
					api.StreamEvent
					Raw int `json:"raw"`
				}
				if err := json.Unmarshal(line, &push); err != nil {
					t.Fatalf("%q: %s", line, err)
				}
				data := api.Data(push.Data, push.DataBase64)
				if push.Raw > 0 {
					raw, data = raw+push.Raw, make([]byte, push.Raw)
					if _, err := io.ReadFull(s.lines, data); err != nil {
						t.Fatal(err)
					}
				}
				got[push.Type] += string(data)
				if push.Type == api.EventExit {
					if push.ExitCode != 3 {
						t.Errorf("%s", line)
					}
					break
				}
			}
			if got["stdout"] != "\x00\xff\nx" || got["stderr"] != "e" || (raw == 5) != (transport != "websocket") {
				t.Errorf("%q, %d of it raw", got, raw)
			}
			s.send(`{"id":3,"method":"system.ping"}` + "\n")
			s.expect(`{"id":3,"ok":true,"data":{"...":"*"}}`)
		})
	}
}
