package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// members calls f with every complete member of the JSON object at the beginning of text: the key
// without its quotes, and the value as unparsed JSON. It does not validate the JSON. On text that
// is not JSON or is cut off, it stops early and returns false; it never reads outside text.
func members(text []byte, f func(key, value []byte)) bool {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '{' {
		return false
	}
	for i = skipSpace(text, i+1); i < len(text) && text[i] == '"'; i = skipSpace(text, i+1) {
		keyEnd := skipString(text, i)
		if keyEnd < 0 {
			return false
		}
		key := text[i+1 : keyEnd-1]
		if i = skipSpace(text, keyEnd); i == len(text) || text[i] != ':' {
			return false
		}
		from := skipSpace(text, i+1)
		to := skipValue(text, from)
		if to <= from {
			return false
		}
		if i = skipSpace(text, to); i == len(text) {
			return false // text may be cut off within a number
		}
		f(plainKey(key), text[from:to])
		if text[i] != ',' {
			break
		}
	}
	return i < len(text) && text[i] == '}'
}

// plainKey decodes escape sequences in a key, which are rare but allowed.
func plainKey(key []byte) []byte {
	if bytes.IndexByte(key, '\\') < 0 {
		return key
	}
	s, _ := unquote([]byte(`"` + string(key) + `"`))
	return []byte(s)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at i, -1 if it does not end.
func skipString(b []byte, i int) int {
	for j := i + 1; ; {
		n := bytes.IndexByte(b[j:], '"')
		if n < 0 {
			return -1
		}
		j += n
		k := j
		for k > i+1 && b[k-1] == '\\' {
			k--
		}
		if (j-k)%2 == 0 {
			return j + 1
		}
		j++
	}
}

// skipValue returns the index after the value that begins at i, -1 if it does not end.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1
			}
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return -1
			}
		default:
			if depth == 0 {
				return skipScalar(b, i)
			}
		}
		i++
	}
	return -1
}

func skipScalar(b []byte, i int) int {
	for i < len(b) && strings.IndexByte(",]} \t\r\n", b[i]) < 0 {
		i++
	}
	return i
}

// unquote returns the text of a JSON string, and false if v is not a valid one.
func unquote(v []byte) (string, bool) {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return "", false
	}
	v = v[1 : len(v)-1]
	esc := bytes.IndexByte(v, '\\')
	if esc < 0 {
		return string(v), true
	}
	var s strings.Builder
	s.Grow(len(v))
	for esc >= 0 {
		s.Write(v[:esc])
		r, n := unescape(v[esc:])
		if n == 0 {
			return "", false
		}
		s.WriteRune(r)
		v = v[esc+n:]
		esc = bytes.IndexByte(v, '\\')
	}
	s.Write(v)
	return s.String(), true
}

// unescape decodes the escape sequence at the beginning of v and returns its length, 0 if there is
// none.
func unescape(v []byte) (rune, int) {
	if len(v) < 2 {
		return 0, 0
	}
	switch v[1] {
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case '"', '\\', '/':
		return rune(v[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
	default:
		return 0, 0
	}
	r, ok := hex4(v)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if low, ok := hex4(v[6:]); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// hex4 decodes \uXXXX.
func hex4(v []byte) (rune, bool) {
	if len(v) < 6 || v[0] != '\\' || v[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(v[2:6]), 16, 32)
	return rune(n), err == nil
}

// FindID returns the id of a request that may be cut off, nil if the beginning does not have it.
func FindID(beginning []byte) json.RawMessage {
	var id []byte
	members(beginning, func(key, value []byte) {
		if string(key) == "id" {
			id = value
		}
	})
	if len(id) == 0 || len(id) > MaxID || id[0] == '{' || id[0] == '[' || !utf8.Valid(id) || !json.Valid(id) {
		return nil
	}
	return bytes.Clone(id)
}
