package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

func TestParseRequest(t *testing.T) {
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	tests := []struct {
		name, line         string
		id, method, params string
		refused            string // part of the message
		trace              string
	}{
		{name: "all", line: `{"id":"1","method":"a.b","params":{"x":1}}`, id: `"1"`, method: "a.b", params: `{"x":1}`},
		{name: "spaces", line: " { \"id\" : 7 ,\t\"method\" : \"a.b\" , \"params\" : null } ", id: `7`, method: "a.b", params: `null`},
		{name: "no id, no params", line: `{"method":"a.b"}`, method: "a.b"},
		{name: "any order", line: `{"params":{},"method":"a.b","id":true}`, id: `true`, method: "a.b", params: `{}`},
		{name: "number as written", line: `{"id":12345678901234567890123.50e+400,"method":"m"}`, id: `12345678901234567890123.50e+400`, method: "m"},
		{name: "string as written", line: `{"id":"\u0041\"\\","method":"m"}`, id: `"\u0041\"\\"`, method: "m"},
		{name: "null id", line: `{"id":null,"method":"m"}`, id: `null`, method: "m"},
		{name: "unknown members", line: `{"jsonrpc":"2.0","id":1,"method":"m","x":[{"id":2,"method":"no"}]}`, id: `1`, method: "m"},
		{name: "a trace", line: `{"id":1,"method":"m","traceparent":"00-\u0061b","params":{}}`, id: `1`, method: "m", params: `{}`, trace: "00-ab"},
		{name: "no trace", line: `{"id":1,"method":"m","traceparent":{"x":1}}`, id: `1`, method: "m"},
		{name: "two traces", line: `{"id":1,"method":"m","traceparent":"a","traceparent":"b"}`, id: `1`, refused: "traceparent: appears twice"},
		{name: "two ids", line: `{"id":1,"method":"a","id":1}`, refused: "id: appears twice"},
		{name: "two methods", line: `{"id":1,"method":"a","method":"b"}`, id: `1`, refused: "method: appears twice"},
		{name: "two params", line: `{"id":1,"method":"a","params":{},"p\u0061rams":{}}`, id: `1`, refused: "params: appears twice"},
		{name: "other letters", line: `{"id":1,"Method":"a"}`, id: `1`, refused: `Method: unknown member; did you mean "method"?`},
		{name: "escaped names", line: `{"\u0069d":1,"meth\u006fd":"\u0061"}`, id: `1`, method: "a"},
		{name: "braces in strings", line: `{"x":"}{\"][","id":1,"method":"m","params":{"s":"\\\""}}`, id: `1`, method: "m", params: `{"s":"\\\""}`},
		{name: "deep params", line: `{"id":1,"method":"m","params":` + deep[15000:25000] + `}`, id: `1`, method: "m", params: deep[15000:25000]},

		{name: "too deep", line: `{"id":1,"method":"m","params":` + deep + `}`, refused: "exceeded max depth"},
		{name: "text", line: `hello`, refused: "not JSON: invalid character 'h'"},
		{name: "cut off", line: `{"id":1,"method":"m"`, refused: "not JSON: unexpected end"},
		{name: "two values", line: `{"id":1,"method":"m"}{}`, refused: "not JSON"},
		{name: "trailing comma", line: `{"id":1,"method":"m",}`, refused: "not JSON"},
		{name: "NUL", line: "{\"id\":1,\x00\"method\":\"m\"}", refused: "not JSON"},
		{name: "NUL in a string", line: "{\"id\":1,\"method\":\"m\x00\"}", refused: "not JSON"},
		{name: "not UTF-8", line: "{\"id\":1,\"method\":\"m\xff\"}", refused: "not valid UTF-8 at byte 19"},
		{name: "list", line: `[1]`, refused: "must be a JSON object, not a list"},
		{name: "string", line: `"x"`, refused: "not a string"},
		{name: "number", line: `4`, refused: "not a number"},
		{name: "null", line: `null`, refused: "not null"},
		{name: "true", line: `true`, refused: "not true or false"},
		{name: "object id", line: `{"id":{},"method":"m"}`, refused: "id: must be"},
		{name: "list id", line: `{"id":[1],"method":"m"}`, refused: "id: must be"},
		{name: "long id", line: `{"id":"` + strings.Repeat("x", wire.MaxID) + `","method":"m"}`, refused: "id: 4098 bytes long"},
		{name: "no method", line: `{"id":1}`, id: `1`, refused: "method: is required"},
		{name: "method is a number", line: `{"id":1,"method":5}`, id: `1`, refused: "method: must be a string, not a number"},
		{name: "method is null", line: `{"id":1,"method":null}`, id: `1`, refused: "method: must be a string, not null"},
		{name: "empty object", line: `{}`, refused: "method: is required"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := wire.ParseRequest([]byte(tt.line))
			if string(req.ID) != tt.id {
				t.Errorf("id %s, want %s", req.ID, tt.id)
			}
			if tt.refused != "" {
				if err == nil || err.Code != api.CodeInvalidParams || !strings.Contains(err.Message, tt.refused) {
					t.Errorf("error %v, want %s … %q", err, api.CodeInvalidParams, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if req.Method != tt.method || string(req.Params) != tt.params || req.Traceparent != tt.trace {
				t.Errorf("method %q params %s, want %q %s", req.Method, req.Params, tt.method, tt.params)
			}
		})
	}
}

func TestFindID(t *testing.T) {
	tests := []struct{ beginning, id string }{
		{`{"id":"a","method":"exec.run","params":{"command":"xxxx`, `"a"`},
		{`{"method":"exec.run","id":17,"params":{"command":"xxxx`, `17`},
		{`{"params":{"a":[{"id":3}]},"id":null,"x":`, `null`},
		{`{"id":12`, ``}, // more digits may follow
		{`{"id":12 `, ``},
		{`{"id":12,`, `12`},
		{`{"id":"abc`, ``},
		{`{"id":{"a":1},"params":`, ``},
		{`{"id":x1,"params":`, ``},
		{`{"params":{"command":"\"id\":1,xxxx`, ``},
		{`xxxx`, ``},
		{``, ``},
		{`{"id":"` + strings.Repeat("x", wire.MaxID) + `","params":`, ``},
		{"{\"id\":\"\xff\",\"params\":", ``},
	}
	for _, tt := range tests {
		if id := wire.FindID([]byte(tt.beginning)); string(id) != tt.id {
			t.Errorf("%.40s: id %s, want %s", tt.beginning, id, tt.id)
		}
	}
}

// FuzzRequest compares the parser with encoding/json, and tries FindID on every prefix of the
// line.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"id":"1","method":"session.create","params":{"shell":"/bin/bash","env":{"A":"1"}}}`))
	f.Add([]byte(`{"id":1e999,"method":"\u0061\ud83d\ude00\ud800","params":[{}]}`))
	f.Add([]byte(`{"id":1,"id":"\\\"","x":{"y":["}"]},"method":"m"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		req, err := wire.ParseRequest(line)
		for n := range min(len(line), 512) {
			if id := wire.FindID(line[:n]); id != nil && !json.Valid(id) {
				t.Fatalf("FindID of %q: %q", line[:n], id)
			}
		}
		if req.ID != nil && (!json.Valid(req.ID) || bytes.IndexByte(req.ID, 0x0a) >= 0) {
			t.Fatalf("id %q", req.ID)
		}
		e := wire.NewEncoder()
		defer e.Release()
		if err != nil {
			e.Error(req.ID, err)
		} else if err := e.Answer(req.ID, req.Params); err != nil && req.Params != nil {
			t.Fatalf("answer: %s", err)
		}
		if out := e.Bytes(); len(out) > 0 && (!json.Valid(out) || bytes.IndexByte(out, '\n') != len(out)-1) {
			t.Fatalf("answer %q", out)
		}

		var want map[string]json.RawMessage
		valid := utf8.Valid(line) && json.Unmarshal(line, &want) == nil && want != nil
		if !valid {
			if err == nil {
				t.Fatalf("accepted %q", line)
			}
			return
		}
		id, method := want["id"], want["method"]
		if len(id) > wire.MaxID || len(id) > 0 && (id[0] == '{' || id[0] == '[') {
			if err == nil {
				t.Fatalf("accepted the id of %q", line)
			}
			return
		}
		if err != nil && err.Details["field"] != nil { // of two equal members, encoding/json takes the last
			return
		}
		if !bytes.Equal(req.ID, id) {
			t.Fatalf("id %q, want %q", req.ID, id)
		}
		var name string
		if len(method) == 0 || method[0] != '"' || json.Unmarshal(method, &name) != nil {
			if err == nil {
				t.Fatalf("accepted the method of %q", line)
			}
			return
		}
		if err != nil || req.Method != name || !bytes.Equal(req.Params, want["params"]) {
			t.Fatalf("%v: method %q params %q, want %q %q", err, req.Method, req.Params, name, want["params"])
		}
	})
}
