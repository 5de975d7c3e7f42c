package session

import (
	"slices"
	"testing"

	"github.com/trl-dev/trl/api"
)

var allEndSteps = []endStep{endNone, endExporting, endRequested, endForced, endRemoving, endLeft}

// TestEveryPairOfEndSteps tries every move, through the one function that makes them.
func TestEveryPairOfEndSteps(t *testing.T) {
	allowed := map[[2]endStep]bool{
		{endNone, endExporting}: true,
		{endNone, endRequested}: true,
		{endNone, endForced}:    true,
		{endNone, endRemoving}:  true, // the runner died
		{endNone, endLeft}:      true,

		{endExporting, endForced}:   true,
		{endExporting, endRemoving}: true,
		{endExporting, endLeft}:     true, // the later daemon asks for the output again

		{endRequested, endForced}:   true,
		{endRequested, endRemoving}: true,

		{endForced, endRemoving}: true,
	}
	for _, from := range allEndSteps {
		for _, next := range allEndSteps {
			s := bare(api.SessionIdle)
			s.ending = ending{step: from, cause: "earlier"}
			if from == endNone {
				s.ending.cause = ""
			}
			before := s.ending
			moved := s.endLocked(next, "because")
			if moved != allowed[[2]endStep{from, next}] {
				t.Errorf("%q → %q: moved = %v", from, next, moved)
			}
			want := before
			if moved {
				want.step = next
				if from == endNone {
					want.cause, want.own = "because", next == endExporting
				}
			}
			if s.ending.step != want.step || s.ending.cause != want.cause || s.ending.own != want.own {
				t.Errorf("%q → %q: %+v, want %+v", from, next, s.ending, want)
			}
		}
	}
}

// TestFinalEndSteps: nothing begins in a session that is removed or left.
func TestFinalEndSteps(t *testing.T) {
	for _, step := range allEndSteps {
		if want := slices.Contains([]endStep{endRemoving, endLeft}, step); step.isFinal() != want {
			t.Errorf("%q: final = %v", step, !want)
		}
	}
	for _, step := range []endStep{endRemoving, endLeft} {
		for _, force := range []bool{false, true} {
			s := bare(api.SessionIdle)
			s.ending.step = step
			s.ending.report = &endReport{}
			s.destroy(force, "destroyed")
			s.requestExportLocked()
			if s.ending.step != step || s.ending.cause != "" {
				t.Errorf("%q, force %v: %+v", step, force, s.ending)
			}
		}
	}
}

// TestCauseOfAnEnd: the daemon's reason counts before the runner's, which counts before how the
// runner died.
func TestCauseOfAnEnd(t *testing.T) {
	died := Remains{Cause: "killed by SIGKILL"}
	report := &endReport{cause: "the shell exited"}
	for _, c := range []struct {
		ending  ending
		remains Remains
		want    string
	}{
		{ending{}, Remains{}, "its runner died"},
		{ending{}, died, "its runner died: killed by SIGKILL"},
		{ending{report: &endReport{}}, died, "its runner died: killed by SIGKILL"},
		{ending{report: report}, died, "the shell exited"},
		{ending{step: endExporting, own: true, report: report}, died, "the shell exited"},
		{ending{step: endRequested, cause: "destroyed", report: report}, died, "destroyed"},
	} {
		s := bare(api.SessionIdle)
		s.ending = c.ending
		if got := s.causeLocked(c.remains); got != c.want {
			t.Errorf("%+v: %q, want %q", c.ending, got, c.want)
		}
	}
}
