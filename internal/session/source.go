package session

import (
	"context"
	"errors"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
	"github.com/trl-dev/trl/internal/link"
)

// source is where the output and the screen of a session are read: its runner while the session
// lives (liveSource), its archive entry after the end (*archive.Entry). readFrom chooses.
type source interface {
	Read(link.ReadParams) (link.ReadResult, []byte, error)
	Output(link.OutputParams) (link.OutputResult, []byte, error)
	Grep(link.GrepParams) (link.GrepResult, []byte, error)
	Match(link.MatchParams) (link.MatchResult, []byte, error)
	Screen(api.SessionScreenParams) (api.SessionScreenResult, error)
	Snapshot(link.SnapshotParams) (link.SnapshotResult, []byte, error)
	Follow(link.FollowParams) (link.FollowResult, []byte, error)
}

var (
	_ source = liveSource{}
	_ source = (*archive.Entry)(nil)
)

// errRunnerGone is the error of a call to the runner of a session that has ended, or that was left
// to a later daemon. Callers outside of this package get endedError instead.
var errRunnerGone = errors.New("the runner has ended")

// readFrom calls read with the session's runner or, if the session has ended or ends during the
// call, with its archive entry.
func (s *Session) readFrom(ctx context.Context, read func(source) error) error {
	return s.readDue(ctx, time.Time{}, read)
}

// readDue is readFrom for a call that should have its answer at the time due; zero for never.
func (s *Session) readDue(ctx context.Context, due time.Time, read func(source) error) error {
	err := read(liveSource{s, ctx, due})
	if !errors.Is(err, errRunnerGone) {
		return err
	}
	entry := s.archived()
	if entry == nil {
		return s.endedError()
	}
	return read(entry)
}

// liveSource reads from the runner. It lives as long as one call, whose context it carries.
type liveSource struct {
	s   *Session
	ctx context.Context
	due time.Time // see callRunner
}

func (l liveSource) Read(p link.ReadParams) (r link.ReadResult, text []byte, err error) {
	text, err = l.s.callRunner(l.ctx, patienceFor(p.Wait), l.due, link.ExecRead.With(&p, nil, &r))
	return r, text, err
}

func (l liveSource) Output(p link.OutputParams) (r link.OutputResult, text []byte, err error) {
	text, err = l.s.callRunner(l.ctx, patienceFor(p.Wait), l.due, link.ExecOutput.With(&p, nil, &r))
	return r, text, err
}

// Grep lets the runner search, so that only the lines that match cross the link.
func (l liveSource) Grep(p link.GrepParams) (r link.GrepResult, text []byte, err error) {
	text, err = l.s.callRunner(l.ctx, awayPatience, l.due, link.ExecGrep.With(&p, nil, &r))
	return r, text, err
}

// Match is like Grep.
func (l liveSource) Match(p link.MatchParams) (r link.MatchResult, text []byte, err error) {
	text, err = l.s.callRunner(l.ctx, patienceFor(p.Wait), l.due, link.ExecMatch.With(&p, nil, &r))
	return r, text, err
}

func (l liveSource) Screen(p api.SessionScreenParams) (r api.SessionScreenResult, err error) {
	_, err = l.s.askRunner(l.ctx, link.Screen.With(&p, nil, &r))
	return r, err
}

func (l liveSource) Snapshot(p link.SnapshotParams) (r link.SnapshotResult, text []byte, err error) {
	text, err = l.s.askRunner(l.ctx, link.Snapshot.With(&p, nil, &r))
	return r, text, err
}

func (l liveSource) Follow(p link.FollowParams) (r link.FollowResult, text []byte, err error) {
	text, err = l.s.callRunner(l.ctx, patienceFor(p.Wait), l.due, link.Follow.With(&p, nil, &r))
	return r, text, err
}
