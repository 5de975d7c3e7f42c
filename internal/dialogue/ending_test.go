package dialogue

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/trl-dev/trl/api"
)

var endSteps = []endStep{endNone, endAsked, endForced, endDestroying, endDestroyed, endVanished, endLeft, endOver}

// TestEndSteps tries every pair of steps.
func TestEndSteps(t *testing.T) {
	allowed := map[endStep]string{ // in the order of endSteps
		endNone:       ".x.x.xxx",
		endAsked:      "..xx.xxx",
		endForced:     "...x.xxx",
		endDestroying: "....xxxx",
		endDestroyed:  "......xx",
		endVanished:   "......xx",
		endLeft:       ".......x",
		endOver:       "........",
	}
	for _, from := range endSteps {
		for i, next := range endSteps {
			e := newEnding()
			e.step = from
			want := allowed[from][i] == 'x'
			if e.isHurried() {
				close(e.hurried)
			}
			err := e.to(next)
			if (err == nil) != (want || from == next) {
				t.Errorf("%s to %s: %v", from, next, err)
			}
			if err != nil && e.step != from || err == nil && e.step != next {
				t.Errorf("%s to %s: it is at %s", from, next, e.step)
			}
			select {
			case <-e.hurried:
				if !e.isHurried() {
					t.Errorf("%s to %s: closed hurried", from, next)
				}
			default:
				if e.isHurried() {
					t.Errorf("%s to %s: did not close hurried", from, next)
				}
			}
		}
	}
}

// TestOpenSteps tries every pair of steps: the first answer settles the opening.
func TestOpenSteps(t *testing.T) {
	steps := []openStep{openWaiting, openAnswered, openFailed, openExited}
	for _, from := range steps {
		for _, next := range steps {
			o := newOpening()
			if from != openWaiting && !o.to(from, "first") {
				t.Fatalf("waiting to %s: refused", from)
			}
			want := from == openWaiting && next != openWaiting
			if got := o.to(next, "second"); got != want {
				t.Errorf("%s to %s: %v", from, next, got)
			}
			if !want && (o.step != from || o.why == "second") {
				t.Errorf("%s to %s: it is at %s (%s)", from, next, o.step, o.why)
			}
			select {
			case <-o.settled:
				if !o.isSettled() {
					t.Errorf("%s to %s: closed settled", from, next)
				}
			default:
				if o.isSettled() {
					t.Errorf("%s to %s: did not close settled", from, next)
				}
			}
		}
	}
}

// TestGivenUp: TRL gives a process up after a request to end it or when its session vanished, and
// never when the next daemon takes it over.
func TestGivenUp(t *testing.T) {
	for why, want := range map[string]string{"": ".....x..", "terminated": "xxxxxx.x"} { // in the order of endSteps
		for i, step := range endSteps {
			e := ending{step: step, why: why}
			if got := e.isGivenUp(); got != (want[i] == 'x') {
				t.Errorf("%s (%q): %v", step, why, got)
			}
		}
	}
}

// TestCreatedWhileTheDaemonEnds: the error of a creation that the end of the daemon cancels tells a client
// to ask the next daemon, but not if the sessions end, too, or if the agent has its first message.
func TestCreatedWhileTheDaemonEnds(t *testing.T) {
	for _, c := range []struct {
		why      error
		prompted bool
		again    bool
	}{{api.ErrDaemonEnding, false, true}, {api.ErrDaemonStopped, false, false}, {api.ErrDaemonEnding, true, false}, {api.ErrDaemonStopped, true, false}} {
		d, _ := quiet(t, filepath.Join(t.TempDir(), "d-1"), true)
		d.process = nil
		if err := d.endIfClosing(c.prompted); err != nil {
			t.Errorf("before the end: %v", err)
		}
		d.registry.refuseStarts(c.why)
		err := d.endIfClosing(c.prompted)
		if again := errors.Is(err, api.ErrDaemonEnding) && !api.SessionsEnded(err); err == nil || again != c.again {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestRefusedWhileTheDaemonEnds: a creation that comes while the daemon ends has the same error as one
// that its end cancels.
func TestRefusedWhileTheDaemonEnds(t *testing.T) {
	for _, why := range []error{api.ErrDaemonEnding, api.ErrDaemonStopped} {
		d, _ := quiet(t, filepath.Join(t.TempDir(), "d-1"), true)
		r := d.registry
		if err := r.reserve("d-2", reserved{}); err != nil {
			t.Errorf("before the end: %v", err)
		}
		r.release("d-2")
		r.refuseStarts(why)
		err := r.reserve("d-3", reserved{})
		if !errors.Is(err, api.ErrDaemonEnding) || api.SessionsEnded(err) != (why == api.ErrDaemonStopped) {
			t.Errorf("%v: %v", api.SessionsEnded(why), err)
		}
	}
}
