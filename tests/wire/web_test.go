package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/trl-dev/trl/tests/trltest"
)

// webTransport makes an HTTP server look like a connection: lines of the client go in
// at out, those of the server come out of lines.
func (s *script) webTransport(transport string, args []string) {
	d := trltest.Start(s.t, trltest.Args("--http", "127.0.0.1:0"), trltest.Args(args...))
	url, token := d.HTTP(s.t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	s.daemon, s.leave = d, cancel
	if transport == "websocket" {
		w := newSocket(ctx, s.t, url, token)
		s.out, s.lines, s.end = w, bufio.NewReader(w.in), w.close
		s.leave = func() { _ = w.conn.CloseNow() }
		s.t.Cleanup(func() { _ = w.close() })
		return
	}
	p := &posts{ctx: ctx, t: s.t, url: url, token: token, client: &http.Client{Transport: &http.Transport{}}}
	var r *io.PipeReader
	r, p.to = io.Pipe()
	s.out, s.lines, s.end = p, bufio.NewReader(r), func() error { return nil }
	s.t.Cleanup(func() {
		cancel()
		r.Close()
		p.running.Wait()
		p.client.CloseIdleConnections()
	})
}

// posts sends each line as a request of its own.
type posts struct {
	ctx     context.Context
	t       *testing.T
	url     string
	token   string
	client  *http.Client
	running sync.WaitGroup

	mu sync.Mutex // held while a line is written
	to *io.PipeWriter
}

// Write takes one line.
func (p *posts) Write(line []byte) (int, error) {
	var req struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(line, &req); err != nil {
		return 0, err
	}
	if req.Params == nil {
		req.Params = json.RawMessage("{}")
	}
	p.running.Go(func() {
		if err := p.post(req.ID, req.Method, req.Params); err != nil && p.ctx.Err() == nil {
			p.t.Errorf("%s: %s", req.Method, err)
		}
	})
	return len(line), nil
}

func (p *posts) post(id json.RawMessage, method string, params []byte) error {
	req, err := http.NewRequestWithContext(p.ctx, "POST", p.url+"/v1/"+method, bytes.NewReader(params))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if resp.Header.Get("Content-Type") != "application/x-ndjson" {
		body, err := io.ReadAll(lines)
		if err != nil {
			return err
		}
		body = bytes.TrimSpace(body)
		if resp.StatusCode == http.StatusOK {
			return p.line(`{"id":%s,"ok":true,"data":%s}`, id, body)
		}
		var failed struct {
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(body, &failed); err != nil {
			return fmt.Errorf("status %d: %s", resp.StatusCode, body)
		}
		return p.line(`{"id":%s,"ok":false,"error":%s}`, id, failed.Error)
	}
	for first := true; ; {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF && len(text) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		text = bytes.TrimSpace(text)
		switch {
		case len(text) == 0: // keep-alive
		case first:
			first = false
			err = p.line(`{"id":%s,"ok":true,"data":%s}`, id, text)
		default:
			err = p.line("%s", text)
		}
		if err != nil {
			return err
		}
	}
}

func (p *posts) line(format string, args ...any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.to.Write(append(bytes.TrimSpace(fmt.Appendf(nil, format, args...)), '\n'))
	return err
}

// socket sends each line as a message.
type socket struct {
	ctx  context.Context
	conn *websocket.Conn
	in   io.Reader
	done chan struct{}
}

func newSocket(ctx context.Context, t *testing.T, url, token string) *socket {
	t.Helper()
	conn, _, err := websocket.Dial(ctx, url+"/v1/ws", &websocket.DialOptions{Subprotocols: []string{"trl.v1", "trl.token." + token}})
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(64 << 20)
	r, w := io.Pipe()
	s := &socket{ctx: ctx, conn: conn, in: r, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for {
			_, message, err := conn.Read(ctx)
			if err != nil {
				w.CloseWithError(io.EOF)
				return
			}
			if _, err := w.Write(append(message, '\n')); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { r.Close(); <-s.done })
	return s
}

// Write takes one line.
func (s *socket) Write(line []byte) (int, error) {
	return len(line), s.conn.Write(s.ctx, websocket.MessageText, bytes.TrimSuffix(line, []byte("\n")))
}

func (s *socket) close() error { return s.conn.Close(websocket.StatusNormalClosure, "") }
