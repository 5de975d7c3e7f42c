package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/near"
)

// checkNames rejects mistakes that encoding/json accepts: a name in the wrong letter case
// (it reads Command as command), a name that appears twice (the last one would win), and
// half of a surrogate pair in a string, which would silently become U+FFFD. With strict it
// also rejects unknown names. It names the member of a map that is not a string, for which
// encoding/json names the map alone. The text is valid JSON.
func checkNames(text []byte, t reflect.Type, strict bool) error {
	w := walk{text: text, strict: strict}
	w.value(shapeOf(t))
	if w.bad == nil {
		return nil
	}
	return w.bad
}

// CheckJSON rejects valid JSON that does not say one thing: a name that appears twice in an object
// (the last one would win), half of a surrogate pair in a string, or bytes that are not UTF-8,
// which would both silently become U+FFFD.
func CheckJSON(text []byte) error {
	if !utf8.Valid(text) {
		return Errorf(CodeInvalidParams, "params: not valid UTF-8")
	}
	w := walk{text: text}
	w.value(nil)
	if w.bad == nil {
		return nil
	}
	return w.bad
}

// A shape describes the members of the JSON of a Go type.
type shape struct {
	fields map[string]*shape // of a struct; nil for anything else
	elem   *shape            // of a list, or of every member of a map; nil if any value is allowed
	words  bool              // a map from strings to strings, such as env
}

var shapes sync.Map // reflect.Type → *shape

// shapeOf returns the shape of a type; nil if any value is allowed.
func shapeOf(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil // a Words, a time, a RawMessage
	}
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	s := &shape{}
	switch t.Kind() {
	case reflect.Struct:
		s.fields = map[string]*shape{}
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() || f.Anonymous && name == "" {
				continue
			}
			if name == "" {
				name = f.Name
			}
			s.fields[name] = shapeOf(f.Type)
		}
	case reflect.Slice, reflect.Array, reflect.Map:
		s.elem = shapeOf(t.Elem())
		s.words = t.Kind() == reflect.Map && t.Elem().Kind() == reflect.String
	default:
		return nil
	}
	shapes.Store(t, s)
	return s
}

// maxName is the length of the longest name for which TRL looks for a similar one.
const maxName = 64

// walk reads valid JSON from beginning to end, without copying it.
type walk struct {
	text   []byte
	at     int
	strict bool
	path   [][]byte // the names of the members that are being read, from the outside in
	bad    *Error   // the first fault
}

// value reads one value of that shape.
func (w *walk) value(s *shape) {
	switch w.space() {
	case '{':
		w.object(s)
	case '[':
		w.list(s)
	case '"':
		w.string()
	default:
		for w.at < len(w.text) && strings.IndexByte(",]} \t\r\n", w.text[w.at]) < 0 {
			w.at++
		}
	}
}

func (w *walk) object(s *shape) {
	var few [8][]byte
	seen := few[:0]
	var many map[string]bool // in place of seen, when there are more
	for w.at++; w.space() != '}' && w.bad == nil; {
		if w.text[w.at] == ',' {
			w.at++
			w.space()
		}
		name := w.string()
		w.path = append(w.path, name)
		twice := many[string(name)]
		for _, known := range seen {
			twice = twice || bytes.Equal(known, name)
		}
		if twice {
			w.fault("appears twice", "")
			return
		}
		switch {
		case many != nil:
			many[string(name)] = true
		case len(seen) < len(few):
			seen = append(seen, name)
		default:
			many = map[string]bool{string(name): true}
			for _, known := range seen {
				many[string(known)] = true
			}
		}
		w.space()
		w.at++ // the colon
		if kind := kindOf(w.space()); s != nil && s.words && kind != "string" && kind != "null" {
			w.fault("must be a string, not "+kind, "")
		}
		w.value(w.member(s, name))
		w.path = w.path[:len(w.path)-1]
	}
	w.at++
}

// kindOf returns what encoding/json calls a value that begins with that byte.
func kindOf(first byte) string {
	switch first {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	}
	return "number"
}

// member returns the shape of a member, and records a fault if its name is wrong.
func (w *walk) member(s *shape, name []byte) *shape {
	switch {
	case s == nil:
		return nil
	case s.fields == nil:
		return s.elem
	}
	field, known := s.fields[string(name)]
	if known {
		return field
	}
	meant := meantName(string(name), s.fields)
	if w.strict || strings.EqualFold(meant, string(name)) {
		w.fault("unknown field", meant)
	}
	return nil
}

// mistaken are names that no spelling explains, and the fields that callers mean by them. The Python
// client, which checks its options itself, has the same list.
var mistaken = map[string]string{"cwd": "working_dir", "directory": "working_dir", "input": "stdin", "environment": "env"}

// meantName returns the field that the caller probably meant by name, or "".
func meantName(name string, fields map[string]*shape) string {
	if _, there := fields[mistaken[name]]; there {
		return mistaken[name]
	}
	if len(name) > maxName {
		return ""
	}
	return near.Word(strings.ToLower(name), slices.Sorted(maps.Keys(fields)), min(3, len(name)/2))
}

func (w *walk) list(s *shape) {
	var elem *shape
	if s != nil && s.fields == nil {
		elem = s.elem
	}
	w.path = append(w.path, nil)
	i := int64(0)
	for w.at++; w.space() != ']' && w.bad == nil; i++ {
		if w.text[w.at] == ',' {
			w.at++
		}
		last := len(w.path) - 1
		w.path[last] = strconv.AppendInt(w.path[last][:0], i, 10)
		w.value(elem)
	}
	w.path = w.path[:len(w.path)-1]
	w.at++
}

// string reads a string and returns its text.
func (w *walk) string() []byte {
	from, escaped := w.at+1, false
	end := from + bytes.IndexByte(w.text[from:], '"')
	for w.at = from; ; {
		n := bytes.IndexByte(w.text[w.at:end], '\\')
		if n < 0 {
			break
		}
		escaped = true
		if w.at += n; w.text[w.at+1] == 'u' && !w.surrogate() {
			w.fault("has half of a surrogate pair, "+string(w.text[w.at:w.at+6])+", which is no character", "")
		}
		if w.at += 2; w.at > end { // the quote at end was escaped
			end = w.at + bytes.IndexByte(w.text[w.at:], '"')
		}
	}
	w.at = end + 1
	if !escaped || end-from > 8*maxName { // no name is that long
		return w.text[from:end]
	}
	var plain string
	_ = json.Unmarshal(w.text[from-1:w.at], &plain)
	return []byte(plain)
}

// surrogate checks the escape \uXXXX at the current position, and moves to the second half
// if it is a pair. It returns false if only one half is there.
func (w *walk) surrogate() bool {
	code := func(at int) uint64 {
		if at+6 > len(w.text) || w.text[at] != '\\' || w.text[at+1] != 'u' {
			return 0
		}
		n, _ := strconv.ParseUint(string(w.text[at+2:at+6]), 16, 16)
		return n
	}
	switch first := code(w.at); {
	case first >= 0xd800 && first < 0xdc00:
		if second := code(w.at + 6); second < 0xdc00 || second > 0xdfff {
			return false
		}
		w.at += 6
	case first >= 0xdc00 && first < 0xe000:
		return false
	}
	return true
}

// space moves to the next token and returns its first byte.
func (w *walk) space() byte {
	for w.text[w.at] == ' ' || w.text[w.at] == '\t' || w.text[w.at] == '\r' || w.text[w.at] == '\n' {
		w.at++
	}
	return w.text[w.at]
}

// fault records the first fault, in the value that is being read, and a suggestion if any.
func (w *walk) fault(why, meant string) {
	if w.bad != nil {
		return
	}
	field := strings.ToValidUTF8(string(bytes.Join(w.path, []byte("."))), "\uFFFD")
	if len(field) > 200 {
		field = strings.ToValidUTF8(field[:200], "") + "…"
	}
	details := map[string]any{"field": field}
	if meant != "" {
		why += `; did you mean "` + meant + `"?`
		details["suggestion"] = meant
	}
	w.bad = Errorf(CodeInvalidParams, "params.%s: %s", field, why)
	w.bad.Details = details
}
