package wire_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

func TestAnswers(t *testing.T) {
	e := wire.NewEncoder()
	defer e.Release()
	if err := e.Answer(json.RawMessage(`"a"`), map[string]string{"out": "<a> & \u2028 é\n\x00"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Answer(nil, struct{}{}); err != nil {
		t.Fatal(err)
	}
	e.Error(json.RawMessage(`7`), api.Errorf(api.CodeSessionNotFound, "session %q: not found", "s-1"))
	if err := e.Answer(json.RawMessage(`8`), math.NaN()); err == nil {
		t.Error("NaN was encoded")
	}
	e.Error(nil, &api.Error{Code: api.CodeInternal, Message: "x", Details: map[string]any{"f": func() {}}})
	want := `{"id":"a","ok":true,"data":{"out":"<a> & \u2028 é\n\u0000"}}
{"id":null,"ok":true,"data":{}}
{"id":7,"ok":false,"error":{"code":"SESSION_NOT_FOUND","message":"session \"s-1\": not found"}}
{"id":null,"ok":false,"error":{"code":"INTERNAL_ERROR","message":"x"}}
`
	if got := string(e.Bytes()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// events are pushes of every kind, and output with every kind of special character.
func events() []api.StreamEvent {
	zero, nine := int64(0), int64(9)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	text, b64 := api.Text(all)
	return []api.StreamEvent{
		{StreamID: "x-1", Seq: 1, Type: api.EventStdout, Offset: &zero, Data: "added 412 packages\n"},
		{StreamID: "x-1", Seq: 2, Type: api.EventStderr, Offset: &nine, Data: "\x00\x1f\x7f\"\\/\b\f\r\t <&> \u2028 é 😀"},
		{StreamID: "x-1", Seq: 3, Type: api.EventStdout, Offset: &nine, Data: text, DataBase64: b64},
		{StreamID: "x-1", Seq: 4, Type: api.EventGap, Stream: api.EventStdout, From: &zero, To: &nine},
		{StreamID: "v-1", Seq: 1, Type: api.EventSnapshot, Offset: &nine, Data: "\x1b[2J$ ", ViewerEvent: &api.ViewerEvent{Cols: 80, Rows: 24, OwnerID: "v-1", Version: 7}},
		{StreamID: "v-1", Seq: 2, Type: api.EventOutput, Offset: &nine, Data: text, DataBase64: b64},
		{StreamID: "v-1", Seq: 3, Type: api.EventResize, Offset: &nine, ViewerEvent: &api.ViewerEvent{Cols: 2, Rows: 1}},
		{StreamID: "x-1", Seq: 5, Type: api.EventError, Error: api.Errorf(api.CodeInternal, "broke")},
		{StreamID: "x-1", Seq: math.MaxInt64, Type: api.EventExit, ExecOutcome: &api.ExecOutcome{
			ExitCode: 3, WorkingDir: "/", LeftRunning: []api.Process{}, Killed: []api.KilledProcess{}}},
	}
}

// TestEventsBothWays: the lines that are written by hand mean the same as those of encoding/json,
// and are parsed to the same events.
func TestEventsBothWays(t *testing.T) {
	for _, ev := range events() {
		e := wire.NewEncoder()
		if err := e.Event(&ev); err != nil {
			t.Fatal(err)
		}
		line := string(e.Bytes())
		e.Release()
		if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
			t.Errorf("seq %d: not one line: %q", ev.Seq, line)
		}
		var plain api.StreamEvent
		if err := json.Unmarshal([]byte(line), &plain); err != nil {
			t.Fatalf("seq %d: %s in %q", ev.Seq, err, line)
		}
		if !reflect.DeepEqual(plain, ev) {
			t.Errorf("seq %d: encoding/json reads %+v, want %+v", ev.Seq, plain, ev)
		}
		m, err := wire.ParseMessage([]byte(strings.TrimSuffix(line, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		if m.Event == nil || !reflect.DeepEqual(*m.Event, ev) {
			t.Errorf("seq %d: read back %+v, want %+v", ev.Seq, m.Event, ev)
		}
	}
}

func TestParseMessage(t *testing.T) {
	m, err := wire.ParseMessage([]byte(`{"new":[1],"id":"4","ok":true,"data":{"a":"}"}}`))
	if err != nil || string(m.ID) != `"4"` || string(m.Data) != `{"a":"}"}` || m.Error != nil {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = wire.ParseMessage([]byte(`{"id":null,"ok":false,"error":{"code":"FORBIDDEN","message":"no","later":1}}`))
	if err != nil || m.Error == nil || m.Error.Code != api.CodeForbidden || m.Error.Message != "no" {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = wire.ParseMessage([]byte(`{"id":"4","ok":false}`))
	if err != nil || m.Error == nil || m.Error.Code != api.CodeInternal {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = wire.ParseMessage([]byte(`{"stream_id":"x","seq":1,"type":"news","what":{"a":1}}`))
	if err != nil || m.Event == nil || m.Event.Type != "news" {
		t.Errorf("%+v, %v", m, err)
	}
	for _, bad := range []string{``, `x`, `[]`, `{"id":`, `{"stream_id":"x","seq":"one"}`} {
		if _, err := wire.ParseMessage([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	offset := int64(1 << 40)
	ev := api.StreamEvent{StreamID: "x-3f9a1c02de-7", Seq: 1, Type: api.EventStdout, Offset: &offset,
		Data: strings.Repeat("npm warn deprecated something@1.2.3: this is a line of text\n", 1000)}
	e := wire.NewEncoder()
	_ = e.Event(&ev)
	line := []byte(strings.TrimSpace(string(e.Bytes())))
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(ev.Data)))
		for b.Loop() {
			e := wire.NewEncoder()
			_ = e.Event(&ev)
			e.Release()
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(ev.Data)))
		for b.Loop() {
			if _, err := wire.ParseMessage(line); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestTracedRequest: the parser finds the traceparent that a client sends, and a reused Encoder has
// forgotten it.
func TestTracedRequest(t *testing.T) {
	for _, want := range []string{"00-a\"b", ""} {
		e := wire.NewEncoder()
		e.Trace(want)
		if err := e.RequestWith(1, "exec.input", api.ExecInputParams{ExecID: "x"}, 7); err != nil {
			t.Fatal(err)
		}
		line := bytes.TrimSuffix(e.Bytes(), []byte("\n"))
		if req, bad := wire.ParseRequest(line); bad != nil || req.Traceparent != want || wire.RawLength(line) != 7 {
			t.Errorf("%s: %+v, %v", line, req, bad)
		}
		e.Release()
		if e = wire.NewEncoder(); e.Request(1, "system.ping", struct{}{}) != nil || bytes.Contains(e.Bytes(), []byte("traceparent")) {
			t.Errorf("%s", e.Bytes())
		}
		e.Release()
	}
}
