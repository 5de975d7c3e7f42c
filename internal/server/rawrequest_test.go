package server_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
)

// ExecInput counts its bytes and returns its text as the id.
func (s *service) ExecInput(_ context.Context, p api.ExecInputParams) (api.ExecInputResult, error) {
	if err := p.Check(); err != nil {
		return api.ExecInputResult{}, err
	}
	data := p.Content()
	id := strconv.Quote(string(data))
	if len(data) > 10 {
		id = strconv.Itoa(len(data))
	}
	return api.ExecInputResult{ExecID: id, StdinBytes: int64(len(p.Bytes))}, nil
}

func input(id int, members string) string {
	return `{"id":` + strconv.Itoa(id) + `,"method":"exec.input","params":{"exec_id":"x"` + members
}

func given(id int, data string, beside int, raw string) string {
	return `{"id":` + strconv.Itoa(id) + `,"ok":true,"data":{"exec_id":` + strconv.Quote(data) + `,"stdin_bytes":` + strconv.Itoa(beside) + `,"repeated":false,"closed":false}` + raw + `}`
}

// TestBytesBehindRequests: a client that asks may send bytes after its requests once it has the
// answer; the requests of other clients are read as before.
func TestBytesBehindRequests(t *testing.T) {
	d := start(t, server.Config{MaxRequestBytes: 200_000, BufferBytes: 300_000})
	p := d.dial(t)
	// To a connection that has not asked for raw bytes, the member means nothing.
	p.send(input(1, `,"data":"a"},"raw":3}`))
	p.expect(given(1, `"a"`, 0, ""))
	p.send(input(2, `,"data":"a"},"raw":true}`))
	p.expect(given(2, `"a"`, 0, `,"raw":true`))
	p.send(input(3, `},"raw":3}`), "{}", input(4, `,"data":"b"}}`))
	answers := map[string]bool{p.line(): true, p.line(): true}
	if !answers[given(3, strconv.Quote("{}\n"), 3, "")] || !answers[given(4, `"b"`, 0, "")] {
		t.Errorf("%v", answers)
	}
	p.send(input(5, `},"raw":150000}`), strings.Repeat("\n", 149_999))
	p.expect(given(5, "150000", 150_000, ""))

	// What is refused is not taken for lines.
	p.send(input(6, `},"raw":200001}`), strings.Repeat("x\n", 100_000))
	p.refused("6", api.CodeRequestTooLarge)
	p.send(input(7, `,"data":"a"},"raw":2}`), "x")
	p.refused("7", api.CodeInvalidParams)
	p.send(`{"id":8,"method":"system.ping","raw":2}`, "x")
	if a := p.refused("8", api.CodeInvalidParams); a.Error.Message != `method "system.ping": takes no bytes beside its parameters` {
		t.Error(a.Error.Message)
	}
	p.send(`{"id":9,"method":"no.method","raw":2}`, "x")
	p.refused("9", api.CodeMethodNotFound)
	p.ping()
	d.dial(t).ping()
}

// TestBytesBehindNoMessage: on a WebSocket nothing can be behind a message.
func TestBytesBehindNoMessage(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	s := w.mustWebSocket(bearer(fullToken))
	for _, raw := range []string{"true", "3"} {
		s.send(input(1, `,"data":"a"},"raw":`+raw+`}`))
		if got := s.receive(); got != given(1, `"a"`, 0, "") {
			t.Error(got)
		}
	}
}
