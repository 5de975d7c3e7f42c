package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/search"
)

// recordsInPlaceLocked reports whether the session is recorded in a place that does not share the
// daemon's directory.
func (s *Session) recordsInPlaceLocked() bool {
	t := s.details.Terminal
	return t != nil && t.Recording != nil && s.runner != nil && s.runner.Place().RecordDir == ""
}

// noteLostRecordingLocked reports a recording whose end was lost with the runner. An earlier daemon
// may have fetched all of it: the runner's last report has its size.
func (s *Session) noteLostRecordingLocked() {
	if !s.recordsInPlaceLocked() || s.ending.recorded {
		return
	}
	t, r := *s.details.Terminal, *s.details.Terminal.Recording
	if stat, err := os.Stat(r.Path); err == nil {
		if s.ending.result != nil && stat.Size() >= r.Bytes {
			return
		}
		r.Bytes = stat.Size()
	}
	r.Stopped = "its runner died before the daemon had fetched the rest"
	t.Recording = &r
	s.details.Terminal = &t
}

// isRecorded reports whether a session has a recording, or had one.
func isRecorded(info api.SessionInfo) bool {
	return info.Terminal != nil && info.Terminal.Recording != nil
}

// defaultRecordingLimit is how many bytes of a recording are read by default.
const defaultRecordingLimit = 1 << 20

// Recording reads a piece of the recording of a terminal, while the session lives or after its end.
// The piece ends with a whole character.
func (s *Session) Recording(ctx context.Context, p api.SessionRecordingParams) (api.SessionRecordingResult, error) {
	limit := int64(defaultRecordingLimit)
	if p.Limit != nil {
		limit = max(*p.Limit, utf8.UTFMax) // any character must fit
	}
	info := s.Info()
	if !isRecorded(info) {
		return api.SessionRecordingResult{}, api.Errorf(api.CodeInvalidParams, "session %q: is not recorded; create it with record: true", s.Label())
	}
	s.mu.Lock()
	inPlace := s.recordsInPlaceLocked() && s.state != api.SessionTerminated
	s.mu.Unlock()
	var data []byte
	var total int64
	err := errRunnerGone // the file has everything
	if inPlace {
		data, total, err = s.readLive(ctx, p.Offset, limit)
	}
	if errors.Is(err, errRunnerGone) {
		if inPlace && s.isLeft() {
			return api.SessionRecordingResult{}, s.endedError() // the next daemon has the rest
		}
		info = s.Info()
		data, total, err = s.registry.recordings.read(s.id, p.Offset, limit, 0)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return api.SessionRecordingResult{}, api.Errorf(api.CodeConflict, "session %q: its recording was removed", s.Label())
	case err != nil:
		return api.SessionRecordingResult{}, s.recordingError(err)
	}
	over := info.State == api.SessionTerminated || info.Terminal.Recording.Stopped != ""
	complete := over && p.Offset+int64(len(data)) == total
	if !complete {
		data = data[:len(data)-search.TornEnd(data)]
	}
	return api.SessionRecordingResult{
		SessionID: s.id, Offset: p.Offset, Data: string(data), Total: total, Complete: complete, RecordedAt: info.CreatedAt,
	}, nil
}

// readLive reads a piece of a recording that its runner still writes in another place, and returns the size of
// the recording. The daemon's file is the beginning of the recording: a piece that continues it is fetched
// into it, and one that begins later comes from the runner alone, without everything before it.
func (s *Session) readLive(ctx context.Context, offset, limit int64) (data []byte, total int64, err error) {
	call := func(o link.Outgoing) ([]byte, error) { return s.askRunner(ctx, o) }
	if stat, err := os.Stat(s.registry.recordings.path(s.id)); offset == 0 || err == nil && offset <= stat.Size() {
		if total, err = s.fetchRecording(ctx, offset+limit, call); err != nil {
			return nil, 0, err
		}
		return s.registry.recordings.read(s.id, offset, limit, total)
	}
	for {
		var r link.RecordingResult
		p := link.RecordingParams{Offset: offset + int64(len(data)), Limit: int(min(limit-int64(len(data)), recordingPiece))}
		piece, err := call(link.Recording.With(&p, nil, &r))
		if err != nil {
			return nil, 0, err
		}
		if offset > r.Total {
			return nil, 0, beyondEnd(offset, r.Total)
		}
		data = append(data, piece...)
		if len(piece) == 0 || int64(len(data)) >= limit {
			return data, r.Total, nil
		}
	}
}

func beyondEnd(offset, total int64) error {
	return api.InvalidParam("offset", "%d is beyond the end, which is %d", offset, total)
}

// read reads the daemon's file of a recording, and returns the size of the recording, which is at least
// atLeast.
func (rs *recordings) read(id string, offset, limit, atLeast int64) (data []byte, total int64, err error) {
	if rs.dir == "" {
		return nil, 0, fs.ErrNotExist
	}
	f, err := os.Open(rs.path(id))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	total = max(atLeast, stat.Size())
	if offset > total {
		return nil, 0, beyondEnd(offset, total)
	}
	data = make([]byte, min(limit, total-offset))
	n, err := f.ReadAt(data, offset)
	if err != nil && err != io.EOF {
		return nil, 0, err
	}
	return data[:n], total, nil
}

func (s *Session) recordingError(err error) error {
	var known *api.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "session %q: its recording: %s", s.Label(), err)
}

// fetchRecording fetches the recording from the runner until the daemon's file has that many
// bytes, or all of them, and returns the size of the recording. The file is always the beginning
// of the recording, so a later daemon goes on where its size says.
func (s *Session) fetchRecording(ctx context.Context, size int64, call func(link.Outgoing) ([]byte, error)) (total int64, err error) {
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	f, err := os.OpenFile(s.registry.recordings.path(s.id), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, s.recordingError(err)
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return 0, s.recordingError(err)
	}
	for have := stat.Size(); ; {
		var r link.RecordingResult
		p := link.RecordingParams{Offset: have, Limit: int(max(0, min(size-have, recordingPiece)))}
		data, err := call(link.Recording.With(&p, nil, &r))
		if err != nil {
			return 0, err
		}
		if _, err := f.Write(data); err != nil {
			return 0, s.recordingError(err)
		}
		have += int64(len(data))
		s.mu.Lock()
		s.recorded = have
		s.mu.Unlock()
		if len(data) == 0 || have >= min(size, r.Total) {
			return r.Total, nil
		}
	}
}

// fetchRecordingLater fetches the recording of a terminal in another place, when it has grown.
func (s *Session) fetchRecordingLater() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.recordsInPlaceLocked() || s.ending.step != endNone || s.details.Terminal.Recording.Bytes < s.recorded+fetchGrowth {
		return
	}
	s.recorded = s.details.Terminal.Recording.Bytes // fetchRecording sets it again
	// The connection is read by one of the tasks, so the count does not start from zero.
	s.registry.tasks.Go(func() {
		_, err := s.fetchRecording(s.ctx, 1<<62, func(o link.Outgoing) ([]byte, error) { return s.askRunner(s.ctx, o) })
		if err != nil && !errors.Is(err, errRunnerGone) && s.ctx.Err() == nil {
			s.log.Warn("recording cannot be fetched; it is fetched again later", "error", err)
			if IsUnreachable(err) {
				s.mu.Lock()
				s.recorded = 0 // the next report, or the next connection, fetches it
				s.mu.Unlock()
			}
		}
	})
}

// fetchLastRecording fetches the rest of the recording of a session that has ended in another
// place, and tells its runner that it has everything. It reports whether the runner can exit.
func (s *Session) fetchLastRecording(call func(link.Outgoing) ([]byte, error)) bool {
	s.mu.Lock()
	inPlace := s.recordsInPlaceLocked()
	s.mu.Unlock()
	if !inPlace {
		return true
	}
	total, err := s.fetchRecording(context.Background(), 1<<62, call)
	if err == nil {
		_, err = call(link.Recording.With(&link.RecordingParams{Offset: total, Fetched: true}, nil, &link.RecordingResult{}))
	}
	if err != nil {
		s.log.Warn("the end of a recording is lost", "error", err)
	}
	return err == nil
}
