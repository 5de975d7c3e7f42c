package server

import (
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/near"
)

// unknownMethod names the unknown method and, if one is similar, the method that the caller
// probably meant.
func unknownMethod(name string) *api.Error {
	shown := name
	if len(shown) > 64 {
		shown = strings.ToValidUTF8(shown[:64], "") + "…"
	}
	meant := nearest(name)
	if meant == "" {
		return api.Errorf(api.CodeMethodNotFound, "method %q: not found; system.info lists the methods", shown)
	}
	e := api.Errorf(api.CodeMethodNotFound, "method %q: not found; did you mean %q?", shown, meant)
	e.Details = map[string]any{"suggestion": meant}
	return e
}

// nearest returns the method whose name is most like the given one, or "".
func nearest(name string) string {
	if len(name) > 64 {
		return ""
	}
	// Callers used to other JSON-RPC services try other separators and letter cases.
	name = strings.NewReplacer("/", ".", "_", ".", ":", ".").Replace(strings.ToLower(name))
	var names []string
	for _, m := range api.Methods() {
		names = append(names, m.Name)
	}
	if best := near.Word(name, names, 3); best != "" || name == "" {
		return best
	}
	for _, m := range api.Methods() { // the verb alone
		if _, verb, _ := strings.Cut(m.Name, "."); verb == name {
			return m.Name
		}
	}
	return ""
}
