package daemon

import (
	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/runtimes"
	"github.com/trl-dev/trl/internal/session"
)

// openRuntimes makes the runtimes and the table of places. It contacts no engine and no machine.
func (d *daemon) openRuntimes() {
	d.runtimes = []session.Runtime{d.runtime}
	d.places = newPlaces(d.config)
}

func newPlaces(c config.Config) *runtimes.Table {
	table := runtimes.Config{Named: map[string]runtimes.Named{}, Default: c.DefaultRuntime, Adhoc: c.AdhocPlaces}
	for name, r := range c.Runtimes {
		table.Named[name] = runtimes.Named(r)
	}
	for _, kind := range config.Words(c.RuntimeKinds) {
		table.Kinds = append(table.Kinds, api.PlaceKind(kind))
	}
	return runtimes.New(table)
}
