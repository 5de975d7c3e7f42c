package session

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/search"
	"github.com/trl-dev/trl/internal/terminal/cast"
)

// recordingFile is the file of a recording.
type recordingFile struct {
	id   string
	size int64
	at   time.Time // of the last change
}

// files returns the files of all recordings.
func (rs *recordings) files() (list []recordingFile) {
	if rs.dir == "" {
		return nil
	}
	entries, _ := os.ReadDir(rs.dir)
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), link.RecordFile(""))
		info, err := e.Info()
		if ok && err == nil && info.Mode().IsRegular() {
			list = append(list, recordingFile{id, info.Size(), info.ModTime()})
		}
	}
	return list
}

// Recordings lists the recordings, the newest first: those of live sessions, of ended ones and of
// sessions that are no longer known.
func (r *Registry) Recordings(p api.RecordingListParams) (api.RecordingListResult, error) {
	result := api.RecordingListResult{Recordings: []api.KeptRecording{}}
	var all []api.KeptRecording
	for _, f := range r.recordings.files() {
		result.TotalBytes += f.size
		if info, ok := r.keptRecording(f); ok {
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b api.KeptRecording) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), strings.Compare(b.RecordingID, a.RecordingID))
	})
	if p.Before != "" {
		i := slices.IndexFunc(all, func(info api.KeptRecording) bool { return info.RecordingID == p.Before })
		if i < 0 {
			return result, api.InvalidParam("before", "recording %q: not found; begin again without before", p.Before)
		}
		all = all[i+1:]
	}
	if limit := cmp.Or(p.Limit, api.DefaultRecordingsLimit); len(all) > limit {
		all = all[:limit]
		result.NextBefore = all[limit-1].RecordingID
	}
	result.Recordings = append(result.Recordings, all...)
	return result, nil
}

// keptRecording describes a recording by the header of its file. It reports false for a file that has
// no header.
func (r *Registry) keptRecording(f recordingFile) (api.KeptRecording, bool) {
	file, err := os.Open(r.recordings.path(f.id))
	if err != nil {
		return api.KeptRecording{}, false
	}
	defer file.Close()
	reader, err := cast.NewReader(io.LimitReader(file, maxRecordingHeader))
	if err != nil {
		return api.KeptRecording{}, false
	}
	h := reader.Header()
	info := api.KeptRecording{
		RecordingID: f.id, Command: h.Command, Cols: h.Cols, Rows: h.Rows, Bytes: f.size, Live: r.isLive(f.id),
		StartedAt: h.Time.UTC(), ChangedAt: f.at.UTC(),
	}
	if s, err := r.Get(f.id); err == nil {
		info.Name = s.Info().Name
	}
	return info, true
}

// maxRecordingHeader bounds the first line of a recording.
const maxRecordingHeader = 1 << 20

// ReadRecording reads a piece of a recording, also of a session that is no longer known.
func (r *Registry) ReadRecording(ctx context.Context, p api.RecordingReadParams) (api.RecordingReadResult, error) {
	if s, err := r.Get(p.RecordingID); err == nil {
		piece, err := s.Recording(ctx, api.SessionRecordingParams{SessionID: s.id, Offset: p.Offset, Limit: p.Limit})
		return api.RecordingReadResult{RecordingID: s.id, Offset: piece.Offset, Data: piece.Data, Total: piece.Total, Complete: piece.Complete}, err
	}
	limit := int64(defaultRecordingLimit)
	if p.Limit != nil {
		limit = max(*p.Limit, utf8.UTFMax) // any character must fit
	}
	data, total, err := r.recordings.read(p.RecordingID, p.Offset, limit, 0)
	if err != nil {
		return api.RecordingReadResult{}, recordingFault(p.RecordingID, err)
	}
	complete := p.Offset+int64(len(data)) == total
	if !complete {
		data = data[:len(data)-search.TornEnd(data)]
	}
	return api.RecordingReadResult{RecordingID: p.RecordingID, Offset: p.Offset, Data: string(data), Total: total, Complete: complete}, nil
}

// DeleteRecording deletes the recording of a session that does not live.
func (r *Registry) DeleteRecording(id string) (api.RecordingDeleteResult, error) {
	if r.isLive(id) {
		return api.RecordingDeleteResult{}, api.Errorf(api.CodeConflict, "recording %q: its session lives; end it first", id)
	}
	if r.recordings.dir == "" {
		return api.RecordingDeleteResult{}, recordingFault(id, fs.ErrNotExist)
	}
	info, err := os.Lstat(r.recordings.path(id))
	if err == nil {
		err = os.Remove(r.recordings.path(id))
	}
	if err != nil {
		return api.RecordingDeleteResult{}, recordingFault(id, err)
	}
	return api.RecordingDeleteResult{RecordingID: id, Bytes: info.Size()}, nil
}

// recordingFault is the error of a recording that cannot be read or deleted.
func recordingFault(id string, err error) error {
	var known *api.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return api.Errorf(api.CodeSessionNotFound, "recording %q: not found", id)
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "recording %q: %s", id, err)
}
