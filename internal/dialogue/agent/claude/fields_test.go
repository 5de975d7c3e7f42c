package claude

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestFields(t *testing.T) {
	f := readFields([]byte(` { "s" : "a\u00e9\"}" , "n":-7,"digit":5,"big":1e3,"yes":true, "no":null ,"list":["x",5,"",[ "y" ]],"none":[ ],"o":{"in":{"s":"deep"}},"\u0065sc":"e","twice":1,"twice":2 } `))
	if s := f.text("s"); s != `aé"}` {
		t.Errorf("text %q", s)
	}
	if f.number("n") != -7 || f.number("big") != 0 || f.number("s") != 0 || f.number("twice") != 2 {
		t.Errorf("numbers %d %d %d %d", f.number("n"), f.number("big"), f.number("s"), f.number("twice"))
	}
	huge := readFields([]byte(`{"n":9223372036854775807,"less":-9007199254740993,"most":9007199254740992,"f":1e300,"g":-1e17,"h":1.5}`))
	if huge.number("n") != 0 || huge.number("less") != 0 || huge.number("most") != 1<<53 {
		t.Errorf("huge numbers %d %d %d", huge.number("n"), huge.number("less"), huge.number("most"))
	}
	if huge.fraction("n") != 0 || huge.fraction("f") != 0 || huge.fraction("g") != 0 || huge.fraction("h") != 1.5 {
		t.Errorf("huge fractions %g %g %g %g", huge.fraction("n"), huge.fraction("f"), huge.fraction("g"), huge.fraction("h"))
	}
	if !f.flag("yes") || f.flag("no") || f.flag("s") || f.flag("missing") {
		t.Error("flags")
	}
	if got := f.texts("list"); !slices.Equal(got, []string{"x", "", "", ""}) {
		t.Errorf("texts %q", got)
	}
	if f.texts("none") == nil || f.texts("s") != nil || f.texts("missing") != nil {
		t.Error("a list without elements is one, other things are none")
	}
	if s := readFields(readFields(f.raw("o")).raw("in")).text("s"); s != "deep" {
		t.Errorf("object %q", s)
	}
	if readFields(f.raw("list")) != nil || f.text("o") != "" || f.text("missing") != "" || f.text("esc") != "e" {
		t.Error("what is of another type, or missing, is not empty")
	}
	for name, want := range map[string]string{"s": `aé"}`, "n": "-7", "digit": "5", "no": "", "missing": "", "none": ""} {
		if got := f.wording(name); got != want {
			t.Errorf("wording of %s: %q", name, got)
		}
	}
	if s := readFields([]byte("{\"s\":\"\xff\"}")).text("s"); s != "\uFFFD" {
		t.Errorf("text that is not UTF-8: %q", s)
	}
}

// A copy does not change with the line.
func TestFieldsCopied(t *testing.T) {
	line := []byte(`{"a":{"b":1},"s":"text"}`)
	f := readFields(line)
	kept, text := f.copied("a"), f.text("s")
	clear(line)
	if string(kept) != `{"b":1}` || text != "text" {
		t.Errorf("kept %q and %q", kept, text)
	}
}

// FuzzFields compares fields with encoding/json, at any depth.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{`{"a":"\\\"","b":[1,{"c":"}]"}],"":null}`, ` [ ] `, `{ }`, `"x"`, `[1 ,"," , [ { } ]]`, `{"\u0061":1,"a":2}`, "\t{\"a\" :\n-1.5e9 , \"b\":true}\r\n", `{"a":"` + strings.Repeat("é\\n", 50) + `"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if json.Valid(data) {
			compareValue(t, bytes.TrimSpace(data))
		}
	})
}

func compareValue(t *testing.T, value []byte) {
	var object map[string]json.RawMessage
	var array []json.RawMessage
	var text string
	_ = json.Unmarshal(value, &object)
	_ = json.Unmarshal(value, &array)
	_ = json.Unmarshal(value, &text)
	if got := readText(value); got != text {
		t.Errorf("%q: text %q", value, got)
	}
	f := readFields(value)
	names := map[string]bool{}
	for _, field := range f {
		names[strings.ToValidUTF8(string(field.name), "\uFFFD")] = true
	}
	for name, want := range object {
		if got := f.raw(name); !strings.Contains(name, "\uFFFD") && !bytes.Equal(got, want) {
			t.Errorf("%q: field %q is %q", value, name, got)
		}
	}
	if len(names) > len(object) || len(object) > 0 && len(f) == 0 {
		t.Errorf("%q: fields %q", value, slices.Collect(maps.Keys(names)))
	}
	elements, ok := readElements(value)
	if ok != (value[0] == '[') || len(elements) != len(array) {
		t.Fatalf("%q: elements %q", value, elements)
	}
	for i, e := range elements {
		if !bytes.Equal(e, array[i]) {
			t.Errorf("%q: element %d is %q", value, i, e)
		}
		compareValue(t, e)
	}
	for _, field := range f {
		compareValue(t, field.value)
	}
}
