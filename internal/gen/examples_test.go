package main

import (
	"bufio"
	"encoding/json"
	"math"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

// story plays the examples with a daemon.
type story struct {
	*testing.T
	socket string
	ids    map[string]string // id in the documents → id that the daemon returned
}

// conn is a separate connection for one example.
type conn struct {
	*story
	net.Conn
	lines *bufio.Reader
}

func (s *story) dial() *conn {
	s.Helper()
	c, err := net.Dial("unix", s.socket)
	if err != nil {
		s.Fatal(err)
	}
	// No call takes long, and a daemon that does not answer must not hang the test.
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &conn{story: s, Conn: c, lines: bufio.NewReader(c)}
}

func (c *conn) send(line string) {
	c.Helper()
	for shown, real := range c.ids {
		line = strings.ReplaceAll(line, `"`+shown+`"`, `"`+real+`"`)
	}
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		c.Fatal(err)
	}
}

func (c *conn) receive() string {
	c.Helper()
	line, err := c.lines.ReadString('\n')
	if err != nil {
		c.Fatalf("no answer: %s", err)
	}
	return strings.TrimSuffix(line, "\n")
}

var shownID = regexp.MustCompile(`"([sxd]-[0-9a-f]{10}(-[0-9]+)?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"`)

// expect compares a line with the line in the documents.
func (s *story) expect(shown, line string) {
	s.Helper()
	if !s.match(shown, line) {
		s.Errorf("the documents show\n  %s\nthe daemon sent\n  %s", shown, line)
	}
}

// match reports whether a line matches the one in the documents, and learns ids from it.
func (s *story) match(shown, line string) bool {
	var learn []string
	var pattern strings.Builder
	for i, part := range strings.Split(shown, "…") {
		if i > 0 {
			pattern.WriteString(".*")
		}
		from := 0
		for _, m := range shownID.FindAllStringIndex(part, -1) {
			pattern.WriteString(regexp.QuoteMeta(part[from:m[0]]))
			id := strings.Trim(part[m[0]:m[1]], `"`)
			if real, known := s.ids[id]; known {
				pattern.WriteString(`"` + regexp.QuoteMeta(real) + `"`)
			} else {
				pattern.WriteString(`"([sxd]?[0-9a-f-]+)"`)
				learn = append(learn, id)
			}
			from = m[1]
		}
		pattern.WriteString(regexp.QuoteMeta(part[from:]))
	}
	m := regexp.MustCompile(`^` + pattern.String() + `$`).FindStringSubmatch(line)
	if m == nil {
		return false
	}
	for i, id := range learn {
		s.ids[id] = m[i+1]
	}
	return true
}

// withoutExample are the methods that cannot be played together with others.
var withoutExample = map[string]bool{"system.upgrade": true, "guest.connect": true, "guest.send": true}

// TestExamplesAreTrue plays every example with a real daemon, in order, and checks that answers and
// pushes have the documented fields and types.
func TestExamplesAreTrue(t *testing.T) {
	c := testContract(t)
	for _, m := range api.Methods() {
		if (len(examplesOf(m.Name)) == 0) != withoutExample[m.Name] {
			t.Errorf("%s: has no example, or needs none", m.Name)
		}
	}
	s := &story{T: t, socket: trltest.Start(t, trltest.Env("PATH="+trltest.AgentPath(t))).Socket, ids: map[string]string{}}
	conn := s.dial()
	defer conn.Close()
	for line := range strings.Lines(firstLines) {
		line = strings.TrimSpace(line)
		if request, ok := strings.CutPrefix(line, "→ "); ok {
			conn.send(request)
		} else {
			s.expect(strings.TrimPrefix(line, "← "), conn.receive())
		}
	}
	for _, ex := range examples {
		s.play(c, ex)
	}
}

// await follows the dialogue until a push matches the shown one.
func (s *story) await(shown string) {
	s.Helper()
	conn := s.dial()
	defer conn.Close()
	conn.send(`{"id":"1","method":"dialogue.events","params":{"dialogue_id":"review"}}`)
	for !s.match(shown, conn.receive()) {
	}
}

func (s *story) play(c *contract, ex example) {
	s.Helper()
	conn := s.dial()
	defer conn.Close()
	for i := 0; i < len(ex.before); i += 2 {
		conn.send(`{"id":"1","method":"` + ex.before[i] + `","params":` + ex.before[i+1] + `}`)
		if line := conn.receive(); !strings.Contains(line, `"ok":true`) {
			s.Errorf("%s: before it: %s", ex.method, line)
		}
	}
	if ex.until != "" {
		s.await(ex.until)
	}
	m, _ := api.FindMethod(ex.method)
	conn.send(ex.request())
	for i, shown := range ex.answers() {
		line := conn.receive()
		s.expect(shown, line)
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			s.Fatalf("%s: %s", ex.method, err)
		}
		if i == 0 {
			s.conforms(ex.method, got["data"], kind{word: "object", object: c.byType[m.Result]})
		} else {
			s.conforms(ex.method+" push", got, kind{word: "object", object: c.byType[reflect.TypeFor[api.StreamEvent]()]})
		}
	}
}

// conforms compares a value with its documented type.
func (s *story) conforms(where string, v any, k kind) {
	s.Helper()
	ok := true
	switch k.word {
	case "string", "enum", "time":
		_, ok = v.(string)
	case "boolean":
		_, ok = v.(bool)
	case "number", "integer":
		var f float64
		f, ok = v.(float64)
		ok = ok && (k.word == "number" || f == math.Trunc(f))
	}
	switch text, _ := v.(string); {
	case k.word == "enum":
		ok = ok && slices.Contains(k.enum.values, text)
	case k.word == "time":
		_, err := time.Parse(time.RFC3339, text)
		ok = ok && err == nil && strings.HasSuffix(text, "Z")
	case k.word == "list":
		var list []any
		list, ok = v.([]any)
		for _, x := range list {
			s.conforms(where+"[]", x, *k.elem)
		}
	case k.word == "map":
		var m map[string]any
		m, ok = v.(map[string]any)
		for key, x := range m {
			s.conforms(where+"."+key, x, *k.elem)
		}
	case k.word == "object":
		var m map[string]any
		if m, ok = v.(map[string]any); ok {
			s.hasFields(where, m, k.object)
		}
	}
	if !ok {
		s.Errorf("%s: %v: is not a %s", where, v, k.words())
	}
}

func (s *story) hasFields(where string, m map[string]any, o *object) {
	s.Helper()
	known := map[string]bool{}
	for _, f := range o.allFields() {
		known[f.name] = true
		if v, ok := m[f.name]; ok {
			s.conforms(where+"."+f.name, v, f.typ)
		} else if !f.optional {
			s.Errorf("%s: has no %s", where, f.name)
		}
	}
	for name := range m {
		if !known[name] {
			s.Errorf("%s: %s: is not documented", where, name)
		}
	}
}

// TestRequiredParametersAre omits each required parameter, one at a time.
func TestRequiredParametersAre(t *testing.T) {
	c := testContract(t)
	s := &story{T: t, socket: trltest.Start(t).Socket}
	conn := s.dial()
	defer conn.Close()
	for _, ex := range examples {
		m, _ := api.FindMethod(ex.method)
		params := c.byType[m.Params]
		var without [][]string
		for _, f := range params.allFields() {
			if !f.optional {
				without = append(without, []string{f.name})
			}
		}
		if len(params.oneOf) > 0 {
			without = append(without, slices.Concat(params.oneOf...))
		}
		for _, names := range without {
			var given map[string]any
			if err := json.Unmarshal([]byte(ex.params), &given); err != nil {
				t.Fatalf("%s: %s", ex.method, err)
			}
			for _, name := range names {
				delete(given, name)
			}
			text, _ := json.Marshal(given)
			conn.send(`{"id":"1","method":"` + ex.method + `","params":` + string(text) + `}`)
			if line := conn.receive(); !strings.Contains(line, `"code":"INVALID_PARAMS"`) {
				t.Errorf("%s without %s: %s", ex.method, names, line)
			}
		}
	}
}
