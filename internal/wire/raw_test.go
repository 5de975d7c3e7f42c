package wire_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

func TestJoinRequest(t *testing.T) {
	for _, c := range []struct {
		message string
		raw     wire.Raw
		want    string
	}{
		{`{"id":1,"method":"m"}`, nil, `{"id":1,"method":"m"}`},
		{"{\n\"id\": 1,\r\n\"method\":\"m\"}\n", nil, `{ "id": 1,  "method":"m"} `},
		{`{"params":{"a":1,"data_base64":"old","data":"old"},"method":"m","id":"x","more":1}`, wire.Raw{"data": []byte("\x00\xff")},
			`{"id":"x","method":"m","params":{"a":1,"data_base64":"AP8="}}`},
		{`{"id":1,"method":"m"}`, wire.Raw{"b": []byte("b"), "a": nil}, `{"id":1,"method":"m","params":{"a_base64":"","b_base64":"Yg=="}}`},
		{`{"method":"m","params":null}`, wire.Raw{"\"": []byte("b")}, `{"method":"m","params":{"\"_base64":"Yg=="}}`},
		{`{"id":1,"params":[1]}`, wire.Raw{"data": []byte("x")}, `{"id":1,"params":[1]}`},
		{`[1]`, wire.Raw{"data": []byte("x")}, `[1]`},
		{`{"id":1`, wire.Raw{"data": []byte("x")}, `{"id":1`},
		{``, wire.Raw{"data": []byte("x")}, ``},
	} {
		if got := string(wire.JoinRequest([]byte(c.message), c.raw)); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.message, got, c.want)
		}
	}
}

func TestSplitRequest(t *testing.T) {
	for _, c := range []struct {
		line, message string
		raw           wire.Raw
	}{
		{`{"id":"1","method":"m","params":{"a":"b_base64","c":[1]}}`, `{"id":"1","method":"m","params":{"a":"b_base64","c":[1]}}`, nil},
		{`{"id":"1","method":"m","params":{"a":1,"data_base64":"AP8=","stdin_base64":"YQ=="}}`, `{"id":"1","method":"m","params":{"a":1}}`,
			wire.Raw{"data": []byte("\x00\xff"), "stdin": []byte("a")}},
		{`{"id":"1","params":{"data_base64":"!","env":{"x_base64":"YQ=="}}}`, `{"id":"1","params":{"data_base64":"!","env":{"x_base64":"YQ=="}}}`, nil},
		{`{"id":"1","params":{"data_base64":"","_base64":"YQ=="}}`, `{"id":"1","params":{"data_base64":"","_base64":"YQ=="}}`, nil},
	} {
		message, raw := wire.SplitRequest([]byte(c.line))
		if string(message) != c.message || !reflect.DeepEqual(raw, c.raw) {
			t.Errorf("%s\ngot  %s %q\nwant %s %q", c.line, message, raw, c.message, c.raw)
		}
	}
}

// TestRawResults: taking the data out of a result and joining it again gives the JSON of the
// result.
func TestRawResults(t *testing.T) {
	results := []any{
		api.ExecResult{ExecID: "x-1", Stdout: "a\n\"é", Stderr: "b", ExecOutcome: api.ExecOutcome{ExitCode: 3, WorkingDir: "/"}},
		api.ExecResult{},
		api.ExecOutputResult{Data: "\ufffd", DataBase64: "/w==", Offset: 9},
		api.ExecOutputResult{Lines: []api.OutputLine{{Text: "x", TextBase64: "/w=="}}},
		api.SystemPingResult{Version: "1"},
		map[string]string{"data": "x"},
	}
	for _, result := range results {
		want := wire.NewEncoder()
		defer want.Release()
		if err := want.Answer(json.RawMessage("1"), result); err != nil {
			t.Fatal(err)
		}
		before := result
		rest, raw := wire.TakeResult(result)
		if !reflect.DeepEqual(before, result) {
			t.Errorf("%+v was changed", before)
		}
		got := wire.NewEncoder()
		defer got.Release()
		if err := got.Answer(json.RawMessage("1"), rest); err != nil {
			t.Fatal(err)
		}
		for name, data := range raw {
			if len(data) == 0 || bytes.Contains(got.Bytes(), []byte(`"`+name+base64Suffix+`"`)) {
				t.Errorf("%s is in %s", name, got.Bytes())
			}
		}
		line := wire.JoinAnswer(bytes.TrimSpace(bytes.Clone(got.Bytes())), raw)
		if !sameJSON(line, want.Bytes()) {
			t.Errorf("got  %s\nwant %s", line, want.Bytes())
		}
	}
	if _, raw := wire.TakeResult(results[0]); len(raw) != 2 || string(raw["stdout"]) != "a\n\"é" || string(raw["stderr"]) != "b" {
		t.Errorf("%q", raw)
	}
	if _, raw := wire.TakeResult(results[2]); string(raw["data"]) != "\xff" {
		t.Errorf("%q", raw)
	}
}

const base64Suffix = "_base64"

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func TestRawEvents(t *testing.T) {
	for _, want := range events() {
		ev := want
		data := wire.TakeEvent(&ev)
		if ev.Data != "" || ev.DataBase64 != "" {
			t.Errorf("%+v, %q", ev, data)
		}
		if len(data) > 0 {
			ev.Data, ev.DataBase64 = api.Text(data)
		}
		if !reflect.DeepEqual(ev, want) {
			t.Errorf("got %+v, want %+v", ev, want)
		}
	}
}

// FuzzRaw: with any message and raw bytes from a peer, the joined line has no line end, is JSON if
// the message was, and contains the same bytes.
func FuzzRaw(f *testing.F) {
	f.Add([]byte(`{"id":1,"method":"exec.input","params":{"exec_id":"x"}}`), "data", []byte("\x00\xff\n"))
	f.Add([]byte("{\n\"params\":null}"), "a\"\n\\", []byte("x"))
	f.Add([]byte(`{"id":1,"ok":true,"data":{"stdout":"","data":{}}}`), "stdout", []byte("out"))
	f.Add([]byte(`{"params":{"x":1,"x_base64":"eA==","x":2}}`), "x", []byte{})
	f.Fuzz(func(t *testing.T, message []byte, name string, data []byte) {
		valid, object := json.Valid(message), strings.HasPrefix(strings.TrimSpace(string(message)), "{")
		name = strings.ToValidUTF8(name, "")
		line := wire.JoinRequest(bytes.Clone(message), wire.Raw{name: data})
		answer := wire.JoinAnswer(bytes.Clone(message), wire.Raw{name: data})
		for _, l := range [][]byte{line, answer} {
			if bytes.ContainsAny(l, "\r\n") || valid && !json.Valid(l) {
				t.Errorf("%q of %q", l, message)
			}
		}
		var request struct{ Params map[string]json.RawMessage }
		if !valid || !object || json.Unmarshal(line, &request) != nil || request.Params == nil {
			return
		}
		key := name + base64Suffix
		var b64 string
		if json.Unmarshal(request.Params[key], &b64) != nil {
			return // the message has several params, and another one was taken
		}
		if got, err := base64.StdEncoding.DecodeString(b64); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %q of %q", line, got, data)
		}
		if len(data) == 0 || name == "" {
			return
		}
		if _, raw := wire.SplitRequest(line); !bytes.Equal(raw[name], data) {
			t.Errorf("%s: split into %q", line, raw)
		}
	})
}
