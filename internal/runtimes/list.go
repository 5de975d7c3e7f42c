package runtimes

import (
	"slices"

	"github.com/trl-dev/trl/api"
)

// List describes the places: the names of the configuration, then the kinds. available are the kinds
// in which this daemon can create sessions, and sessions has the word of each live session's place.
func (t *Table) List(available []api.PlaceKind, sessions []string) api.RuntimeListResult {
	result := api.RuntimeListResult{Runtimes: []api.RuntimeInfo{}, Default: t.config.Default, Adhoc: t.config.Adhoc}
	for _, name := range t.names() {
		named := t.config.Named[name]
		row := t.describe(name, named.Kind, available)
		row.Configured, row.Options = true, append(row.Options, named.Allow...)
		result.Runtimes = append(result.Runtimes, row)
	}
	for _, kind := range api.PlaceKinds() {
		row := t.describe(string(kind.Kind), kind.Kind, available)
		row.Argument = kind.Argument
		switch {
		case t.config.Adhoc:
			row.Options = append(row.Options, kind.Options...)
		case kind.Argument != "" && row.Usable:
			row.Usable, row.Why = false, "the configuration allows only the places that it names (adhoc_places)"
		}
		result.Runtimes = append(result.Runtimes, row)
	}
	for _, word := range sessions {
		if row := rowOf(result.Runtimes, word); row != nil {
			row.Sessions++
		}
	}
	return result
}

// describe says whether sessions can be created in a place.
func (t *Table) describe(word string, kind api.PlaceKind, available []api.PlaceKind) api.RuntimeInfo {
	row := api.RuntimeInfo{Runtime: word, Kind: kind, Options: []string{}}
	switch {
	case !t.Permits(kind):
		row.Why = "the configuration forbids places of kind " + string(kind) + " (runtime_kinds)"
	case !slices.Contains(available, kind):
		row.Why = "this daemon cannot create sessions in places of this kind"
	default:
		row.Usable = true
	}
	return row
}

// rowOf finds the row that counts the sessions of a place: the row of its name, or else that of its
// kind. It returns nil for a name that the configuration no longer has.
func rowOf(rows []api.RuntimeInfo, word string) *api.RuntimeInfo {
	find := func(word string) int {
		return slices.IndexFunc(rows, func(r api.RuntimeInfo) bool { return r.Runtime == word })
	}
	i := find(word)
	if i < 0 {
		if kind, _, err := api.ParsePlace(word); err == nil {
			i = find(string(kind.Kind))
		}
	}
	if i < 0 {
		return nil
	}
	return &rows[i]
}
