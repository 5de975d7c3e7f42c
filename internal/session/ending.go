package session

import (
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
	"github.com/trl-dev/trl/internal/link"
)

// endStep is how far the end of a session has come.
type endStep string

const (
	endNone      endStep = ""          // the session lives
	endExporting endStep = "exporting" // it ended by itself; its runner hands over the output and then exits
	endRequested endStep = "requested" // the daemon has requested the end from its runner, with the grace time
	endForced    endStep = "forced"    // it is ended without the grace time
	endRemoving  endStep = "removing"  // its runner has exited or is being killed; final
	endLeft      endStep = "left"      // it goes on without this daemon, and a later one takes it over; final
)

// nextEndSteps has the steps that may follow each step. A request to end a session that is being
// ended has no effect, except that a forced one overtakes one that is not.
var nextEndSteps = map[endStep][]endStep{
	endNone:      {endExporting, endRequested, endForced, endRemoving, endLeft},
	endExporting: {endForced, endRemoving, endLeft},
	endRequested: {endForced, endRemoving},
	endForced:    {endRemoving},
	endRemoving:  {},
	endLeft:      {},
}

// isFinal reports whether nothing new may begin in the session.
func (e endStep) isFinal() bool { return len(nextEndSteps[e]) == 0 }

// ending is the end of a session, from the first reason to end it to the output that stays
// readable. The session's mu guards it; only endLocked changes the step.
type ending struct {
	step endStep
	// cause is why the daemon ends the session; empty if it did not.
	cause string
	// own says that the session ended by itself, and the daemon only fetches its output.
	own bool
	// report is the runner's report that the session has ended; nil before it came.
	report *endReport
	// result is the runner's account of a complete end: what it killed, and its commands. It is
	// nil before, and if the runner died.
	result *link.DestroyResult
	// entry has the output of the ended session; nil if it is not kept.
	entry *archive.Entry
	// recorded says that the daemon has the whole recording.
	recorded bool
	// lost says that the runner could not be killed, because its place cannot be reached.
	lost bool
	// killed are all processes that had to be killed, set when the session is terminated.
	killed []api.KilledProcess
	// at is when the session ended. It has a monotonic reading.
	at time.Time
}

// endReport is a runner's report that its session has ended.
type endReport struct {
	cause string
	at    *time.Time // by the clock of the machine
}

// endLocked moves the ending to its next step, for a cause if that is the daemon's; nothing else
// writes the step. The cause of the first step stays. endLocked returns false, and changes
// nothing, if nextEndSteps does not have the move.
func (s *Session) endLocked(next endStep, cause string) bool {
	e := &s.ending
	if !slices.Contains(nextEndSteps[e.step], next) {
		return false
	}
	if e.step == endNone {
		e.cause, e.own = cause, next == endExporting
	}
	e.step = next
	return true
}

// isLeft reports whether the session is left to a later daemon.
func (s *Session) isLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending.step == endLeft
}

// causeLocked returns why the session ended: the daemon's reason, the runner's when the session
// ended by itself, or how the runner died.
func (s *Session) causeLocked(remains Remains) string {
	e := &s.ending
	switch {
	case e.cause != "":
		return e.cause
	case remains.PlaceEnded: // that is also why the runner ended, if it reported an end
		return remains.Cause
	case e.report != nil && e.report.cause != "":
		return e.report.cause
	case remains.Cause != "":
		return "its runner died: " + remains.Cause
	}
	return "its runner died"
}
