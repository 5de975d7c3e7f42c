package archive

import (
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/terminal"
)

// Screen answers session.screen with the last screen.
func (e *Entry) Screen(p api.SessionScreenParams) (api.SessionScreenResult, error) {
	past, err := e.terminal()
	if err != nil {
		return api.SessionScreenResult{}, err
	}
	return past.Screen(p), nil
}

// Snapshot answers snapshot with the last screen.
func (e *Entry) Snapshot(p link.SnapshotParams) (link.SnapshotResult, []byte, error) {
	past, err := e.terminal()
	if err != nil {
		return link.SnapshotResult{}, nil, err
	}
	r, data := past.Snapshot(p.Scrollback)
	return r, data, nil
}

// terminal restores the terminal as it was when its program ended. That takes some milliseconds,
// but no memory while the screen is not read.
func (e *Entry) terminal() (*terminal.Past, error) {
	screen, err := e.past.Screen()
	if err != nil {
		return nil, err
	}
	if screen == nil {
		return nil, api.Errorf(api.CodeSessionTerminated, "session %q: has ended, and its last screen is not kept", e.id)
	}
	return terminal.Restore(screen.Data, screen.SnapshotResult), nil
}

// Follow answers follow, for a viewer that had not read all output before the end. It reports no
// changes of size.
func (e *Entry) Follow(p link.FollowParams) (link.FollowResult, []byte, error) {
	r := link.FollowResult{Resizes: max(p.Resizes, 0)}
	info := e.past.Result.Info
	if info.Terminal != nil {
		r.Cols, r.Rows = info.Terminal.Cols, info.Terminal.Rows
	}
	out, body, err := e.Output(link.OutputParams{ExecID: info.ExecID, Stream: api.EventStdout, Offset: p.Offset, Limit: p.Limit})
	switch {
	case err != nil:
		return r, nil, err
	case out.Gap != nil || p.Backlog > 0 && out.Total-p.Offset > p.Backlog:
		r.Behind = true
		return r, nil, nil
	case !out.Complete:
		return r, body[:len(body)-torn(body)], nil
	}
	for _, x := range e.past.Result.Execs {
		if x.ExecID == info.ExecID {
			r.Outcome = x.Outcome
		}
	}
	if r.Outcome == nil {
		return r, nil, api.Errorf(api.CodeSessionTerminated, "session %q: has ended: %s", e.id, info.Cause)
	}
	return r, body, nil
}

// torn returns how many bytes at the end are an incomplete character; 0 if b is nothing else.
func torn(b []byte) int {
	for n := 1; n < min(utf8.UTFMax, len(b)); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if utf8.FullRune(b[len(b)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}
