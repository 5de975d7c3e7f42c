package testkit

import (
	"testing"
	"time"
)

// patience is how long Eventually waits. A test that passes never waits that long, so the time only
// has to be longer than a busy machine can hold up a program.
const patience = 2 * time.Minute

// Eventually waits until holds returns true. It polls, so it is only for states that nothing
// announces. The test fails at once if what, a sentence such as "the session is idle", never comes
// true.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	EventuallyNoProblem(t, func() string {
		if holds() {
			return ""
		}
		return "not true: " + what
	})
}

// EventuallyNoProblem is Eventually for a state that can say how it differs from the expected one:
// it waits until problem returns "", and the test fails with the last problem.
func EventuallyNoProblem(t testing.TB, problem func() string) {
	t.Helper()
	end := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		late := time.Now().After(end) // read before problem, so that a slow problem gets another try
		p := problem()
		if p == "" {
			return
		}
		if late {
			t.Fatalf("still after %s: %s", patience, p)
		}
		time.Sleep(pause)
	}
}
