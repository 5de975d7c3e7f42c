package api_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

func TestParsePlace(t *testing.T) {
	no := false
	for word, want := range map[string]struct {
		kind api.PlaceKind
		o    api.PlaceOptions
	}{
		"host":                       {api.PlaceHost, api.PlaceOptions{}},
		"docker":                     {api.PlaceDocker, api.PlaceOptions{}},
		"docker:alpine":              {api.PlaceDocker, api.PlaceOptions{Image: "alpine"}},
		"docker:reg.example:5000/a:": {api.PlaceDocker, api.PlaceOptions{Image: "reg.example:5000/a:"}},
		"docker:a@sha256:00":         {api.PlaceDocker, api.PlaceOptions{Image: "a@sha256:00"}},
		"container:build-1":          {api.PlaceContainer, api.PlaceOptions{Container: "build-1"}},
		"ssh:me@build":               {api.PlaceSSH, api.PlaceOptions{Destination: "me@build"}},
		"ssh:ssh://me@build:2222":    {api.PlaceSSH, api.PlaceOptions{Destination: "ssh://me@build:2222"}},
		"kubernetes:alpine":          {api.PlaceKubernetes, api.PlaceOptions{Image: "alpine"}},
		"k8s:alpine":                 {api.PlaceKubernetes, api.PlaceOptions{Image: "alpine"}},
		"pod:web":                    {api.PlacePod, api.PlaceOptions{Pod: "web"}},
		"pod:prod/web":               {api.PlacePod, api.PlaceOptions{Namespace: "prod", Pod: "web"}},
		"pod:prod/web/app":           {api.PlacePod, api.PlaceOptions{Namespace: "prod", Pod: "web", Container: "app"}},
		"trl:grpcs://build:7331":     {api.PlaceTRL, api.PlaceOptions{Address: "grpcs://build:7331"}},
	} {
		kind, o, err := api.ParsePlace(word)
		if err != nil || kind.Kind != want.kind || !reflect.DeepEqual(o, want.o) {
			t.Errorf("%s: %s %+v, %v", word, kind.Kind, o, err)
		}
	}
	for word, want := range map[string]string{
		"":                        "params.runtime: must not be empty",
		":":                       `there is no place ":"`,
		":alpine":                 `there is no place ":alpine"`,
		"docker:":                 `"docker:": IMAGE is missing after the colon`,
		"host:here":               `"host:here": host takes no argument`,
		"Docker:alpine":           `there is no place "Docker:alpine"`,
		"docker:a b":              "a place is one word",
		"docker:a\x00":            "a place is one word",
		"docker:a\n":              "a place is one word",
		"docker:a\u00a0b":         "a place is one word",
		"docker:\xff":             "a place is one word",
		"ssh:-oProxyCommand=x":    "must not begin with -",
		"container:-v":            "must not begin with -",
		"pod:a/b/c/d":             "must be pod:[NAMESPACE/]POD[/CONTAINER]",
		"pod:/web":                "must be pod:[NAMESPACE/]POD[/CONTAINER]",
		"pod:a//b":                "must be pod:[NAMESPACE/]POD[/CONTAINER]",
		"pod:a/-b":                "must not begin with -",
		strings.Repeat("x", 1025): "has 1025 bytes; at most 1024 are allowed",
		"ssh:\u202ebuild\x1b[31m": "a place is one word",
		"kubernetes":              "", // may have a name from an option
	} {
		_, _, err := api.ParsePlace(word)
		if want == "" && err == nil {
			continue
		}
		if err == nil || api.AsError(err).Code != api.CodeInvalidParams || !strings.Contains(err.Error(), want) || api.AsError(err).Details["field"] != "runtime" {
			t.Errorf("%q: %v, want %q", word, err, want)
		}
	}
	for _, c := range []struct {
		kind api.PlaceKind
		o    api.PlaceOptions
		want string
	}{
		{api.PlaceHost, api.PlaceOptions{Image: "a"}, "params.place.image: a place of kind host does not know this option; it knows none"},
		{api.PlaceSSH, api.PlaceOptions{ReadOnly: &no}, "params.place.read_only: a place of kind ssh does not know this option; it knows destination, identity, ssh_options"},
		{api.PlaceDocker, api.PlaceOptions{Pull: "sometimes"}, `params.place.pull: "sometimes" is not one of missing, always, never`},
		{api.PlaceDocker, api.PlaceOptions{Mounts: []string{"/a"}}, "params.place.mounts: \"/a\": must be SOURCE:TARGET"},
		{api.PlaceDocker, api.PlaceOptions{Mounts: []string{"/a:b"}}, "TARGET must begin with /"},
		{api.PlaceDocker, api.PlaceOptions{Mounts: []string{"/a:/b:rx"}}, "must be SOURCE:TARGET"},
		{api.PlaceDocker, api.PlaceOptions{Mounts: []string{""}}, "params.place.mounts: must not be empty"},
		{api.PlaceDocker, api.PlaceOptions{Labels: map[string]string{"": "x"}}, "params.place.labels: must not be empty"},
		{api.PlaceDocker, api.PlaceOptions{User: "a\nb"}, "params.place.user: \"a\\nb\": has control characters"},
		{api.PlaceSSH, api.PlaceOptions{SSHOptions: []string{"-p 1"}}, "must not begin with -"},
		{api.PlaceSSH, api.PlaceOptions{SSHOptions: []string{"Port"}}, "must be NAME=VALUE"},
		{api.PlaceSSH, api.PlaceOptions{Identity: "key"}, "must begin with / or ~/"},
		{api.PlaceTRL, api.PlaceOptions{TokenFile: "token"}, "must begin with /"},
		{api.PlaceTRL, api.PlaceOptions{Runtime: "a b"}, "params.place.runtime: \"a b\": a place is one word"},
		{api.PlaceDocker, api.PlaceOptions{Runtime: "host"}, "params.place.runtime: a place of kind docker does not know this option"},
		{"moon", api.PlaceOptions{}, `"moon" is not a kind of place`},
	} {
		if err := c.o.Check(c.kind); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want %q", c.kind, c.o, err, c.want)
		}
	}
	ok := api.PlaceOptions{Image: "a", Mounts: []string{"/a:/b", "vol:/c:ro"}, ReadOnly: &no, Labels: map[string]string{"a": ""}}
	if err := ok.Check(api.PlaceDocker); err != nil {
		t.Error(err)
	}
}

// TestPlaceKinds: every option belongs to a kind, and every kind knows only options that exist.
func TestPlaceKinds(t *testing.T) {
	used := map[string]bool{}
	fields := reflect.TypeFor[api.PlaceOptions]()
	exists := map[string]bool{}
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		exists[name] = true
	}
	for _, k := range api.PlaceKinds() {
		if (k.Argument == "") != (len(k.Sets) == 0) || k.Doc == "" {
			t.Errorf("%s: %+v", k.Kind, k)
		}
		seen := map[string]bool{}
		for _, option := range k.All() {
			if !exists[option] || seen[option] {
				t.Errorf("%s: option %s does not exist, or is there twice", k.Kind, option)
			}
			seen[option], used[option] = true, true
		}
	}
	if !reflect.DeepEqual(used, exists) {
		t.Errorf("options of kinds: %v, all: %v", used, exists)
	}
}

func FuzzParsePlace(f *testing.F) {
	for _, word := range []string{"host", "docker:alpine", "pod:a/b/c", "k8s:", "ssh:-x", "::", "docker:\x00", strings.Repeat(":", 2000)} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		kind, o, err := api.ParsePlace(word)
		if err != nil {
			if e := api.AsError(err); e.Code != api.CodeInvalidParams || e.Details["field"] != "runtime" || len(e.Message) > 1000 {
				t.Errorf("%q: %v", word, err)
			}
			return
		}
		if err := o.Check(kind.Kind); err != nil {
			t.Errorf("%q: its own options are refused: %v", word, err)
		}
		// The word can be written again from what was read.
		argument := strings.Join([]string{o.Image, o.Destination, o.Address}, "")
		switch {
		case o.Pod != "":
			argument = strings.Join(strings.FieldsFunc(o.Namespace+"/"+o.Pod+"/"+o.Container, func(r rune) bool { return r == '/' }), "/")
		case o.Container != "":
			argument = o.Container
		}
		short, rest, given := strings.Cut(word, ":")
		if again, ok := api.FindPlaceKind(short); !ok || again.Kind != kind.Kind || given != (argument != "") || rest != argument {
			t.Errorf("%q: read as %s with %q", word, kind.Kind, argument)
		}
	})
}
