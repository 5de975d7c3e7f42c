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
		} else if strings.HasPrefix(e.Key, keyRuntimes+".") && strings.HasSuffix(e.Key, ".ssh_options") {
			value = "…"
		}
		list = append(list, api.Setting{Key: e.Key, Value: text(value), Origin: e.Origin, Default: text(e.Default), Doc: e.Doc})
	}
	return list
}

// hides are the settings that people put secrets into: the path of a URL, the arguments of a command.
var hides = map[string]func(string) string{
	"on_request_url": hostOf,
	"trace_endpoint": hostOf,
	"on_request_command": func(v string) string {
		switch words := strings.Fields(v); {
		case len(words) == 0:
			return ""
		case strings.ContainsAny(words[0], "=;&|$()<>'\"`"): // not the name of a program
			return "…"
		case len(words) > 1:
			return words[0] + " …"
		default:
			return words[0]
		}
	},
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + "/…"
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
