package runner

import (
	"slices"
	"testing"

	"github.com/trl-dev/trl/internal/link"
)

// TestEveryCallHasARoute compares the table of calls with what a runner answers. Hello is
// answered by the connection.
func TestEveryCallHasARoute(t *testing.T) {
	var rows, routes []string
	for _, row := range link.Calls() {
		if row.Name != link.Hello.Name {
			rows = append(rows, row.Name)
		}
	}
	for _, route := range (&Runner{}).routes() {
		routes = append(routes, route.Name)
	}
	slices.Sort(rows)
	slices.Sort(routes)
	if !slices.Equal(rows, routes) {
		t.Errorf("calls: %q\nroutes: %q", rows, routes)
	}
}
