package api

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPlaceWord is the length of the longest word for a place, in bytes.
const maxPlaceWord = 1024

// CheckPlaceWord rejects text that cannot be the word for a place: text that is empty, too long,
// or has spaces or control characters.
func CheckPlaceWord(word string) error {
	switch {
	case word == "":
		return InvalidParam("runtime", "must not be empty")
	case len(word) > maxPlaceWord:
		return InvalidParam("runtime", "has %d bytes; at most %d are allowed", len(word), maxPlaceWord)
	case !plainText(word) || strings.ContainsFunc(word, unicode.IsSpace):
		return InvalidParam("runtime", "%.100q: a place is one word, without spaces and control characters", word)
	}
	return nil
}

// checkPlace checks what can be said about the place of an agent without the configuration.
func (p DialogueCreateParams) checkPlace() error {
	switch {
	case p.Runtime == "remote" && p.Place != nil:
		return InvalidParam("place", "is not for runtime remote")
	case p.Runtime == "remote" && (p.Remote == nil || p.Remote.Address == ""):
		return InvalidParam("remote", "is required for runtime remote, with its address")
	case p.Runtime != "remote" && p.Remote != nil:
		return InvalidParam("remote", "is only for runtime remote")
	}
	if p.Remote != nil {
		if err := p.Remote.Options().Check(PlaceTRL); err != nil {
			e := AsError(err)
			field, _ := e.Details["field"].(string)
			_, why, _ := strings.Cut(e.Message, ": ")
			return InvalidParam("remote"+strings.TrimPrefix(field, "place"), "%s", why)
		}
	}
	return SessionCreateParams{Runtime: p.Runtime, CreateID: p.CreateID}.checkPlace()
}

// ParsePlace reads a kind or KIND:ARGUMENT. The options that it returns are those that the
// argument sets. Names from the configuration are not known here.
func ParsePlace(word string) (PlaceKindInfo, PlaceOptions, error) {
	var o PlaceOptions
	if err := CheckPlaceWord(word); err != nil {
		return PlaceKindInfo{}, o, err
	}
	name, argument, given := strings.Cut(word, ":")
	kind, ok := FindPlaceKind(name)
	switch {
	case !ok:
		return kind, o, InvalidParam("runtime", "there is no place %.100q", word)
	case !given:
		return kind, o, nil
	case kind.Argument == "":
		return kind, o, InvalidParam("runtime", "%.100q: %s takes no argument", word, kind.Kind)
	case argument == "":
		return kind, o, InvalidParam("runtime", "%.100q: %s is missing after the colon", word, kind.Argument)
	}
	switch kind.Kind {
	case PlaceDocker, PlaceKubernetes:
		o.Image = argument
	case PlaceContainer:
		o.Container = argument
	case PlaceSSH:
		o.Destination = argument
	case PlaceTRL:
		o.Address = argument
	case PlacePod:
		parts := strings.Split(argument, "/")
		switch {
		case len(parts) > 3 || contains(parts, ""):
			return kind, o, InvalidParam("runtime", "%.100q: must be %s:%s", word, kind.Kind, kind.Argument)
		case len(parts) == 3:
			o.Namespace, o.Pod, o.Container = parts[0], parts[1], parts[2]
		case len(parts) == 2:
			o.Namespace, o.Pod = parts[0], parts[1]
		default:
			o.Pod = argument
		}
	}
	if err := o.Check(kind.Kind); err != nil {
		_, why, _ := strings.Cut(err.Error(), ": ")
		return kind, o, InvalidParam("runtime", "%.100q: %s", word, why)
	}
	return kind, o, nil
}

// Check reports the first option that a place of the kind does not know, or whose value is
// invalid. It does not require any option.
func (o PlaceOptions) Check(kind PlaceKind) error {
	info, ok := FindPlaceKind(string(kind))
	if !ok {
		return InvalidParam("place.kind", "%.40q is not a kind of place", kind)
	}
	for _, name := range o.Set() {
		if !info.Knows(name) {
			return InvalidParam("place."+name, "a place of kind %s does not know this option; it knows %s", info.Kind, knownOptions(info))
		}
	}
	for name, value := range o.texts() {
		switch {
		case !plainText(value):
			return InvalidParam("place."+name, "%.100q: has control characters, or is not UTF-8", value)
		case value == "":
			return InvalidParam("place."+name, "must not be empty")
		case value[0] == '-':
			return InvalidParam("place."+name, "%.100q: must not begin with -", value)
		}
	}
	return o.checkForms()
}

func knownOptions(k PlaceKindInfo) string {
	if all := k.All(); len(all) > 0 {
		return strings.Join(all, ", ")
	}
	return "none"
}

// texts calls yield with every text of the options that are set, and the name of its option.
func (o PlaceOptions) texts() func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for _, f := range o.fields() {
			switch v := f.value.Interface().(type) {
			case string:
				if v != "" && !yield(f.name, v) {
					return
				}
			case []string:
				for _, text := range v {
					if !yield(f.name, text) {
						return
					}
				}
			case map[string]string:
				for key, text := range v {
					if !yield(f.name, key) || text != "" && !yield(f.name, text) {
						return
					}
				}
			}
		}
	}
}

// checkForms checks the options whose values have a form.
func (o PlaceOptions) checkForms() error {
	if o.Pull != "" && o.Pull != "missing" && o.Pull != "always" && o.Pull != "never" {
		return InvalidParam("place.pull", "%.40q is not one of missing, always, never", o.Pull)
	}
	for _, m := range o.Mounts {
		parts := strings.Split(m, ":")
		if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || !strings.HasPrefix(parts[1], "/") || len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw" {
			return InvalidParam("place.mounts", "%.200q: must be SOURCE:TARGET or SOURCE:TARGET:ro, and TARGET must begin with /", m)
		}
	}
	for _, option := range o.SSHOptions {
		if name, _, ok := strings.Cut(option, "="); !ok || name == "" {
			return InvalidParam("place.ssh_options", "%.100q: must be NAME=VALUE, as in ssh_config", option)
		}
	}
	for _, f := range []struct{ name, path string }{{"pod_template", o.PodTemplate}, {"token_file", o.TokenFile}, {"ca_file", o.CAFile}, {"cert_file", o.CertFile}, {"key_file", o.KeyFile}} {
		if f.path != "" && f.path[0] != '/' {
			return InvalidParam("place."+f.name, "%.200q: must begin with /; the daemon does not know the caller's directory", f.path)
		}
	}
	if o.Runtime != "" {
		if err := CheckPlaceWord(o.Runtime); err != nil {
			return InvalidParam("place.runtime", "%s", strings.TrimPrefix(err.Error(), "params.runtime: "))
		}
	}
	if o.OwnerLostS < 0 {
		return InvalidParam("place.owner_lost_s", "must be a number of seconds above 0")
	}
	if o.Identity != "" && o.Identity[0] != '/' && !strings.HasPrefix(o.Identity, "~/") {
		return InvalidParam("place.identity", "%.200q: must begin with / or ~/; the daemon does not know the caller's directory", o.Identity)
	}
	return nil
}

func plainText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
