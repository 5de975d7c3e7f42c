package service

import (
	"context"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/search"
	"github.com/trl-dev/trl/internal/session"
)

// SessionInput types into a terminal, or writes to the stdin of a program.
func (s *Service) SessionInput(ctx context.Context, p api.SessionInputParams) (api.SessionInputResult, error) {
	if err := p.Check(); err != nil {
		return api.SessionInputResult{}, err
	}
	found, err := s.sessionOfKind(ctx, "session.input", p.SessionID, api.KindTerminal, api.KindProgram)
	if err != nil {
		return api.SessionInputResult{}, err
	}
	if err := notOwned(ctx, found, p.Force, "dialogue.send"); err != nil {
		return api.SessionInputResult{}, err
	}
	terminal := found.Kind() == api.KindTerminal
	switch {
	case terminal && p.Close:
		return api.SessionInputResult{}, api.InvalidParam("close", "is only for kind program; a terminal has no end of input but the key ctrl-d")
	case !terminal && p.Paste != "":
		return api.SessionInputResult{}, api.InvalidParam("paste", "is only for kind terminal")
	case !terminal && len(p.Keys) > 0:
		return api.SessionInputResult{}, api.InvalidParam("keys", "is only for kind terminal")
	}
	data, paste := p.Data(), p.Paste != ""
	if paste {
		data = []byte(p.Paste)
	}
	return found.Type(ctx, link.SessionInputParams{WriteID: p.WriteID, Paste: paste, Keys: p.Keys, Close: p.Close}, data)
}

// SessionResize changes the size of a terminal.
func (s *Service) SessionResize(ctx context.Context, p api.SessionResizeParams) (api.SessionResizeResult, error) {
	if err := p.Check(); err != nil {
		return api.SessionResizeResult{}, err
	}
	found, err := s.sessionOfKind(ctx, "session.resize", p.SessionID, api.KindTerminal)
	if err != nil {
		return api.SessionResizeResult{}, err
	}
	return found.Resize(ctx, p)
}

// SessionScreen returns the screen of a terminal, or its last screen.
func (s *Service) SessionScreen(ctx context.Context, p api.SessionScreenParams) (api.SessionScreenResult, error) {
	if err := p.Check(); err != nil {
		return api.SessionScreenResult{}, err
	}
	found, err := s.sessionOfKind(ctx, "session.screen", p.SessionID, api.KindTerminal)
	if err != nil {
		return api.SessionScreenResult{}, err
	}
	return found.Screen(ctx, p)
}

// SessionRecording reads a piece of the recording of a terminal, while the session lives or after
// its end.
func (s *Service) SessionRecording(ctx context.Context, p api.SessionRecordingParams) (api.SessionRecordingResult, error) {
	if err := p.Check(); err != nil {
		return api.SessionRecordingResult{}, err
	}
	found, err := s.sessionOfKind(ctx, "session.recording", p.SessionID, api.KindTerminal)
	if err != nil {
		return api.SessionRecordingResult{}, err
	}
	return found.Recording(ctx, p)
}

// RecordingList lists the recordings of terminals.
func (s *Service) RecordingList(_ context.Context, p api.RecordingListParams) (api.RecordingListResult, error) {
	if err := p.Check(); err != nil {
		return api.RecordingListResult{}, err
	}
	return s.registry.Recordings(p)
}

// RecordingRead reads a piece of a recording.
func (s *Service) RecordingRead(ctx context.Context, p api.RecordingReadParams) (api.RecordingReadResult, error) {
	if err := p.Check(); err != nil {
		return api.RecordingReadResult{}, err
	}
	return s.registry.ReadRecording(ctx, p)
}

// RecordingDelete deletes the recording of a session that has ended.
func (s *Service) RecordingDelete(_ context.Context, p api.RecordingDeleteParams) (api.RecordingDeleteResult, error) {
	if err := p.Check(); err != nil {
		return api.RecordingDeleteResult{}, err
	}
	return s.registry.DeleteRecording(p.RecordingID)
}

// SessionWait waits until something happens in a terminal or program.
func (s *Service) SessionWait(ctx context.Context, p api.SessionWaitParams) (api.SessionWaitResult, error) {
	if err := p.Check(); err != nil {
		return api.SessionWaitResult{}, err
	}
	if p.Text != "" {
		if _, err := search.Compile("text", p.Text); err != nil {
			return api.SessionWaitResult{}, err
		}
	}
	found, err := s.sessionOfKind(ctx, "session.wait", p.SessionID, api.KindTerminal, api.KindProgram)
	if err != nil {
		return api.SessionWaitResult{}, err
	}
	if p.Cursor != nil && found.Kind() != api.KindTerminal {
		return api.SessionWaitResult{}, api.InvalidParam("cursor", "is only for kind terminal")
	}
	r, err := found.Await(ctx, p.InMilliseconds())
	if r.Reason == api.WaitIdle || r.Reason == api.WaitIdleMS {
		r.Reason = p.IdleReason()
	}
	return r, err
}

// sessionOfKind finds a session of one of the kinds that a method is for. Ended sessions return
// their own error later.
func (s *Service) sessionOfKind(ctx context.Context, method, ref string, kinds ...api.SessionKind) (*session.Session, error) {
	found, err := s.session(ctx, ref)
	if err != nil {
		return nil, err
	}
	if err := found.Known(ctx); err != nil {
		return nil, err
	}
	if kind := found.Kind(); !slices.Contains(kinds, kind) {
		var words []string
		for _, k := range kinds {
			words = append(words, string(k)+"s")
		}
		return nil, wrongKind(found, method+" is for "+strings.Join(words, " and "))
	}
	return found, nil
}

// takesCommands returns an error for a session that cannot run commands.
func takesCommands(found *session.Session) error {
	if found.Kind() == api.KindShell {
		return nil
	}
	return wrongKind(found, "it takes session.input, not commands")
}

func wrongKind(found *session.Session, why string) error {
	kind := found.Kind()
	e := api.Errorf(api.CodeInvalidParams, "session %q: is a %s; %s", found.Label(), kind, why)
	e.Details = map[string]any{"field": "session_id", "kind": kind}
	return e
}
