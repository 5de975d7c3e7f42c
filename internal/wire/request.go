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

// MaxID limits the length of a request's id, which every answer repeats.
const MaxID = 4096

// Request is a parsed line of a client. Its slices share memory with the line.
type Request struct {
	// ID is a JSON scalar as the client wrote it, nil if absent.
	ID     json.RawMessage
	Method string
	// Params is nil if absent.
	Params json.RawMessage
	// Raw means that the client accepts output as raw bytes after a push (Encoder.RawEvent),
	// and asks whether it may send raw bytes after its requests (Encoder.RawAnswer).
	Raw bool
	// Traceparent is the caller's position in a trace, as the client wrote it; "" if absent.
	Traceparent string
}

// RawLength returns the number of raw bytes that follow the line of a request: the value of the
// member "raw" if that is the last member and a number, else 0.
func RawLength(line []byte) int {
	digits, ok := bytes.CutSuffix(line, []byte("}"))
	if !ok {
		return 0
	}
	at := bytes.LastIndexByte(digits, ':') + 1
	// The comma ensures that "raw" is the whole name, not the end of another one.
	if !bytes.HasSuffix(digits[:at], []byte(`,"raw":`)) {
		return 0
	}
	n, err := strconv.ParseUint(string(digits[at:]), 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// ParseRequest parses a line of a client. If the line is not a valid request, it returns an
// error, and a Request with the id if that could be parsed.
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
			req.ID = nil // there are two, or a misspelt one
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
	if env.traceparent != nil {
		req.Traceparent, _ = unquote(env.traceparent) // what is no string is no traceparent either
	}
	return req, nil
}

// envelope has the members of a request as unparsed JSON. Unknown members are ignored.
type envelope struct {
	id, method, params, raw, traceparent []byte
	bad                                  *api.Error // a member appears twice, or its name differs in letter case
}

// openEnvelope finds the members of a request. ok is false if text is not a JSON object.
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
		case "traceparent":
			to = &env.traceparent
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

// CheckText returns an error unless text is one JSON value in UTF-8.
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

// kindOf names the kind of a JSON value, for error messages.
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
