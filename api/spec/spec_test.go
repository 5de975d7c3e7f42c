package spec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/api/spec"
)

func TestHelpHasEveryMethod(t *testing.T) {
	for _, m := range api.Methods() {
		text := spec.Help(m.Name)
		if !strings.HasPrefix(text, m.Summary+"\n") || !strings.Contains(text, "\nAnswer:\n") || strings.Contains(text, "==") {
			t.Errorf("%s: %q", m.Name, text)
		}
	}
	for _, name := range []string{"", "nosuch", "exec", "exec.run\nRun"} {
		if text := spec.Help(name); text != "" {
			t.Errorf("%q: %q", name, text)
		}
	}
	if !strings.Contains(spec.Help("exec.run"), "\n  timeout_s (number)\n") {
		t.Error("exec.run: no timeout_s")
	}
}

func TestFilesAreJSON(t *testing.T) {
	for name, file := range map[string][]byte{"openapi.json": spec.OpenAPI, "schema.json": spec.Schema} {
		if !json.Valid(file) {
			t.Errorf("%s: is not JSON", name)
		}
	}
}
