package runtimes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes"
)

func TestList(t *testing.T) {
	here := []api.PlaceKind{api.PlaceHost, api.PlaceDocker}
	sessions := []string{"host", "build", "docker:alpine", "docker:rust", "ssh:far", "removed"}
	for _, c := range []struct {
		change func(*runtimes.Config)
		want   string // of each row: name, whether usable, sessions, options; a kind's options are +
	}{
		{nil, "bare true 0 image; build true 1 image,user; far false 0 ; host true 1 ; docker true 2 +; ssh false 1 +"},
		{func(c *runtimes.Config) { c.Adhoc = false }, "bare true 0 image; build true 1 image,user; far false 0 ; host true 1 ; docker false 2 ; ssh false 1 "},
		{func(c *runtimes.Config) { c.Kinds = []api.PlaceKind{api.PlaceDocker} }, "bare true 0 image; build true 1 image,user; far false 0 ; host false 1 ; docker true 2 +; ssh false 1 +"},
	} {
		r := table(c.change).List(here, sessions)
		var rows []string
		for _, row := range r.Runtimes {
			if !row.Configured && !slices.Contains([]api.PlaceKind{api.PlaceHost, api.PlaceDocker, api.PlaceSSH}, row.Kind) {
				continue
			}
			options := strings.Join(row.Options, ",")
			if !row.Configured && options != "" {
				options = "+"
			}
			if row.Usable != (row.Why == "") || row.Options == nil {
				t.Errorf("%+v", row)
			}
			rows = append(rows, fmt.Sprint(row.Runtime, " ", row.Usable, " ", row.Sessions, " ", options))
		}
		if got := strings.Join(rows, "; "); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
