package dialogue

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
)

// TestReport: a request is reported once, when it has waited, with no client looking, for as long as is
// configured: no follower, and no page of the console.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := recorded(t)
		d, p := begin(t, filepath.Join(t.TempDir(), "d-1"))
		got := make(chan api.RequestReport, 10)
		d.registry.config.OnRequest = func(r api.RequestReport) { got <- r }
		d.registry.config.OnRequestAfter = 10 * time.Second
		d.registry.dialogues = map[string]*Dialogue{d.id: d}
		page, closePage := context.WithCancel(t.Context())
		d.registry.PageOpen(page)
		s.play(d, p, s.calls[1].Offset) // it asks
		count := func(after time.Duration, want int, why string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if len(got) != want {
				t.Errorf("%s: %d reports", why, len(got))
			}
		}
		count(4*time.Minute, 0, "a page is open")
		d.registry.PageOpen(page)
		count(4*time.Minute, 0, "the page is still open")
		d.countFollower(1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := d.registry.pages.Load(); n != 0 {
			t.Errorf("%d pages that have said nothing for 6 minutes count", n)
		}
		d.registry.PageOpen(page)
		closePage()
		count(time.Hour, 0, "a client follows")
		d.countFollower(-1)
		count(9*time.Second, 0, "no client has looked for 9 s")
		d.countFollower(1)
		count(2*time.Second, 0, "a client looked after 9 s")
		d.countFollower(-1)
		count(9*time.Second, 0, "no client has looked for 9 s again")
		count(2*time.Second, 1, "no client looks")
		d.countFollower(1)
		d.countFollower(-1)
		count(time.Hour, 1, "it was reported before")
		r := <-got
		if r.DialogueID != d.id || r.ID != d.id+"/"+r.RequestID || r.Kind != "permission" || r.OpenedAt.IsZero() || !d.registry.Waits(r) {
			t.Errorf("%+v", r)
		}
		r.RequestID = "r9.9"
		if d.registry.Waits(r) {
			t.Error("a request that there is not waits")
		}
		d.mu.Lock()
		if p.stallTimer != nil {
			p.stallTimer.Stop()
		}
		d.mu.Unlock()
	})
	if got := beginning(strings.Repeat("x", maxReported-1) + "é"); got != strings.Repeat("x", maxReported-1) {
		t.Errorf("cut to %d bytes", len(got))
	}
}
