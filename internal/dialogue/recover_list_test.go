package dialogue

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
)

// TestRecoveryDelaysNoOthers: while the record of a dialogue is being read, the dialogue is listed
// with its basics, others can be created, and its name stays taken. Get waits for it.
//
// The events of the record are a named pipe: reading them blocks until the test writes.
func TestRecoveryDelaysNoOthers(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "d-1")
	rec, err := newRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	a := about{ID: "d-1", Created: true, Epoch: 1, CreatedAt: time.Now().UTC(), SessionID: "s-1", Params: api.DialogueCreateParams{Agent: "claude", Name: "slow"}}
	if err := rec.save(a); err != nil {
		t.Fatal(err)
	}
	events := filepath.Join(dir, eventsFile)
	if err := syscall.Mkfifo(events, 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	sessions := session.NewRegistry(session.Config{Logger: log})
	defer sessions.Close(alreadyClosed)
	r := New(Config{Logger: log, Sessions: sessions, Dir: base, LineBytes: 1 << 20, StartTimeout: time.Minute})
	defer r.Close(alreadyClosed)
	if err := r.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	unblock, err := os.OpenFile(events, os.O_WRONLY, 0) // waits until the recovery reads
	if err != nil {
		t.Fatal(err)
	}

	list := r.List(api.DialogueListParams{})
	if len(list) != 1 || list[0].Name != "slow" || list[0].State != api.DialogueStarting || list[0].SessionID != "s-1" || list[0].Epoch != 1 {
		t.Errorf("%+v", list)
	}
	if err := r.reserve("d-2", reserved{name: "other", agent: "claude"}); err != nil {
		t.Errorf("another one cannot be created: %v", err)
	} else {
		r.release("d-2")
	}
	if err := r.reserve("d-3", reserved{name: "slow", agent: "claude"}); api.AsError(err).Code != api.CodeConflict {
		t.Errorf("its name: %v", err)
	}
	found := make(chan *Dialogue)
	go func() {
		d, _ := r.Get("slow")
		found <- d
	}()
	select {
	case <-found:
		t.Error("Get returned it before it was recovered")
	default:
	}

	if err := os.Remove(events); err != nil { // the recovery goes on with a regular file
		t.Fatal(err)
	}
	if err := os.WriteFile(events, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unblock.Close()
	d := <-found
	if d == nil || d.ID() != "d-1" {
		t.Fatalf("found %v", d)
	}
	<-d.end("test", nil)
	if info := d.Info(); info.State != api.DialogueEnded || info.Name != "slow" {
		t.Errorf("%+v", info)
	}
}
