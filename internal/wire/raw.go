package wire

import (
	"bytes"
	"encoding/base64"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/trl-dev/trl/api"
)

// Raw has the bytes that travel beside the JSON of a message instead of in it. The entry x
// replaces the members x and x_base64 of a push, of the params of a request, or of the data of an
// answer.
type Raw map[string][]byte

const base64Suffix = "_base64"

// TakeEvent removes the data from a push and returns it.
func TakeEvent(ev *api.StreamEvent) []byte {
	data := api.Data(ev.Data, ev.DataBase64)
	ev.Data, ev.DataBase64 = "", ""
	return data
}

// TakeResult removes the data from the result of a method and returns both. It does not change
// result itself: if the type of the result can have data, it returns a copy.
func TakeResult(result any) (any, Raw) {
	pairs := pairsOf(reflect.TypeOf(result))
	if len(pairs) == 0 {
		return result, nil
	}
	var raw Raw
	own := reflect.New(reflect.TypeOf(result)).Elem()
	own.Set(reflect.ValueOf(result))
	for _, p := range pairs {
		text, b64 := own.FieldByIndex(p.text), own.FieldByIndex(p.b64)
		if text.Len() == 0 && b64.Len() == 0 {
			continue
		}
		if raw == nil {
			raw = Raw{}
		}
		raw[p.name] = api.Data(text.String(), b64.String())
		text.SetString("")
		b64.SetString("")
	}
	return own.Interface(), raw
}

// pair is two fields of a struct that carry the same data, as text and in base64.
type pair struct {
	name      string // of the text, in JSON
	text, b64 []int  // indexes of the fields, as reflect has them
}

var pairs sync.Map // reflect.Type → []pair

// pairsOf returns the pairs of a struct type.
func pairsOf(t reflect.Type) []pair {
	if known, ok := pairs.Load(t); ok {
		return known.([]pair)
	}
	var list []pair
	if t != nil && t.Kind() == reflect.Struct {
		fields := map[string]reflect.StructField{}
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.Type.Kind() == reflect.String {
				fields[name] = f
			}
		}
		for name, f := range fields {
			if text, ok := strings.CutSuffix(name, base64Suffix); ok && fields[text].Index != nil {
				list = append(list, pair{text, fields[text].Index, f.Index})
			}
		}
	}
	pairs.Store(t, list)
	return list
}

// JoinRequest returns the line of a request, with the raw bytes in its params. The line contains
// no line end. A message that is not a request is not changed otherwise, so that parsing it
// reports the error.
func JoinRequest(message []byte, raw Raw) []byte {
	if len(raw) == 0 {
		return oneLine(message)
	}
	if env, ok := openEnvelope(message); ok && env.bad == nil {
		params := env.params
		if params == nil || string(params) == "null" {
			params = []byte("{}")
		}
		// The id comes first, because only the beginning of a too large request is parsed.
		b := member([]byte("{"), "id", env.id)
		b = member(b, "method", env.method)
		b = member(b, "params", joined(params, raw, inRequest))
		message = append(b, '}')
	}
	return oneLine(message)
}

// Beside returns the raw bytes of a request if its method accepts them as they are, see
// api.Method.CallWith, else nil. All other requests need JoinRequest.
func Beside(message []byte, raw Raw) []byte {
	data := raw["data"]
	if len(raw) != 1 || len(data) == 0 {
		return nil
	}
	env, ok := openEnvelope(message)
	if !ok || env.bad != nil || string(env.method) != `"exec.input"` && string(env.method) != `"guest.send"` || bytes.Contains(env.params, []byte(`"data`)) {
		return nil
	}
	return data
}

// JoinAnswer returns the line of an answer, with the raw bytes in its data.
func JoinAnswer(message []byte, raw Raw) []byte {
	if len(raw) == 0 {
		return oneLine(message)
	}
	b := []byte("{")
	if !members(message, func(key, value []byte) {
		if string(key) == "data" {
			value = joined(value, raw, inAnswer)
		}
		b = member(b, string(key), value)
	}) {
		return oneLine(message)
	}
	return oneLine(append(b, '}'))
}

// joined returns an object in which the raw bytes replace their members. write appends one entry
// as members.
func joined(object []byte, raw Raw, write func(b []byte, name string, data []byte) []byte) []byte {
	b := []byte("{")
	if !members(object, func(key, value []byte) {
		name := string(key)
		_, text := raw[name]
		_, b64 := raw[strings.TrimSuffix(name, base64Suffix)]
		if !text && !b64 {
			b = member(b, name, value)
		}
	}) {
		return object
	}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		b = write(b, name, raw[name])
	}
	return append(b, '}')
}

// inRequest appends data as a request has it: in base64.
func inRequest(b []byte, name string, data []byte) []byte {
	b = member(b, name+base64Suffix, []byte{'"'})
	return append(base64.StdEncoding.AppendEncode(b, data), '"')
}

// inAnswer appends data as an answer has it: as text, and in base64 if the text is not exact.
func inAnswer(b []byte, name string, data []byte) []byte {
	text, b64 := api.Text(data)
	b = member(b, name, appendString(nil, text))
	if b64 != "" {
		b = member(b, name+base64Suffix, appendString(nil, b64))
	}
	return b
}

// member appends a member to b, an object without its closing brace. It appends nothing if value
// is nil.
func member(b []byte, name string, value []byte) []byte {
	if value == nil {
		return b
	}
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = appendString(b, strings.ToValidUTF8(name, "\uFFFD"))
	b = append(b, ':')
	return append(b, value...)
}

// oneLine replaces the line ends between JSON tokens by spaces. JSON strings contain none.
func oneLine(b []byte) []byte {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
	return b
}

// SplitRequest removes the members x_base64 from the params of a request and returns their
// content as raw bytes. The results do not share memory with the line.
func SplitRequest(line []byte) (message []byte, raw Raw) {
	if !bytes.Contains(line, []byte(base64Suffix+`"`)) {
		return bytes.Clone(line), nil
	}
	rest := []byte("{")
	ok := members(line, func(key, value []byte) {
		if string(key) == "params" {
			value, raw = split(value)
		}
		rest = member(rest, string(key), value)
	})
	if !ok || len(raw) == 0 {
		return bytes.Clone(line), nil
	}
	return append(rest, '}'), raw
}

// split removes the members x_base64 from an object.
func split(object []byte) (rest []byte, raw Raw) {
	raw = Raw{}
	rest = []byte("{")
	if !members(object, func(key, value []byte) {
		if name, ok := strings.CutSuffix(string(key), base64Suffix); ok && name != "" && len(value) > 2 && value[0] == '"' {
			if data, err := base64.StdEncoding.DecodeString(string(value[1 : len(value)-1])); err == nil {
				raw[name] = data
				return
			}
		}
		rest = member(rest, string(key), value)
	}) {
		return object, nil
	}
	return append(rest, '}'), raw
}
