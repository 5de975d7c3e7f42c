// Package runtimes finds out which place a word means: a name from the configuration, a kind, or
// KIND:ARGUMENT. It also says what the configuration allows callers to choose.
package runtimes

import (
	"maps"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/near"
	"github.com/trl-dev/trl/internal/session"
)

// Config says which places there are.
type Config struct {
	// Named are the places of the configuration, by name. Their options are valid.
	Named map[string]Named
	// Default is the word of sessions that name no place.
	Default string
	// Adhoc allows KIND:ARGUMENT, and options of the caller for a kind.
	Adhoc bool
	// Kinds are the kinds that may be used; nil for all.
	Kinds []api.PlaceKind
}

// Named is a place of the configuration.
type Named struct {
	Kind    api.PlaceKind
	Options api.PlaceOptions
	// Allow are the options that callers may override.
	Allow []string
}

// Table resolves words. It does not change and is safe for concurrent use.
type Table struct{ config Config }

// New makes a Table.
func New(c Config) *Table { return &Table{c} }

// Permits reports whether the configuration permits places of a kind.
func (t *Table) Permits(kind api.PlaceKind) bool {
	return t.config.Kinds == nil || slices.Contains(t.config.Kinds, kind)
}

// names returns the names of the configuration, sorted.
func (t *Table) names() []string { return slices.Sorted(maps.Keys(t.config.Named)) }

// Resolve returns the place that a word means, or the default if it is empty. The options are those
// of the caller, and may be nil.
func (t *Table) Resolve(word string, options *api.PlaceOptions) (session.Target, error) {
	if word == "" {
		word = t.config.Default
	}
	var over api.PlaceOptions
	if options != nil {
		over = *options
	}
	if named, ok := t.config.Named[word]; ok {
		return t.resolveNamed(word, named, over)
	}
	kind, fixed, err := api.ParsePlace(word)
	if err != nil {
		return session.Target{}, t.unknown(word, err)
	}
	switch {
	case !t.Permits(kind.Kind):
		return session.Target{}, t.forbidden("runtime", "runtime %s: the configuration forbids places of kind %s (runtime_kinds)", word, kind.Kind)
	case !t.config.Adhoc && strings.Contains(word, ":"):
		return session.Target{}, t.forbidden("runtime", "runtime %s: the configuration allows only the places that it names (adhoc_places)%s", word, t.choices())
	}
	for _, option := range over.Set() {
		if slices.Contains(fixed.Set(), option) {
			return session.Target{}, api.InvalidParam("place."+option, "is already set by the runtime %.100q", word)
		}
		if !t.config.Adhoc && kind.Knows(option) {
			return session.Target{}, t.forbidden("place."+option, "place.%s: the configuration does not allow callers to set it (adhoc_places)", option)
		}
	}
	return complete(session.Target{Word: word, Kind: kind.Kind, Options: fixed}, over)
}

func (t *Table) resolveNamed(word string, named Named, over api.PlaceOptions) (session.Target, error) {
	if !t.Permits(named.Kind) {
		return session.Target{}, t.forbidden("runtime", "runtime %s: the configuration forbids places of kind %s (runtime_kinds)", word, named.Kind)
	}
	kind, _ := api.FindPlaceKind(string(named.Kind))
	for _, option := range over.Set() {
		if kind.Knows(option) && !slices.Contains(named.Allow, option) {
			allowed := "none"
			if len(named.Allow) > 0 {
				allowed = strings.Join(named.Allow, ", ")
			}
			return session.Target{}, t.forbidden("place."+option, "place.%s: the configuration of runtime %s does not allow callers to set it; it allows: %s", option, word, allowed)
		}
	}
	return complete(session.Target{Word: word, Kind: named.Kind, Options: named.Options}, over)
}

// complete adds the options of the caller, and makes sure that the place has the option without
// which there is none.
func complete(target session.Target, over api.PlaceOptions) (session.Target, error) {
	if err := over.Check(target.Kind); err != nil {
		return session.Target{}, err
	}
	target.Options = target.Options.With(over)
	kind, _ := api.FindPlaceKind(string(target.Kind))
	if len(kind.Sets) > 0 && !slices.Contains(target.Options.Set(), kind.Sets[0]) && !(target.Kind == api.PlaceKubernetes && (target.Options.PodTemplate != "" || target.Options.ClaimPool != "")) {
		return session.Target{}, api.InvalidParam("runtime", "%.100q: needs the option %s; write %s:%s", target.Word, kind.Sets[0], kind.Kind, kind.Argument)
	}
	return target, nil
}

// unknown adds to the error about a word what the caller may have meant.
func (t *Table) unknown(word string, err error) error {
	name, _, adhoc := strings.Cut(word, ":")
	if _, ok := api.FindPlaceKind(name); ok || len(word) > 100 || api.CheckPlaceWord(word) != nil {
		return err
	}
	if _, ok := t.config.Named[name]; ok {
		return api.InvalidParam("runtime", "%q: %s is a name from the configuration and takes no argument", word, name)
	}
	var words []string
	if !adhoc {
		words = t.names()
	}
	for _, k := range api.PlaceKinds() {
		words = append(words, string(k.Kind))
	}
	if meant := near.Word(name, words, len(name)/3+1); meant != "" {
		return api.InvalidParam("runtime", "there is no place %q; did you mean %s?", word, meant)
	}
	return api.InvalidParam("runtime", "there is no place %q; runtime.list lists the places", word)
}

func (t *Table) choices() string {
	if names := t.names(); len(names) > 0 {
		return ": " + strings.Join(names, ", ")
	}
	return ""
}

func (t *Table) forbidden(field, format string, args ...any) error {
	e := api.Errorf(api.CodeForbidden, format, args...)
	e.Details = map[string]any{"field": field}
	return e
}
