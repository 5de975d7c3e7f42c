package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
)

// match compares a line with what is expected and says why they differ. Variables
// are bound only when all of it matches.
func (s *script) match(want, got string) string {
	w, err := decode(want)
	if err != nil {
		s.fatalf("%s: %s", want, err)
	}
	g, err := decode(got)
	if err != nil {
		return err.Error()
	}
	vars := maps.Clone(s.vars)
	if why := compare(vars, "", w, g); why != "" {
		return why
	}
	s.vars = vars
	return ""
}

// decode keeps numbers as they are written.
func decode(text string) (any, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}

func compare(vars map[string]string, at string, want, got any) string {
	switch w := want.(type) {
	case string:
		return compareString(vars, at, w, got)
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s: is %v, want an object", at, got)
		}
		return compareObject(vars, at, w, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s: is %v, want a list of %d", at, got, len(w))
		}
		for i := range w {
			if why := compare(vars, fmt.Sprintf("%s[%d]", at, i), w[i], g[i]); why != "" {
				return why
			}
		}
		return ""
	}
	if want != got {
		return fmt.Sprintf("%s: is %v, want %v", at, got, want)
	}
	return ""
}

func compareObject(vars map[string]string, at string, want, got map[string]any) string {
	_, open := want["..."]
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value, ok := got[key]
		if !ok && key != "..." {
			return fmt.Sprintf("%s.%s: is missing", at, key)
		}
		if why := compare(vars, at+"."+key, want[key], value); why != "" && key != "..." {
			return why
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok && !open {
			return fmt.Sprintf("%s.%s: is not expected", at, key)
		}
	}
	return ""
}

func compareString(vars map[string]string, at, want string, got any) string {
	differs := func(kind string) string { return fmt.Sprintf("%s: is %v, want %s", at, got, kind) }
	text, isText := got.(string)
	if name, ok := strings.CutPrefix(want, "$"); ok {
		value := text
		if !isText {
			value = fmt.Sprint(got)
		}
		if bound, ok := vars[name]; ok && bound != value {
			return differs(bound)
		}
		vars[name] = value
		return ""
	}
	ok := isText && text == want
	switch want {
	case "*":
		ok = true
	case "*string":
		ok = isText && text != ""
	case "*number":
		_, ok = got.(json.Number)
	case "*bool":
		_, ok = got.(bool)
	case "*list":
		_, ok = got.([]any)
	case "*time":
		at, err := time.Parse(time.RFC3339Nano, text)
		ok = isText && err == nil && strings.HasSuffix(text, "Z") && time.Since(at).Abs() < time.Hour
	default:
		if part, is := strings.CutPrefix(want, "*…"); is {
			ok = isText && strings.Contains(text, part)
		}
	}
	if !ok {
		return differs(strconv.Quote(want))
	}
	return ""
}

// stream receives the pushes of one stream until its exit. Where one piece of
// output ends and the next begins is up to the kernel, so the pieces are joined;
// their numbers and offsets must be without gaps.
func (s *script) stream(name string, want []string) {
	s.t.Helper()
	id := s.vars[name]
	var got []string
	var kind string
	var joined []byte
	flush := func() {
		if kind != "" {
			got = append(got, kind+" "+strconv.Quote(string(joined)))
		}
		kind, joined = "", nil
	}
	offsets := map[string]int64{}
	for seq := int64(1); ; seq++ {
		line := s.receive()
		var ev api.StreamEvent
		if err := json.Unmarshal([]byte(line), &ev); err != nil || ev.StreamID != id || ev.Seq != seq {
			s.fatalf("want push %d of stream %s, got %s (%v)", seq, id, line, err)
		}
		if ev.Type == api.EventExit {
			flush()
			got = append(got, "exit "+line)
			break
		}
		data := api.Data(ev.Data, ev.DataBase64)
		if ev.Offset == nil || *ev.Offset != offsets[ev.Type] || len(data) == 0 {
			s.fatalf("want offset %d, got %s", offsets[ev.Type], line)
		}
		offsets[ev.Type] += int64(len(data))
		if ev.Type != kind {
			flush()
		}
		kind, joined = ev.Type, append(joined, data...)
	}
	if len(got) != len(want) {
		s.fatalf("got %q\nwant %q", got, want)
	}
	for i := range want {
		if exit, ok := strings.CutPrefix(want[i], "exit "); ok {
			if why := s.match(exit, strings.TrimPrefix(got[i], "exit ")); why != "" {
				s.fatalf("%s\ngot  %s\nwant %s", why, got[i], want[i])
			}
		} else if got[i] != want[i] {
			s.fatalf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

// TestMatch proves that the comparison sees differences.
func TestMatch(t *testing.T) {
	tests := []struct {
		want, got string
		same      bool
	}{
		{`{"a":1}`, `{"a":1}`, true},
		{`{"a":1}`, `{"a":1.0}`, false},
		{`{"a":1}`, `{"a":"1"}`, false},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1,"...":0}`, `{"a":1,"b":2}`, true},
		{`{"a":1,"...":0}`, `{"b":2}`, false},
		{`{"a":null}`, `{"a":null}`, true},
		{`{"a":null}`, `{}`, false},
		{`{"a":[1,"*"]}`, `{"a":[1,{"x":2}]}`, true},
		{`{"a":[1]}`, `{"a":[1,2]}`, false},
		{`{"a":"*number"}`, `{"a":"1"}`, false},
		{`{"a":"*string"}`, `{"a":""}`, false},
		{`{"a":"*list"}`, `{"a":null}`, false},
		{`{"a":"*bool"}`, `{"a":false}`, true},
		{`{"a":"*time"}`, `{"a":"2006-01-02T15:04:05Z"}`, false},
		{`{"a":"*…ell"}`, `{"a":"hello"}`, true},
		{`{"a":"*…elk"}`, `{"a":"hello"}`, false},
		{`{"a":"$x","b":"$x"}`, `{"a":"1","b":"1"}`, true},
		{`{"a":"$x","b":"$x"}`, `{"a":"1","b":"2"}`, false},
		{`{"a":1}`, `{"a":1}{}`, false},
		{`{"a":1}`, `x`, false},
	}
	for _, tt := range tests {
		s := &script{t: t, vars: map[string]string{}}
		if why := s.match(tt.want, tt.got); (why == "") != tt.same {
			t.Errorf("%s and %s: %q", tt.want, tt.got, why)
		}
	}
	now, _ := json.Marshal(map[string]any{"a": time.Now().UTC()})
	s := &script{t: t, vars: map[string]string{}}
	if why := s.match(`{"a":"*time"}`, string(now)); why != "" {
		t.Error(why)
	}
}
