package guests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// inPlace completes the parameters of a session in a place of the far daemon.
func (w *world) inPlace(word string) api.SessionCreateParams {
	p := w.on(api.SessionCreateParams{})
	p.Place.Runtime = word
	return p
}

// TestPlaceThere: a session is in the place of the far daemon that the caller names, here a third daemon, and
// survives the death of the daemons in between.
func TestPlaceThere(t *testing.T) {
	third := startFar(t)
	config := filepath.Join(t.TempDir(), "config.toml")
	text := fmt.Sprintf("adhoc_places = false\n[runtimes.deep]\nkind = \"trl\"\naddress = %q\ntoken_file = %q\n", third.target().Options.Address, third.tokenFile)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := startWorld(t, nil, []string{"--config", config})
	s := testkit.Must(w.SessionCreate(w.ctx, w.inPlace("deep")))(t)
	if s.Runtime != "trl" || s.Place == nil || s.Place.Kind != api.PlaceTRL || s.Place.Address != w.target().Options.Address || s.Place.OS == "" {
		t.Errorf("here: %+v", s)
	}
	if list := third.guests(t); len(list) != 1 || list[0].SessionID != s.SessionID {
		t.Errorf("guests of the third daemon: %+v", list)
	}
	if list := w.guests(t); len(list) != 1 || list[0].Place.Kind != api.PlaceTRL {
		t.Errorf("guests of the far daemon: %+v", list)
	}
	w.run(s.SessionID, "v=kept")
	w.farRestarts(nil)
	w.Client = w.near.Crash(t, nil)
	if got := w.run(s.SessionID, "echo $v"); got != "kept\n" {
		t.Errorf("printed %q", got)
	}
	// The neighbour is in the same place, and its caller does not name it again.
	beside := testkit.Must(w.SessionCreate(w.ctx, api.SessionCreateParams{Beside: s.SessionID}))(t)
	if list := third.guests(t); len(list) != 2 {
		t.Errorf("guests of the third daemon: %+v", list)
	}
	for _, id := range []string{s.SessionID, beside.SessionID} {
		testkit.Must(w.SessionDestroy(w.ctx, api.SessionDestroyParams{SessionID: id}))(t)
	}
	if left := append(third.guests(t), w.guests(t)...); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}

	check := func(word string) api.RuntimeCheckResult {
		p := w.inPlace(word)
		return testkit.Must(w.RuntimeCheck(w.ctx, api.RuntimeCheckParams{Runtime: p.Runtime, Place: p.Place}))(t)
	}
	if c := check("deep"); !c.Reachable || strings.Count(c.Engine, "trl ") != 2 || c.OS == "" {
		t.Errorf("check: %+v", c)
	}
	// The rules of the far daemon are those for its own callers.
	for word, want := range map[string]struct {
		code api.Code
		text string
	}{
		"moon":             {api.CodeInvalidParams, `there is no place "moon"`},
		"host:x":           {api.CodeInvalidParams, "host takes no argument"},
		"docker:no-such/1": {api.CodeForbidden, "the configuration allows only the places that it names (adhoc_places): deep"},
	} {
		_, err := w.SessionCreate(w.ctx, w.inPlace(word))
		testkit.WantError(t, err, want.code, want.text)
		if err != nil && (api.AsError(err).Details["field"] != "place.runtime" || !strings.Contains(err.Error(), w.target().Options.Address)) {
			t.Errorf("%s: %+v", word, err)
		}
		if c := check(word); c.Reachable || !strings.Contains(c.Why, want.text) {
			t.Errorf("check of %s: %+v", word, c)
		}
	}
	_, err := w.SessionCreate(w.ctx, w.inPlace("two words"))
	testkit.WantError(t, err, api.CodeInvalidParams, "params.place.runtime")
	_, err = w.there.GuestStart(w.ctx, api.GuestStartParams{OwnerID: "other", SessionID: "s-00000000fe", Runtime: "deep", Beside: s.SessionID})
	testkit.WantError(t, err, api.CodeInvalidParams, "together with beside")
}
