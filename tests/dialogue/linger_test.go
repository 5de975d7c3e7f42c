package dialogue_test

import (
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestLinger: a dialogue with linger_s ends when no client follows it any more, also under another
// daemon, and not before.
func TestLinger(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := fake()
	p.LingerS = seconds(5) // in which the first client must come
	left := func(d api.DialogueInfo) {
		t.Helper()
		f := w.follow(d.DialogueID, 0)
		f.state(api.DialogueIdle)
		w.says(d.DialogueID, "silence 6s; say hello") // longer than it would live alone
		f.close()
		testkit.Eventually(t, "it ends", func() bool { return w.info(d.DialogueID).State == api.DialogueEnded })
		if end := w.ended(d, "closed"); end.Text != "no client followed it (linger_s)" {
			t.Errorf("%+v", end)
		}
	}
	d := w.create(p)
	left(d)
	left(testkit.Must(w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID}))(w))

	d = w.create(p)
	w.restart(nil)
	testkit.Eventually(t, "it ends", func() bool { return w.info(d.DialogueID).State == api.DialogueEnded })
	w.ended(d, "closed")
	p.LingerS = seconds(-1)
	_, err := w.DialogueCreate(w.ctx, p)
	testkit.WantError(t, err, api.CodeInvalidParams, "linger_s")
}

// TestLifetime: a dialogue ends after its lifetime, even if its agent works, and says why. A
// resumed agent has a lifetime of its own.
func TestLifetime(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := fake()
	p.LifetimeS = seconds(5) // in which the agent must start and get its message
	over := func(d api.DialogueInfo) {
		t.Helper()
		w.says(d.DialogueID, "silence 60s; say hello")
		testkit.Eventually(t, "it ends", func() bool { return w.info(d.DialogueID).State == api.DialogueEnded })
		if end := w.ended(d, "session_destroyed"); end.Text != "lived for 5s (lifetime_s)" {
			t.Errorf("%+v", end)
		}
	}
	d := w.create(p)
	over(d)
	over(testkit.Must(w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID}))(w))
	p.LifetimeS = seconds(-1)
	_, err := w.DialogueCreate(w.ctx, p)
	testkit.WantError(t, err, api.CodeInvalidParams, "lifetime_s")
}
