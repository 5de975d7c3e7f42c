package server

import (
	"strings"

	"github.com/trl-dev/trl/api"
)

// unknownMethod names what was asked for and, if one is near, what was perhaps meant.
func unknownMethod(name string) *api.Error {
	shown := name
	if len(shown) > 64 {
		shown = strings.ToValidUTF8(shown[:64], "") + "…"
	}
	near := nearest(name)
	if near == "" {
		return api.Errorf(api.CodeMethodNotFound, "method %q: not found; system.info lists the methods", shown)
	}
	e := api.Errorf(api.CodeMethodNotFound, "method %q: not found; did you mean %q?", shown, near)
	e.Details = map[string]any{"suggestion": near}
	return e
}

// nearest returns the method whose name is most like the given one, or "".
func nearest(name string) string {
	if len(name) > 64 {
		return ""
	}
	// Those who know JSON-RPC try other separators and cases first.
	name = strings.NewReplacer("/", ".", "_", ".", ":", ".").Replace(strings.ToLower(name))
	best, least := "", 4
	for _, m := range api.Methods() {
		if d := distance(name, m.Name); d < least {
			best, least = m.Name, d
		}
	}
	if best != "" || name == "" {
		return best
	}
	for _, m := range api.Methods() { // the verb alone
		if _, verb, _ := strings.Cut(m.Name, "."); verb == name {
			return m.Name
		}
	}
	return ""
}

// distance counts the letters to insert, delete or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal = row[j+1]
			row[j+1] = cost
		}
	}
	return row[len(b)]
}
