package session

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/journal"
	"github.com/trl-dev/trl/internal/link"
)

// bare makes a session in a state, without a runner.
func bare(state api.SessionState) *Session {
	log := slog.New(slog.DiscardHandler)
	return &Session{id: "s-0123456789", log: log, state: state, registry: &Registry{journal: journal.New(log)}}
}

// TestEveryPairOfStates tries every move, through the one function that makes them.
func TestEveryPairOfStates(t *testing.T) {
	all := []api.SessionState{api.SessionCreating, api.SessionIdle, api.SessionRunning, api.SessionTerminated}
	for _, from := range all {
		for _, next := range all {
			s := bare(from)
			err := s.toLocked(next, "because")
			if from.CanBecome(next) { // api has the table and its test
				if err != nil || s.state != next {
					t.Errorf("%s → %s: %v, state %s", from, next, err, s.state)
				}
				info := s.Info()
				if ended := next == api.SessionTerminated; ended != (info.TerminatedAt != nil) || ended != (info.Cause == "because") {
					t.Errorf("%s → %s: terminated_at %v, cause %q", from, next, info.TerminatedAt, info.Cause)
				}
				continue
			}
			if err == nil || s.state != from {
				t.Errorf("%s → %s was made", from, next)
				continue
			}
			if !strings.Contains(err.Error(), string(from)) || !strings.Contains(err.Error(), string(next)) || api.AsError(err).Code != api.CodeInternal {
				t.Errorf("%s → %s: %v", from, next, err)
			}
		}
	}
}

// TestRunnersWordIsTaken applies what a runner may say in every state.
func TestRunnersWordIsTaken(t *testing.T) {
	for _, c := range []struct {
		from, said, want api.SessionState
	}{
		{api.SessionCreating, api.SessionIdle, api.SessionCreating}, // the creator decides when it is seen
		{api.SessionCreating, api.SessionRunning, api.SessionCreating},
		{api.SessionIdle, api.SessionIdle, api.SessionIdle},
		{api.SessionIdle, api.SessionRunning, api.SessionRunning},
		{api.SessionRunning, api.SessionIdle, api.SessionIdle},
		{api.SessionRunning, api.SessionTerminated, api.SessionRunning}, // the end of the runner decides
		{api.SessionIdle, api.SessionCreating, api.SessionIdle},         // nonsense
		{api.SessionIdle, "asleep", api.SessionIdle},
		{api.SessionTerminated, api.SessionIdle, api.SessionTerminated},
	} {
		s := bare(c.from)
		s.details.Name, s.details.Runtime = "build", "host"
		s.applyReportLocked(api.SessionInfo{State: c.said, SessionID: "s-other", Name: "other", CommandCount: 3, Cause: "x"}, link.Ages{})
		info := s.Info()
		if info.State != c.want || info.SessionID == "s-other" || info.Name != "build" || info.Runtime != "host" || info.Cause != "" {
			t.Errorf("%s, said %s: %+v, want %s", c.from, c.said, info, c.want)
		}
	}
}

// TestAnswerDoesNotOvertakeEvents is about an answer that was made before an event
// and is heard after it.
func TestAnswerDoesNotOvertakeEvents(t *testing.T) {
	s := bare(api.SessionIdle)
	before := s.reports
	s.reports++
	s.applyReportLocked(api.SessionInfo{State: api.SessionRunning, CommandCount: 2}, link.Ages{})
	s.applyDetailsLocked(link.SessionDetails{SessionDetails: api.SessionDetails{SessionInfo: api.SessionInfo{State: api.SessionIdle, CommandCount: 1}, ShellPID: 7}}, before)
	if info := s.Info(); info.State != api.SessionRunning || info.CommandCount != 2 || s.details.ShellPID != 7 {
		t.Errorf("info = %+v, details = %+v", info, s.details)
	}
	s.applyDetailsLocked(link.SessionDetails{SessionDetails: api.SessionDetails{SessionInfo: api.SessionInfo{State: api.SessionIdle, CommandCount: 3}}}, s.reports)
	if info := s.Info(); info.State != api.SessionIdle || info.CommandCount != 3 {
		t.Errorf("info = %+v", info)
	}
}
