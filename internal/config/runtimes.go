package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/near"
)

// Runtime is a place of the configuration: a table [runtimes.NAME] of the file.
type Runtime struct {
	Kind    api.PlaceKind
	Options api.PlaceOptions
	// Allow are the options that callers may override.
	Allow []string
}

// keyRuntimes is the table of the file with the places.
const keyRuntimes = "runtimes"

// reservedPlaces cannot be names of places, because they already mean something.
func reservedPlaces() []string {
	words := []string{"remote"} // of dialogue.create
	for _, k := range api.PlaceKinds() {
		words = append(words, string(k.Kind))
		if k.Short != "" {
			words = append(words, k.Short)
		}
	}
	return words
}

// applyRuntimes reads the places of the file.
func (c *Config) applyRuntimes(value any, origin string) error {
	c.Runtimes = map[string]Runtime{}
	return c.eachTable(keyRuntimes, value, origin, func(name, key string, table map[string]any) (err error) {
		if slices.Contains(reservedPlaces(), name) {
			return fmt.Errorf("%s: %s already is a kind of place; choose another name", key, name)
		}
		c.Runtimes[name], err = readRuntime(key, table)
		return err
	})
}

// eachTable calls read with each table [group.NAME] of the file, sorted by name, and records the origin
// of its key group.NAME. It adds the origin to errors.
func (c *Config) eachTable(group string, value any, origin string, read func(name, key string, table map[string]any) error) error {
	tables, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: must be tables such as [%s.build] (%s)", group, group, origin)
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		key := group + "." + name
		table, ok := tables[name].(map[string]any)
		switch {
		case !ok:
			return fmt.Errorf("%s: must be a table (%s)", key, origin)
		case !validTableName(name):
			return fmt.Errorf("%s: the name must be 1 to 64 of A-Z a-z 0-9 . _ - (%s)", key, origin)
		}
		if err := read(name, key, table); err != nil {
			return fmt.Errorf("%w (%s)", err, origin)
		}
		c.origins[key] = origin
	}
	return nil
}

func validTableName(name string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	return name != "" && len(name) <= 64 && strings.Trim(name, letters) == "" && name[0] != '-'
}

// readRuntime reads one table, which key names in errors.
func readRuntime(key string, table map[string]any) (Runtime, error) {
	var r Runtime
	word, ok := table["kind"].(string)
	if !ok {
		return r, fmt.Errorf("%s.kind: is required: %s", key, kindNames())
	}
	kind, ok := api.FindPlaceKind(word)
	if !ok {
		return r, fmt.Errorf("%s.kind: %q is not one of %s", key, word, kindNames())
	}
	r.Kind = kind.Kind
	options := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		switch {
		case name == "kind":
		case name == "allow":
			allow, ok := texts(table[name])
			if !ok {
				return r, fmt.Errorf("%s.allow: must be a list of options", key)
			}
			for _, option := range allow {
				if !kind.Knows(option) {
					return r, fmt.Errorf("%s.allow: %s", key, unknownOption(option, kind, false))
				}
			}
			r.Allow = allow
		case !kind.Knows(name):
			return r, fmt.Errorf("%s.%s: %s", key, name, unknownOption(name, kind, true))
		default:
			if !hasForm(table[name], name) {
				return r, fmt.Errorf("%s.%s: must be %s", key, name, formOf(name))
			}
			options[name] = table[name]
		}
	}
	text, err := json.Marshal(options)
	if err == nil {
		err = json.Unmarshal(text, &r.Options)
	}
	if err == nil {
		err = r.Options.Check(r.Kind)
	}
	if err != nil {
		return r, fmt.Errorf("%s.%s", key, strings.TrimPrefix(err.Error(), "params.place."))
	}
	return r, nil
}

func kindNames() string {
	var names []string
	for _, k := range api.PlaceKinds() {
		names = append(names, string(k.Kind))
	}
	return strings.Join(names, ", ")
}

// unknownOption says that a kind does not know an option, and which one was probably meant.
func unknownOption(name string, kind api.PlaceKindInfo, keys bool) string {
	words := kind.All()
	if keys {
		words = append(words, "kind", "allow")
	}
	if meant := near.Word(name, words, len(name)/3+1); meant != "" {
		return fmt.Sprintf("unknown option %.60q; did you mean %s?", name, meant)
	}
	return fmt.Sprintf("a place of kind %s does not know the option %.60q", kind.Kind, name)
}

// optionType returns the type of an option.
func optionType(name string) reflect.Type {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[api.PlaceOptions]()) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f.Type
		}
	}
	return nil
}

// hasForm reports whether a value of the file is of the type of an option.
func hasForm(v any, option string) bool {
	switch optionType(option).Kind() {
	case reflect.Slice:
		_, ok := texts(v)
		return ok
	case reflect.Map:
		table, ok := v.(map[string]any)
		for _, value := range table {
			_, text := value.(string)
			ok = ok && text
		}
		return ok
	case reflect.Pointer:
		_, ok := v.(bool)
		return ok
	case reflect.Float64:
		switch v.(type) {
		case int64, float64:
			return true
		}
		return false
	}
	_, ok := v.(string)
	return ok
}

func formOf(option string) string {
	switch optionType(option).Kind() {
	case reflect.Slice:
		return "a list of strings"
	case reflect.Map:
		return "a table of strings"
	case reflect.Pointer:
		return "true or false"
	case reflect.Float64:
		return "a number"
	}
	return "a string"
}

func texts(v any) ([]string, bool) {
	list, ok := v.([]any)
	texts := make([]string, len(list))
	for i, item := range list {
		text, isText := item.(string)
		texts[i], ok = text, ok && isText
	}
	return texts, ok
}

// checkRuntimes looks at the settings of places together.
func (c *Config) checkRuntimes() error {
	for _, word := range Words(c.RuntimeKinds) {
		if k, ok := api.FindPlaceKind(word); !ok || string(k.Kind) != word {
			return fmt.Errorf("runtime_kinds: %q is not one of %s (%s)", word, kindNames(), c.Origin("runtime_kinds"))
		}
	}
	if _, named := c.Runtimes[c.DefaultRuntime]; named {
		return nil
	}
	if _, _, err := api.ParsePlace(c.DefaultRuntime); err != nil {
		return fmt.Errorf("default_runtime: %s (%s)", strings.TrimPrefix(err.Error(), "params.runtime: "), c.Origin("default_runtime"))
	}
	return nil
}

// runtimeEntries returns the places as settings, for Entries.
func (c Config) runtimeEntries() []Entry {
	var list []Entry
	for _, name := range slices.Sorted(maps.Keys(c.Runtimes)) {
		r, key := c.Runtimes[name], keyRuntimes+"."+name
		add := func(option string, value any, doc string) {
			list = append(list, Entry{Key: key + "." + option, Value: value, Origin: c.origins[key], Doc: doc})
		}
		add("kind", string(r.Kind), "kind of the place")
		var values map[string]any
		if text, err := json.Marshal(r.Options); err == nil {
			_ = json.Unmarshal(text, &values)
		}
		for _, option := range r.Options.Set() {
			add(option, values[option], "option of the place")
		}
		if len(r.Allow) > 0 {
			add("allow", r.Allow, "options that callers may override")
		}
	}
	return list
}
