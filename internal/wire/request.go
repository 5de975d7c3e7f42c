// Package wire is the line protocol for both of its ends: one JSON object per line; the
// encoding of requests, answers and pushes; a reader with bounded memory, and a writer
// that never blocks its callers for a slow peer.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
)

// MaxID bounds the length of a request's id, which is echoed in every answer.
const MaxID = 4096

// Request is one line of a client, taken apart. Its slices lie in the line.
type Request struct {
	// ID is a JSON scalar as the client wrote it, nil when there is none.
	ID     json.RawMessage
	Method string
	// Params is nil when absent.
	Params json.RawMessage
	// Raw says that the client takes output as bytes behind a push, see Encoder.RawEvent, and
	// asks whether it may send bytes behind its requests, see Encoder.RawAnswer.
	Raw bool
}

// RawLength returns how many bytes follow the line of a request: the member "raw", when it is
// the last one and a number. Else it is 0.
func RawLength(line []byte) int {
	digits, ok := bytes.CutSuffix(line, []byte("}"))
	if !ok {
		return 0
	}
	at := bytes.LastIndexByte(digits, ':') + 1
	// The comma before it makes sure that this is not the end of another name.
	if !bytes.HasSuffix(digits[:at], []byte(`,"raw":`)) {
		return 0
	}
	n, err := strconv.ParseUint(string(digits[at:]), 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// ParseRequest takes one line apart. Where it is not a request, the error says
// why, and the Request has the id if that much could be understood.
func ParseRequest(line []byte) (Request, *api.Error) {
	var req Request
	if bad := CheckText(line); bad != nil {
		return req, bad
	}
	env, ok := openEnvelope(line)
	if !ok {
		return req, invalid("request: must be a JSON object, not %s", kindOf(line))
	}
	req.ID, req.Params, req.Raw = env.id, env.params, string(env.raw) == "true"
	method := env.method
	if len(req.ID) > 0 && (req.ID[0] == '{' || req.ID[0] == '[') {
		kind := kindOf(req.ID)
		req.ID = nil
		return req, invalid("id: must be a string, a number, true, false or null, not %s", kind)
	}
	if len(req.ID) > MaxID {
		n := len(req.ID)
		req.ID = nil
		return req, invalid("id: %d bytes long, at most %d are allowed", n, MaxID)
	}
	if env.bad != nil {
		if env.bad.Details["field"] == "id" {
			req.ID = nil // nobody can tell which one is meant
		}
		return req, env.bad
	}
	if method == nil {
		return req, invalid("method: is required")
	}
	name, ok := unquote(method)
	if !ok {
		return req, invalid("method: must be a string, not %s", kindOf(method))
	}
	req.Method = name
	return req, nil
}

// envelope is a request with its members as they stand. Other members are ignored.
type envelope struct {
	id, method, params, raw []byte
	bad                     *api.Error // a member that appears twice, or whose name is nearly right
}

// openEnvelope takes a JSON object apart. It is false when the text is none.
func openEnvelope(text []byte) (env envelope, ok bool) {
	ok = members(text, func(key, value []byte) {
		var to *[]byte
		switch string(key) {
		case "id":
			to = &env.id
		case "method":
			to = &env.method
		case "params":
			to = &env.params
		case "raw":
			to = &env.raw
		default:
			for _, name := range []string{"id", "method", "params"} {
				if bytes.EqualFold(key, []byte(name)) && env.bad == nil {
					env.bad = badMember(string(key), fmt.Sprintf("unknown member; did you mean %q?", name))
					env.bad.Details["suggestion"] = name
				}
			}
			return
		}
		if *to != nil && env.bad == nil {
			env.bad = badMember(string(key), "appears twice")
		}
		*to = value
	})
	return env, ok
}

func badMember(name, why string) *api.Error {
	e := invalid("%s: %s", name, why)
	e.Details = map[string]any{"field": name}
	return e
}

// CheckText refuses what is not one JSON value in UTF-8.
func CheckText(text []byte) *api.Error {
	if !utf8.Valid(text) {
		return invalid("request: not valid UTF-8 at byte %d", invalidUTF8At(text))
	}
	if !json.Valid(text) {
		return invalid("request: not JSON: %s", syntaxError(text))
	}
	return nil
}

func invalid(format string, args ...any) *api.Error {
	return api.Errorf(api.CodeInvalidParams, format, args...)
}

func invalidUTF8At(b []byte) int {
	at := 0
	for {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n <= 1 {
			return at
		}
		at += n
	}
}

func syntaxError(line []byte) string {
	var v struct{}
	err := json.Unmarshal(line, &v)
	if err == nil {
		return "unknown cause"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// kindOf names the kind of a JSON value, for people.
func kindOf(v []byte) string {
	v = bytes.TrimSpace(v)
	if len(v) == 0 {
		return "nothing"
	}
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}
