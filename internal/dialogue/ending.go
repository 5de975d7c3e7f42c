package dialogue

import (
	"fmt"
	"slices"
)

// ending is how far the end of an agent's process has come. There is one per process, and later
// requests to end the process join it. The dialogue's mu guards it.
type ending struct {
	step endStep // written by to alone
	why  string  // the reason of the first request to end the process; empty before there is one
	// hurried is closed when the process must not be given any more time to end on its own.
	hurried chan struct{}
}

// endStep is a step towards the end of a process.
type endStep string

const (
	endNone       endStep = "none"       // the process runs
	endAsked      endStep = "asked"      // its stdin is closed, and the process has the grace time to end on its own
	endForced     endStep = "forced"     // the grace time is over
	endDestroying endStep = "destroying" // the dialogue destroys the session; the step stays if that fails
	endDestroyed  endStep = "destroyed"  // the dialogue has destroyed the session
	endVanished   endStep = "vanished"   // the session no longer exists, and the dialogue did not destroy it
	endLeft       endStep = "left"       // the process goes on for the next daemon; this one has released it
	endOver       endStep = "over"       // the dialogue has recorded the end of the process
)

var endMoves = map[endStep][]endStep{
	endNone:       {endAsked, endDestroying, endVanished, endLeft, endOver},
	endAsked:      {endForced, endDestroying, endVanished, endLeft, endOver},
	endForced:     {endDestroying, endVanished, endLeft, endOver},
	endDestroying: {endDestroyed, endVanished, endLeft, endOver},
	endDestroyed:  {endLeft, endOver},
	endVanished:   {endLeft, endOver},
	endLeft:       {endOver}, // the exit of the process was already received
}

func (s endStep) canBecome(next endStep) bool { return slices.Contains(endMoves[s], next) }

func newEnding() ending { return ending{step: endNone, hurried: make(chan struct{})} }

// to moves to the next step; nothing else writes the step. Every step after asked closes hurried.
func (e *ending) to(next endStep) error {
	if next == e.step {
		return nil
	}
	if !e.step.canBecome(next) {
		return fmt.Errorf("the end of a process cannot go from %s to %s", e.step, next)
	}
	hurried := e.isHurried()
	if e.step = next; !hurried && e.isHurried() {
		close(e.hurried)
	}
	return nil
}

// tryTo moves to the next step unless the end has already come further.
func (e *ending) tryTo(next endStep) {
	if e.step.canBecome(next) {
		_ = e.to(next) // allowed, as just checked
	}
}

// because notes the reason to end the process. The first one counts.
func (e *ending) because(why string) {
	if e.why == "" {
		e.why = why
	}
}

func (e *ending) isHurried() bool { return e.step != endNone && e.step != endAsked }

// isRequested reports whether the end of the process was requested.
func (e *ending) isRequested() bool { return e.why != "" }

// isLeft reports whether the next daemon takes over the process.
func (e *ending) isLeft() bool { return e.step == endLeft }

// isGivenUp reports whether the dialogue no longer waits for the process: its end was requested, or
// its session no longer exists. A process that the next daemon takes over is not given up.
func (e *ending) isGivenUp() bool { return (e.isRequested() || e.step == endVanished) && !e.isLeft() }

// opening says whether the agent has answered for the first time. The dialogue's mu guards it.
type opening struct {
	step openStep // written by to alone
	why  string   // why the conversation could not be opened
	// settled is closed when the step is no longer openWaiting.
	settled chan struct{}
}

// openStep is a step of opening the conversation with an agent.
type openStep string

const (
	openWaiting  openStep = "waiting"  // the agent has not answered yet
	openAnswered openStep = "answered" // the agent takes messages
	openFailed   openStep = "failed"   // the agent refused, did not answer in time, or cannot be reached
	openExited   openStep = "exited"   // the process ended before the agent answered
)

var openMoves = map[openStep][]openStep{
	openWaiting: {openAnswered, openFailed, openExited},
}

func (s openStep) canBecome(next openStep) bool { return slices.Contains(openMoves[s], next) }

func newOpening() opening { return opening{step: openWaiting, settled: make(chan struct{})} }

// to moves from openWaiting to the step that settles the opening, and reports whether it did: the
// first one counts. Nothing else writes the step. why is the reason of openFailed.
func (o *opening) to(next openStep, why string) bool {
	if !o.step.canBecome(next) {
		return false
	}
	o.step, o.why = next, why
	close(o.settled)
	return true
}

func (o *opening) isSettled() bool { return o.step != openWaiting }
