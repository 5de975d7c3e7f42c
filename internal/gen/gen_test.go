package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

func testContract(t *testing.T) *contract {
	t.Helper()
	c, err := readContract("../../api")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFieldDoc(t *testing.T) {
	s := &source{
		consts: []constant{{name: "EventStdout", value: "stdout"}},
		fields: map[string]map[string]string{"T": {
			"Name":     "Name is a handle. It may be used for a SessionID.",
			"TimeoutS": "TimeoutS bounds the command. Name is not asked.",
			"Login":    "Login starts one. RC reads files. Neither is done.",
			"RC":       "Login starts one. RC reads files. Neither is done.",
			"PID":      "PID and PPID are numbers.",
			"PPID":     "PID and PPID are numbers.",
			"Stream":   "Stream is stdout or stderr.",
			"Bare":     "absolute path",
		}},
	}
	wire := map[string]string{"Name": "name", "SessionID": "session_id", "PID": "pid", "PPID": "ppid", "Login": "login", "RC": "rc"}
	for field, want := range map[string]string{
		"Name":     "A handle. It may be used for a session_id.",
		"TimeoutS": "Bounds the command. name is not asked.",
		"Login":    "Starts one.",
		"RC":       "Reads files. Neither is done.",
		"PID":      "pid and ppid are numbers.",
		"PPID":     "pid and ppid are numbers.",
		"Stream":   "stdout or stderr.",
		"Bare":     "absolute path",
	} {
		if got := s.fieldDoc("T", field, wire); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}

// TestSurfaceOnlyGrows: removing a released line is an error.
func TestSurfaceOnlyGrows(t *testing.T) {
	c := testContract(t)
	now, err := writeSurface(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(now), "\n")
	fewer := strings.Join(slices.Concat(lines[:10], lines[11:]), "")
	if again, err := writeSurface(c, []byte(fewer)); err != nil || string(again) != string(now) {
		t.Errorf("a new line is not added: %v", err)
	}
	for _, gone := range []string{"field ExecParams.command integer", "method exec.fork ExecParams ExecInfo", "word ExecState paused"} {
		if _, err := writeSurface(c, append(now, gone+"\n"...)); err == nil || !strings.Contains(err.Error(), "\n  "+gone) {
			t.Errorf("%q: gone, and nobody says so: %v", gone, err)
		}
	}
}

// document is a generated JSON file.
func document(t *testing.T, write func(*contract) ([]byte, error)) map[string]any {
	t.Helper()
	text, err := write(testContract(t))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// at follows a path of keys, and returns nil if it does not exist.
func at(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

// checkRefs follows every reference of a document.
func checkRefs(t *testing.T, doc map[string]any) {
	t.Helper()
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				if path, ok := strings.CutPrefix(ref, "#/"); !ok || at(doc, strings.Split(path, "/")...) == nil {
					t.Errorf("%s: leads nowhere", ref)
				}
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(doc)
}

func TestSchemaIsComplete(t *testing.T) {
	doc := document(t, writeSchema)
	checkRefs(t, doc)
	for _, m := range api.Methods() {
		for part, want := range map[string]string{"params": m.Params.Name(), "result": m.Result.Name()} {
			if got := at(doc, "x-methods", m.Name, part, "$ref"); got != "#/$defs/"+want {
				t.Errorf("%s: %s: %v", m.Name, part, got)
			}
		}
	}
	for _, name := range []string{"StreamEvent", "Error", "SessionState", "EventType"} {
		if at(doc, "$defs", name) == nil {
			t.Errorf("no %s", name)
		}
	}
	// One example of each kind.
	for path, want := range map[string]string{
		"ExecParams/properties/timeout_s/type":        "number",
		"ExecParams/properties/max_output_bytes/type": "integer",
		"ExecInfo/properties/queued_at/format":        "date-time",
		"ExecInfo/properties/state/$ref":              "#/$defs/ExecState",
		"SessionInfo/properties/tags/type":            "array",
	} {
		if got := at(doc["$defs"], strings.Split(path, "/")...); got != want {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
	if at(doc, "$defs", "ExecParams", "additionalProperties") != false || at(doc, "$defs", "ExecInfo", "additionalProperties") != nil {
		t.Error("parameters of strict methods refuse what is unknown, results do not")
	}
}

func TestOpenAPIIsComplete(t *testing.T) {
	doc := document(t, writeOpenAPI)
	checkRefs(t, doc)
	if doc["openapi"] != "3.1.0" || at(doc, "info", "title") == nil || at(doc, "info", "version") == nil {
		t.Error("no head")
	}
	for _, m := range api.Methods() {
		post := at(doc, "paths", "/v1/"+m.Name, "post")
		if m.Access == api.AccessLocal {
			if post != nil {
				t.Errorf("%s: has a path, although HTTP refuses it", m.Name)
			}
			continue
		}
		if at(post, "requestBody", "content", "application/json", "schema", "$ref") != "#/components/schemas/"+m.Params.Name() {
			t.Errorf("%s: no body", m.Name)
		}
		answer := at(post, "responses", "200", "content")
		if kind := map[bool]string{false: "application/json", true: "application/x-ndjson"}[m.Streams]; at(answer, kind) == nil {
			t.Errorf("%s: no answer in %s", m.Name, kind)
		}
		if m.Streams && at(answer, "text/event-stream") == nil {
			t.Errorf("%s: no server-sent events", m.Name)
		}
	}
	ids := map[any]bool{}
	for path, item := range doc["paths"].(map[string]any) {
		for verb, op := range item.(map[string]any) {
			if id := at(op, "operationId"); id == nil || ids[id] {
				t.Errorf("%s %s: operationId %v: none, or twice", verb, path, id)
			} else {
				ids[id] = true
			}
			for status, r := range at(op, "responses").(map[string]any) {
				if at(r, "description") == nil && at(r, "$ref") == nil {
					t.Errorf("%s %s: %s: no description", verb, path, status)
				}
			}
			if at(op, "security") == nil && at(op, "responses", "4XX") == nil {
				t.Errorf("%s %s: needs a token and tells of no error", verb, path)
			}
			params, _ := at(op, "parameters").([]any)
			inPath := slices.ContainsFunc(params, func(p any) bool { return at(p, "in") == "path" && at(p, "required") == true })
			if inPath != strings.Contains(path, "{") {
				t.Errorf("%s %s: the parameter in the path", verb, path)
			}
		}
	}
}

// TestDeprecations: every deprecation names a field and methods that exist, and reaches every
// generated file.
func TestDeprecations(t *testing.T) {
	c := testContract(t)
	var page, typeScript, python []byte
	for to, write := range map[*[]byte]func(*contract) ([]byte, error){&page: writePage, &typeScript: writeTypeScript, &python: writePython} {
		var err error
		if *to, err = write(c); err != nil {
			t.Fatal(err)
		}
	}
	openAPI := document(t, writeOpenAPI)
	for _, d := range api.Deprecations {
		typeName, name, _ := strings.Cut(d.Field, ".")
		i := slices.IndexFunc(c.objects, func(o *object) bool { return o.name == typeName })
		if i < 0 || !slices.ContainsFunc(c.objects[i].allFields(), func(f field) bool { return f.name == name }) {
			t.Errorf("%s: there is no such field", d.Field)
			continue
		}
		for _, m := range d.Methods {
			if _, ok := api.FindMethod(m); !ok {
				t.Errorf("%s: there is no method %s", d.Field, m)
			}
		}
		if row := "| `" + d.Use + "` | " + d.Since + " | " + d.Removed + " |"; !strings.Contains(string(page), row) {
			t.Errorf("%s: docs/api.md does not list it", d.Field)
		}
		if d.Value != "" {
			continue
		}
		if at(openAPI, "components", "schemas", typeName, "properties", name, "deprecated") != true {
			t.Errorf("%s: OpenAPI does not mark it", d.Field)
		}
		if !strings.Contains(string(typeScript), "@deprecated Use "+d.Use) || !strings.Contains(string(python), "Deprecated: use "+d.Use) {
			t.Errorf("%s: the SDKs do not mark it", d.Field)
		}
	}
	if _, _, err := deprecation("ExecWaitParams", "any", "Waits. Deprecated: use all."); err == nil {
		t.Error("a comment deprecates a field that api.Deprecations does not list")
	}
	if _, _, err := deprecation("ExecWaitParams", "timeout_ms", "Limits the wait."); err == nil {
		t.Error("api.Deprecations lists a field whose comment does not say so")
	}
}

func TestWrapProse(t *testing.T) {
	long := strings.Repeat("word ", 30)
	text := "# " + long + "\n\n" + long + "\nmore\n- " + long + "\n  more\n- short\n\n| " + long + "|\n\n```text\n" + long + "\n\n- " + long + "\n```\nend"
	short := strings.TrimSpace(strings.Repeat("word ", 20)) // 99 letters
	item := "- " + strings.TrimSpace(strings.Repeat("word ", 19))
	want := "# " + long + "\n\n" + short + "\n" + strings.Repeat("word ", 10) + "more\n" + item + "\n  " + strings.Repeat("word ", 11) + "more\n- short\n\n| " +
		long + "|\n\n```text\n" + long + "\n\n- " + long + "\n```\nend"
	if got := wrapProse(text); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPythonVersion(t *testing.T) {
	for v, want := range map[string]string{"0.1.0": "0.1.0", "0.1.0-dev": "0.1.0.dev0", "0.1.0-rc.1": "0.1.0rc1", "1.2.3-beta": "1.2.3beta0"} {
		if got := pythonVersion(v); got != want {
			t.Errorf("pythonVersion(%q) = %q, want %q", v, got, want)
		}
	}
}
