package config

import (
	"encoding/json"
	"errors"
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
	c.Isolation = map[string]api.Isolation{}
	return c.eachTable(keyIsolation, value, origin, func(name, key string, table map[string]any) (err error) {
		if _, builtin := api.BuiltinIsolation()[name]; builtin {
			return fmt.Errorf("%s: %s is built in; choose another name", key, name)
		}
		c.Isolation[name], err = readIsolation(key, table)
		return err
	})
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
		if !strings.HasPrefix(text, key) { // Apply names the parameter of session.create
			text = strings.Replace(text, keyIsolation+".", key+".", 1)
		}
		return i, errors.New(text)
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
				list = append(list, Entry{Key: key + "." + field, Value: value, Origin: c.origins[key], Doc: "part of the isolation profile"})
			}
		}
	}
	return list
}
