package dialogue

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestRecoveryDelaysNobody: while the record of a dialogue is read, it is listed, and others
// are made; its name stays taken, and who asks for it waits.
func TestRecoveryDelaysNobody(t *testing.T) {
	r, err := newRecord(filepath.Join(t.TempDir(), "d-1"))
	if err != nil {
		t.Fatal(err)
	}
	h := New(Config{Logger: slog.New(slog.DiscardHandler)})
	d := h.newDialogue(r, about{ID: "d-1", Params: api.DialogueCreateParams{Agent: "claude", Name: "slow"}})
	known := make(chan struct{})
	d.ready, d.basics = known, basicInfo(d.about)
	d.mu.Lock() // as the goroutine that reads the record does
	h.dialogues[d.id] = d

	if list := h.List(api.DialogueListParams{}); len(list) != 1 || list[0].Name != "slow" || list[0].State != api.DialogueStarting {
		t.Errorf("%+v", list)
	}
	if err := h.reserve("d-2", reserved{name: "other", agent: "claude"}); err != nil {
		t.Errorf("another one cannot be made: %v", err)
	} else {
		h.release("d-2")
	}
	if err := h.reserve("d-3", reserved{name: "slow", agent: "claude"}); api.AsError(err).Code != api.CodeConflict {
		t.Errorf("its name: %v", err)
	}
	found := make(chan *Dialogue)
	go func() {
		d, _ := h.Get("slow")
		found <- d
	}()
	select {
	case <-found:
		t.Error("it is found before it is recovered")
	default:
	}
	d.state, d.info = api.DialogueEnded, &api.DialogueInfo{DialogueID: "d-1"}
	d.mu.Unlock()
	close(known)
	if got := <-found; got != d || got.Info().DialogueID != "d-1" {
		t.Errorf("found %v", got)
	}
}
