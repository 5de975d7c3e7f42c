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

// keyIsolation is the table of the file with the profiles of isolation.
const keyIsolation = "isolation"

// applyIsolation reads the profiles of the file.
func (c *Config) applyIsolation(value any, origin string) error {
	profiles, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: must be tables such as [isolation.build] (%s)", keyIsolation, origin)
	}
	c.Isolation = map[string]api.Isolation{}
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		key := keyIsolation + "." + name
		table, ok := profiles[name].(map[string]any)
		switch _, builtin := api.BuiltinIsolation()[name]; {
		case !ok:
			return fmt.Errorf("%s: must be a table (%s)", key, origin)
		case !validPlaceName(name):
			return fmt.Errorf("%s: the name must be 1 to 64 of A-Z a-z 0-9 . _ - (%s)", key, origin)
		case builtin:
			return fmt.Errorf("%s: %s is built in; choose another name (%s)", key, name, origin)
		}
		i, err := readIsolation(key, table)
		if err != nil {
			return fmt.Errorf("%w (%s)", err, origin)
		}
		c.Isolation[name] = i
		c.origins[key] = origin
	}
	return nil
}

// readIsolation reads one table, which key names in errors. The keys are the fields of api.Isolation.
func readIsolation(key string, table map[string]any) (i api.Isolation, err error) {
	v := reflect.ValueOf(&i).Elem()
	for _, name := range slices.Sorted(maps.Keys(table)) {
		field, found := v.FieldByNameFunc(func(f string) bool { return isolationKey(v.Type(), f) == name }), slices.Contains(isolationKeys(), name)
		switch {
		case !found:
			if meant := near.Word(name, isolationKeys(), len(name)/3+1); meant != "" {
				return i, fmt.Errorf("%s.%s: unknown key; did you mean %s?", key, name, meant)
			}
			return i, fmt.Errorf("%s.%s: unknown key", key, name)
		case field.Kind() == reflect.String:
			text, ok := table[name].(string)
			if !ok {
				return i, fmt.Errorf("%s.%s: must be a string", key, name)
			}
			field.SetString(text)
		default:
			list, ok := texts(table[name])
			if !ok {
				return i, fmt.Errorf("%s.%s: must be a list of strings", key, name)
			}
			field.Set(reflect.ValueOf(list))
		}
	}
	if err = i.Check(key); err == nil {
		_, err = i.Apply(nil)
	}
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "params.")
		return i, fmt.Errorf("%s", strings.Replace(text, keyIsolation+".", key+".", map[bool]int{true: 0, false: 1}[strings.HasPrefix(text, key)]))
	}
	return i, nil
}

// isolationKeys are the keys of a profile.
func isolationKeys() (keys []string) {
	t := reflect.TypeFor[api.Isolation]()
	for _, f := range reflect.VisibleFields(t) {
		if key := isolationKey(t, f.Name); key != "profile" {
			keys = append(keys, key)
		}
	}
	return keys
}

func isolationKey(t reflect.Type, field string) string {
	f, _ := t.FieldByName(field)
	key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return key
}

// isolationEntries returns the profiles as settings, for Entries.
func (c Config) isolationEntries() (list []Entry) {
	for _, name := range slices.Sorted(maps.Keys(c.Isolation)) {
		key := keyIsolation + "." + name
		var values map[string]any
		if text, err := json.Marshal(c.Isolation[name]); err == nil {
			_ = json.Unmarshal(text, &values)
		}
		for _, field := range isolationKeys() {
			if value, ok := values[field]; ok {
				list = append(list, Entry{Key: key + "." + field, Value: value, Origin: c.origins[key], Doc: "part of the profile of isolation"})
			}
		}
	}
	return list
}
