package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
)

// bytesStream is a stream whose bytes are valid until the next call, and no longer.
type bytesStream struct {
	stream
	buf  []byte
	n    int64
	more int // pieces after the end of its context: what was fetched ahead
}

func (s *bytesStream) RecvBytes() (api.StreamEvent, []byte, error) {
	s.service.received.Add(1)
	if s.ctx.Err() != nil {
		if s.more++; s.more > 2 {
			return api.StreamEvent{}, nil, s.ctx.Err()
		}
	}
	s.n++
	if s.buf == nil {
		s.buf = make([]byte, 700_001)
	}
	for i := range s.buf {
		s.buf[i] = byte(s.n)
	}
	offset := (s.n - 1) * int64(len(s.buf))
	return api.StreamEvent{StreamID: s.id, Seq: s.n, Type: api.EventStdout, Offset: &offset}, s.buf, nil
}

// TestBytesAreSentBeforeTheyAreUsedAgain: also when the daemon ends while the client is behind.
func TestBytesAreSentBeforeTheyAreUsedAgain(t *testing.T) {
	d := start(t, server.Config{})
	p := d.dial(t)
	p.send(`{"id":1,"method":"exec.stream","params":{"session_id":"a","command":"bytes"},"raw":true}`)
	p.answer()
	waitReadable(t, p)
	settles(t, d.service.received.Load)
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() { ended <- d.Shutdown(ctx) }()
	var last api.StreamEvent
	for n := int64(1); last.Type != api.EventError; n++ {
		line, err := p.lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("after %d pushes: %s", n-1, err)
		}
		var push struct {
			api.StreamEvent
			Raw int `json:"raw"`
		}
		if err := json.Unmarshal(line, &push); err != nil {
			t.Fatalf("%q: %s", line, err)
		}
		if last = push.StreamEvent; last.Type == api.EventError {
			break
		}
		body := make([]byte, push.Raw)
		if _, err := io.ReadFull(p.lines, body); err != nil {
			t.Fatal(err)
		}
		if push.Seq != n || bytes.Count(body, []byte{byte(n)}) != len(body) {
			t.Fatalf("push %d has bytes of another", n)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
