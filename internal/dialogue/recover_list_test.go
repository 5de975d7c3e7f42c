package dialogue

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
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

// TestRequestsWhileOneIsRecovered: while the record of one dialogue is being read, the open requests of
// the others are listed after a short wait, with the id of the one that is missing.
func TestRequestsWhileOneIsRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := recorded(t)
		d, p := begin(t, filepath.Join(t.TempDir(), "d-1"))
		s.play(d, p, s.calls[1].Offset) // it asks
		slow, recovered := recovering(t, d.registry, "d-2", "slow")
		d.registry.dialogues = map[string]*Dialogue{d.id: d, slow.id: slow}
		list := func(want time.Duration, requests int, missing []string, tags ...string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			began := time.Now()
			r, err := d.registry.Requests(ctx, api.DialogueRequestsParams{Tags: tags})
			if err != nil || len(r.Requests) != requests || !slices.Equal(r.Recovering, missing) {
				t.Errorf("%d requests without those of %v, %v", len(r.Requests), r.Recovering, err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("the answer took %v, want %v", took, want)
			}
		}
		list(time.Second, 1, []string{"d-2"})
		list(time.Second, 0, []string{"d-2"}, "slow")
		list(0, 0, nil, "other") // a dialogue without the tag is not waited for
		time.AfterFunc(time.Second/2, recovered)
		list(time.Second/2, 1, nil)
		list(0, 1, nil)

		another, _ := recovering(t, d.registry, "d-3", "")
		d.registry.dialogues[another.id] = another
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := d.registry.Requests(gone, api.DialogueRequestsParams{}); err != context.Canceled {
			t.Errorf("a caller that is gone gets %v", err)
		}
	})
}

// TestPageWhileOneIsRecovered: a page of the console opens and closes while the record of a dialogue is
// being read. The request of this dialogue is reported after the recovery if no page is open then.
func TestPageWhileOneIsRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := recorded(t)
		d, p := begin(t, filepath.Join(t.TempDir(), "d-1"))
		reports := make(chan api.RequestReport, 1)
		d.registry.config.OnRequest = func(r api.RequestReport) { reports <- r }
		d.registry.config.OnRequestAfter = 10 * time.Second
		d.registry.dialogues = map[string]*Dialogue{d.id: d}
		page, closePage := context.WithCancel(t.Context())
		d.registry.PageOpen(page)
		s.play(d, p, s.calls[1].Offset) // it asks
		ready := make(chan struct{})
		d.ready = ready
		d.mu.Lock() // as recover does
		d.registry.PageOpen(page)
		closePage()
		synctest.Wait()
		if n := d.registry.pages.Load(); n != 0 {
			t.Errorf("%d pages count as open", n)
		}
		d.mu.Unlock()
		d.endRecovery(ready)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if len(reports) != 1 {
			t.Errorf("%d reports after the recovery", len(reports))
		}
	})
}

// recovering returns a dialogue whose record is being read until the returned function is called.
func recovering(t *testing.T, r *Registry, id, tag string) (d *Dialogue, recovered func()) {
	t.Helper()
	rec, err := newRecord(filepath.Join(t.TempDir(), id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rec.end)
	d = r.newDialogue(rec, about{ID: id, Params: api.DialogueCreateParams{Agent: "claude", Tags: []string{tag}}})
	ready := make(chan struct{})
	d.ready, d.basics = ready, basicInfo(d.about)
	d.mu.Lock() // as recover does
	return d, func() {
		d.mu.Unlock()
		close(ready)
	}
}
