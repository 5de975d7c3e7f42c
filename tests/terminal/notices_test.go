package terminal_test

import (
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestViewersAndModes: over the wire, a viewer sees the others with their labels, and
// the modes of the program; a viewer that does not ask for them gets neither.
func TestViewersAndModes(t *testing.T) {
	w := start(t)
	w.terminal("a", "sh", "-c", `stty -echo; echo ready; read x; printf '\033]2;edited\007\033[?1049h\033[?1003h'; read x; printf '\033[?1049l'; echo over; read x`)
	w.shows("a", "ready")
	plain := w.attach(api.SessionAttachParams{SessionID: "a"})
	own := w.attach(api.SessionAttachParams{SessionID: "a", Size: size(70, 20), Viewers: true, Modes: true})
	if list := own.until(api.EventViewers, "").Viewers; len(list) != 2 || list[0].ViewerID != plain.id() || list[1].ViewerID != own.id() ||
		list[0].Owner || !list[1].Owner || list[1].Cols != 70 || list[1].Rows != 20 || list[1].Since.Before(list[0].Since) {
		t.Errorf("%+v", list)
	}
	if m := own.until(api.EventModes, "").Modes; *m != (api.TerminalModes{Mouse: "none"}) {
		t.Errorf("%+v", m)
	}
	phone := w.attach(api.SessionAttachParams{SessionID: "a", ReadOnly: true, Label: "phone of é"})
	if list := own.until(api.EventViewers, "").Viewers; len(list) != 3 || list[2].Label != "phone of é" || !list[2].ReadOnly || list[2].ViewerID != phone.id() {
		t.Errorf("%+v", list)
	}
	phone.stream.Close()
	if list := own.until(api.EventViewers, "").Viewers; len(list) != 2 {
		t.Errorf("%+v", list)
	}
	w.types("a", "", "enter")
	for m := own.until(api.EventModes, "").Modes; *m != (api.TerminalModes{Mouse: "any", Alternate: true, Title: "edited"}); m = own.until(api.EventModes, "").Modes {
	}
	w.types("a", "", "enter")
	for m := own.until(api.EventModes, "").Modes; m.Alternate; m = own.until(api.EventModes, "").Modes {
	}
	plain.until(api.EventOutput, "over")
	for _, ev := range plain.events {
		if ev.Type == api.EventViewers || ev.Type == api.EventModes {
			t.Errorf("not asked for: %+v", ev)
		}
	}
	for _, label := range []string{"a\x00", "line\nline", string(make([]byte, 65))} {
		_, err := w.SessionAttach(w.ctx, api.SessionAttachParams{SessionID: "a", Label: label})
		testkit.WantError(t, err, api.CodeInvalidParams, "params.label: must be at most 64 bytes")
	}
}
