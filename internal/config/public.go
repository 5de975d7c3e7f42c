package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
)

// Public lists all settings as texts, without what may be a secret in them.
func (c Config) Public() []api.Setting {
	var list []api.Setting
	for _, e := range c.Entries() {
		value := e.Value
		if hide := hides[e.Key]; hide != nil {
			value = hide(fmt.Sprint(value))
		}
		list = append(list, api.Setting{Key: e.Key, Value: text(value), Origin: e.Origin, Default: text(e.Default), Doc: e.Doc})
	}
	return list
}

// hides are the settings that people put secrets into: the path of a URL, the arguments of a command.
var hides = map[string]func(string) string{
	"on_request_url": func(v string) string {
		u, err := url.Parse(v)
		if err != nil || v == "" {
			return ""
		}
		return u.Scheme + "://" + u.Host + "/…"
	},
	"on_request_command": func(v string) string {
		program, rest, _ := strings.Cut(strings.TrimSpace(v), " ")
		if rest != "" {
			program += " …"
		}
		return program
	},
}

// text writes the value of a setting for people: numbers without an exponent, lists as JSON.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case int64, bool:
		return fmt.Sprint(v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
