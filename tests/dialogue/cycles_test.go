package dialogue_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestCycles: a thousand dialogues that begin and end in every way leave nothing: neither a
// goroutine nor a descriptor, no process and no directory.
func TestCycles(t *testing.T) {
	const all, atOnce = 1000, 4
	w := start(t, trltest.Args("--kill-grace-s", "1", "--max-sessions", "100"), trltest.Use(plain()))
	w.ctx = timeout(t)
	many := func(n int) {
		var workers sync.WaitGroup
		for part := range atOnce {
			workers.Go(func() {
				for i := part; i < n; i += atOnce {
					if err := w.cycle(i); err != nil {
						t.Errorf("cycle %d: %v", i, err)
						return
					}
				}
			})
		}
		workers.Wait()
	}
	many(24) // what is made once is made
	before := trltest.Settled(w.ctx, w.T, w.Client, nil)
	began := time.Now()
	many(all)
	took := time.Since(began)
	after := trltest.Settled(w.ctx, w.T, w.Client, &before)
	t.Logf("%s a cycle; %d descriptors and %d goroutines, before it was %d and %d; %d MB, before %d MB", (took / all).Round(time.Microsecond),
		after.OpenFDs, after.Goroutines, before.OpenFDs, before.Goroutines, after.MemoryRSSBytes>>20, before.MemoryRSSBytes>>20)
	if after.OpenFDs > before.OpenFDs || after.Goroutines > before.Goroutines {
		t.Errorf("before: %d descriptors, %d goroutines; after: %d, %d", before.OpenFDs, before.Goroutines, after.OpenFDs, after.Goroutines)
	}
	w.nothingLeft("after all")
	for _, dir := range []string{w.daemon.RuntimeDir, filepath.Join(w.daemon.StateDir, "sessions"), filepath.Join(w.daemon.StateDir, "dialogues")} {
		if left, _ := filepath.Glob(filepath.Join(dir, "[sd]-*")); len(left) > 0 {
			t.Errorf("%d are left, such as %s", len(left), left[0])
		}
	}
}

// cycle is the life of a dialogue, another one for each number.
func (w *world) cycle(n int) error {
	p := fake()
	if n%10 == 9 { // one that does not begin
		p = fake("-fail", "not today")
		if _, err := w.DialogueCreate(w.ctx, p); err == nil || api.AsError(err).Code != api.CodeAgentFailed {
			return fmt.Errorf("it begins: %v", err)
		}
		return nil
	}
	d, err := w.DialogueCreate(w.ctx, p)
	if err != nil {
		return err
	}
	script := []string{"say hello", "ask Bash rm", "stream some", "say bye; kill9", "spawn sleep 1000; hang", "hang", "", "exit-mid-line 3", "background-shell"}[n%9]
	if script != "" {
		s, err := w.DialogueEvents(w.ctx, api.DialogueEventsParams{DialogueID: d.DialogueID})
		if err != nil {
			return err
		}
		defer s.Close()
		if _, err := w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Text: script}); err != nil {
			return err
		}
		for begun := false; !begun; {
			push, err := s.Recv()
			if err != nil {
				return err
			}
			begun = push.Type == api.EventEnd || push.Event.Type == api.DialogueEventTurnStarted
		}
		if n%7 == 0 { // it goes on in another process
			if _, err := w.DialogueTerminate(w.ctx, api.DialogueTerminateParams{DialogueID: d.DialogueID}); err != nil {
				return err
			}
			if _, err := w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID}); err != nil {
				return err
			}
		}
	}
	_, err = w.DialogueTerminate(w.ctx, api.DialogueTerminateParams{DialogueID: d.DialogueID, Force: n%3 == 0, Forget: true})
	return err
}
