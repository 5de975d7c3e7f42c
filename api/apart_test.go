package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestApartIsTheSame: a type that marshals itself has the JSON of its fields, and its caller decides
// about HTML.
func TestApartIsTheSame(t *testing.T) {
	pids := int64(3)
	p := SessionCreateParams{
		Isolation: &Isolation{Readable: []string{"/a&b"}}, Limits: &Limits{Pids: &pids}, Place: &PlaceOptions{Image: "a"},
	}
	want := `"limits":{"pids":3}`
	for _, escape := range []bool{true, false} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(escape)
		if err := e.Encode(p); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if escaped := strings.Contains(text, `"/a\u0026b"`); escaped != escape || !escape && !strings.Contains(text, `"/a&b"`) {
			t.Errorf("escape %v: %s", escape, text)
		}
		if !strings.Contains(text, want) || !strings.Contains(text, `"image":"a"`) {
			t.Errorf("%s: %s is missing", text, want)
		}
	}
}
