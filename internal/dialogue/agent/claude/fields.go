package claude

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// fields are the fields of a JSON object, decoded only when they are read: most of a line never
// is, and decoding all of it takes several times as long. A field that is missing, or that has
// another type than the caller reads, counts as empty.
type fields []field

type field struct {
	name, value []byte // slices of the object's text; the name without quotes
}

// readFields finds the fields of an object. The text must be valid JSON; if it is no object, it
// has no fields.
func readFields(text []byte) fields {
	// This function is small enough to be inlined, so the fields of most objects need no heap.
	return appendFields(make(fields, 0, 12), text)
}

// appendFields is readFields with memory from the caller.
func appendFields(all fields, text []byte) fields {
	i := spaceEnd(text, 0)
	if i == len(text) || text[i] != '{' {
		return nil
	}
	for i = spaceEnd(text, i+1); text[i] != '}'; i = nextEnd(text, i) {
		end := stringEnd(text, i)
		name := text[i+1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = []byte(readText(text[i:end]))
		}
		i = spaceEnd(text, spaceEnd(text, end)+1) // after the colon
		end = valueEnd(text, i)
		all = append(all, field{name, text[i:end]})
		i = end
	}
	return all
}

// readElements finds the elements of an array in valid JSON. It is not ok for anything else.
func readElements(text []byte) (all [][]byte, ok bool) {
	if len(text) == 0 || text[0] != '[' {
		return nil, false
	}
	all = make([][]byte, 0, 4)
	for i := spaceEnd(text, 1); text[i] != ']'; {
		end := valueEnd(text, i)
		all = append(all, text[i:end])
		i = nextEnd(text, end)
	}
	return all, true
}

// readText reads a string in valid JSON.
func readText(value []byte) (s string) {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	if inner := value[1 : len(value)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	lenient(value, &s)
	return s
}

// lenient decodes JSON. A field of an unexpected type keeps its value.
func lenient(data []byte, v any) {
	if len(data) > 0 {
		_ = json.Unmarshal(data, v)
	}
}

// raw is the JSON of a field, a slice of the object's text; nil if there is no such field.
func (f fields) raw(name string) []byte {
	for i := len(f) - 1; i >= 0; i-- { // the last of several fields with the same name counts
		if string(f[i].name) == name {
			return f[i].value
		}
	}
	return nil
}

// copied is a copy of the JSON of a field, which may be kept.
func (f fields) copied(name string) json.RawMessage { return bytes.Clone(f.raw(name)) }

func (f fields) text(name string) string { return readText(f.raw(name)) }

// wording is the text of a field, or its JSON if it is no text. An empty list or object says nothing.
func (f fields) wording(name string) string {
	value := f.raw(name)
	if len(value) == 0 || value[0] == '"' || string(value) == "null" {
		return readText(value)
	}
	if (value[0] == '[' || value[0] == '{') && len(bytes.TrimSpace(value[1:len(value)-1])) == 0 {
		return ""
	}
	return string(value)
}

func (f fields) flag(name string) bool { return string(f.raw(name)) == "true" }

// mostNumber is the greatest number that number and fraction return; a greater one counts as 0.
// Sums of such numbers do not overflow, and clients in other languages can read them.
const mostNumber = 1 << 53

func (f fields) number(name string) int64 {
	n, err := strconv.ParseInt(string(f.raw(name)), 10, 64)
	if err != nil || n > mostNumber || n < -mostNumber {
		return 0
	}
	return n
}

func (f fields) fraction(name string) (n float64) {
	if lenient(f.raw(name), &n); math.Abs(n) > mostNumber {
		return 0
	}
	return n
}

func (f fields) texts(name string) []string {
	elements, ok := readElements(f.raw(name))
	if !ok {
		return nil
	}
	list := make([]string, len(elements))
	for i, e := range elements {
		list[i] = readText(e)
	}
	return list
}

// These functions find the ends of values in valid JSON, so they never read past the text.

func spaceEnd(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// nextEnd is the start of the next field or element, or the end of the list.
func nextEnd(text []byte, i int) int {
	if i = spaceEnd(text, i); text[i] == ',' {
		i = spaceEnd(text, i+1)
	}
	return i
}

func stringEnd(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func valueEnd(text []byte, i int) int {
	switch text[i] {
	case '"':
		return stringEnd(text, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch text[i] {
			case '"':
				i = stringEnd(text, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(text) && text[i] != ',' && text[i] != '}' && text[i] != ']' && text[i] > ' ' {
		i++
	}
	return i
}
