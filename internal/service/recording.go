package service

import (
	"context"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/search"
)

// defaultRecording is how many bytes of a recording are read by default.
const defaultRecording = 1 << 20

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
	limit := int64(defaultRecording)
	if p.Limit != nil {
		limit = max(*p.Limit, utf8.UTFMax) // any character must fit
	}
	data, total, info, err := found.Recording(ctx, p.Offset, limit)
	if err != nil {
		return api.SessionRecordingResult{}, err
	}
	over := info.State == api.SessionTerminated || info.Terminal.Recording.Stopped != ""
	complete := over && p.Offset+int64(len(data)) == total
	if !complete {
		data = data[:len(data)-search.TornEnd(data)]
	}
	return api.SessionRecordingResult{
		SessionID: found.ID(), Offset: p.Offset, Data: string(data), Total: total, Complete: complete, RecordedAt: info.CreatedAt,
	}, nil
}
