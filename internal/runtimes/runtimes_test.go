package runtimes_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes"
	"github.com/trl-dev/trl/internal/session"
)

func table(change func(*runtimes.Config)) *runtimes.Table {
	c := runtimes.Config{Default: "host", Adhoc: true, Named: map[string]runtimes.Named{
		"build": {Kind: api.PlaceDocker, Options: api.PlaceOptions{Image: "golang", Network: "none"}, Allow: []string{"image", "user"}},
		"far":   {Kind: api.PlaceSSH, Options: api.PlaceOptions{Destination: "far.example"}},
		"bare":  {Kind: api.PlaceDocker, Allow: []string{"image"}},
	}}
	if change != nil {
		change(&c)
	}
	return runtimes.New(c)
}

func TestResolve(t *testing.T) {
	closed := func(c *runtimes.Config) { c.Adhoc = false }
	only := func(c *runtimes.Config) { c.Kinds = []api.PlaceKind{api.PlaceDocker} }
	for _, c := range []struct {
		change func(*runtimes.Config)
		word   string
		over   *api.PlaceOptions
		want   session.Target
		code   api.Code
		err    string
	}{
		{nil, "", nil, session.Target{Word: "host", Kind: api.PlaceHost}, "", ""},
		{func(c *runtimes.Config) { c.Default = "far" }, "", nil, session.Target{Word: "far", Kind: api.PlaceSSH, Options: api.PlaceOptions{Destination: "far.example"}}, "", ""},
		{nil, "docker:alpine", &api.PlaceOptions{User: "1"}, session.Target{Word: "docker:alpine", Kind: api.PlaceDocker, Options: api.PlaceOptions{Image: "alpine", User: "1"}}, "", ""},
		{nil, "docker", &api.PlaceOptions{Image: "alpine"}, session.Target{Word: "docker", Kind: api.PlaceDocker, Options: api.PlaceOptions{Image: "alpine"}}, "", ""},
		{nil, "build", &api.PlaceOptions{Image: "rust"}, session.Target{Word: "build", Kind: api.PlaceDocker, Options: api.PlaceOptions{Image: "rust", Network: "none"}}, "", ""},
		{closed, "build", &api.PlaceOptions{Image: "rust"}, session.Target{Word: "build", Kind: api.PlaceDocker, Options: api.PlaceOptions{Image: "rust", Network: "none"}}, "", ""},
		{closed, "host", nil, session.Target{Word: "host", Kind: api.PlaceHost}, "", ""},
		{only, "build", nil, session.Target{Word: "build", Kind: api.PlaceDocker, Options: api.PlaceOptions{Image: "golang", Network: "none"}}, "", ""},

		{nil, "docker", nil, session.Target{}, api.CodeInvalidParams, `params.runtime: "docker": needs the option image; write docker:IMAGE`},
		{nil, "bare", nil, session.Target{}, api.CodeInvalidParams, `params.runtime: "bare": needs the option image`},
		{nil, "docker:a", &api.PlaceOptions{Image: "b"}, session.Target{}, api.CodeInvalidParams, `params.place.image: is already set by the runtime "docker:a"`},
		{nil, "host", &api.PlaceOptions{Image: "b"}, session.Target{}, api.CodeInvalidParams, "params.place.image: a place of kind host does not know this option"},
		{nil, "build", &api.PlaceOptions{Destination: "b"}, session.Target{}, api.CodeInvalidParams, "params.place.destination: a place of kind docker does not know this option"},
		{nil, "build", &api.PlaceOptions{Network: "host"}, session.Target{}, api.CodeForbidden, "place.network: the configuration of runtime build does not allow callers to set it; it allows: image, user"},
		{nil, "far", &api.PlaceOptions{Identity: "/k"}, session.Target{}, api.CodeForbidden, "place.identity: the configuration of runtime far does not allow callers to set it; it allows: none"},
		{nil, "buidl", nil, session.Target{}, api.CodeInvalidParams, `there is no place "buidl"; did you mean build?`},
		{nil, "dokcer:alpine", nil, session.Target{}, api.CodeInvalidParams, `there is no place "dokcer:alpine"; did you mean docker?`},
		{nil, "saturn", nil, session.Target{}, api.CodeInvalidParams, `there is no place "saturn"; runtime.list lists the places`},
		{nil, "build:rust", nil, session.Target{}, api.CodeInvalidParams, `"build:rust": build is a name from the configuration and takes no argument`},
		{nil, "docker:", nil, session.Target{}, api.CodeInvalidParams, "IMAGE is missing after the colon"},
		{nil, strings.Repeat("m", 2000), nil, session.Target{}, api.CodeInvalidParams, "has 2000 bytes"},
		{closed, "docker:alpine", nil, session.Target{}, api.CodeForbidden, "runtime docker:alpine: the configuration allows only the places that it names (adhoc_places): bare, build, far"},
		{closed, "docker", &api.PlaceOptions{Image: "alpine"}, session.Target{}, api.CodeForbidden, "place.image: the configuration does not allow callers to set it (adhoc_places)"},
		{only, "host", nil, session.Target{}, api.CodeForbidden, "runtime host: the configuration forbids places of kind host (runtime_kinds)"},
		{only, "", nil, session.Target{}, api.CodeForbidden, "forbids places of kind host"},
		{only, "far", nil, session.Target{}, api.CodeForbidden, "runtime far: the configuration forbids places of kind ssh (runtime_kinds)"},
		{only, "ssh:far", nil, session.Target{}, api.CodeForbidden, "forbids places of kind ssh"},
	} {
		got, err := table(c.change).Resolve(c.word, c.over)
		switch {
		case c.code == "" && (err != nil || !reflect.DeepEqual(got, c.want)):
			t.Errorf("%q %+v: %+v, %v", c.word, c.over, got, err)
		case c.code != "" && (err == nil || api.AsError(err).Code != c.code || !strings.Contains(err.Error(), c.err) || api.AsError(err).Details["field"] == nil):
			t.Errorf("%.50q %+v: %v, want %s %q", c.word, c.over, err, c.code, c.err)
		}
	}
}

// TestResolveLeavesTheConfiguration: the options of one caller do not become those of the next.
func TestResolveLeavesTheConfiguration(t *testing.T) {
	tab := table(nil)
	if _, err := tab.Resolve("build", &api.PlaceOptions{Image: "rust"}); err != nil {
		t.Fatal(err)
	}
	got, err := tab.Resolve("build", nil)
	if err != nil || got.Options.Image != "golang" {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzResolve: for any word, the answer is a place or an error with a code and a field.
func FuzzResolve(f *testing.F) {
	for _, word := range []string{"", "build", "docker:alpine", "build:x", "k8s:a", "\x00", "pod:a/b"} {
		f.Add(word, "image")
	}
	tab := table(nil)
	f.Fuzz(func(t *testing.T, word, image string) {
		got, err := tab.Resolve(word, &api.PlaceOptions{Image: image})
		if err != nil {
			e := api.AsError(err)
			if e.Details["field"] == nil || len(e.Message) > 2000 || strings.ContainsAny(e.Message, "\x00\n\x1b") {
				t.Errorf("%q: %q", word, e.Message)
			}
			return
		}
		if err := got.Options.Check(got.Kind); err != nil || got.Word == "" {
			t.Errorf("%q: %+v, %v", word, got, err)
		}
	})
}
