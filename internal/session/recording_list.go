package session

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
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
func (rs *recordings) files() (list []recordingFile, err error) {
	if rs.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(rs.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it is made with the first recording
		return nil, err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), link.RecordFile(""))
		info, err := e.Info()
		if ok && err == nil && info.Mode().IsRegular() {
			list = append(list, recordingFile{id, info.Size(), info.ModTime()})
		}
	}
	return list, nil
}

// header returns the header of a file. It reports false for a file that has none, or not yet.
func (rs *recordings) header(id string) (h cast.Header, ok bool) {
	rs.mu.Lock()
	h, ok = rs.headers[id]
	rs.mu.Unlock()
	if ok {
		return h, true
	}
	file, err := os.Open(rs.path(id))
	if err != nil {
		return h, false
	}
	defer file.Close()
	reader, err := cast.NewReader(io.LimitReader(file, maxRecordingHeader))
	if err != nil {
		return h, false
	}
	h = reader.Header()
	rs.mu.Lock()
	rs.headers[id] = h
	rs.mu.Unlock()
	return h, true
}

// keepHeaders forgets the headers of all other files.
func (rs *recordings) keepHeaders(files []recordingFile) {
	kept := make(map[string]bool, len(files))
	for _, f := range files {
		kept[f.id] = true
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	maps.DeleteFunc(rs.headers, func(id string, _ cast.Header) bool { return !kept[id] })
}

// Recordings lists the recordings, the newest first: those of live sessions, of ended ones and of
// sessions that are no longer known.
func (r *Registry) Recordings(p api.RecordingListParams) (api.RecordingListResult, error) {
	result := api.RecordingListResult{Recordings: []api.KeptRecording{}}
	files, err := r.recordings.files()
	if err != nil {
		return result, api.Errorf(api.CodeRuntimeUnavailable, "recordings: %s", err)
	}
	r.recordings.keepHeaders(files)
	type one struct {
		file   recordingFile
		header cast.Header
	}
	var all []one
	for _, f := range files {
		result.TotalBytes += f.size
		if h, ok := r.recordings.header(f.id); ok {
			all = append(all, one{f, h})
		}
	}
	slices.SortFunc(all, func(a, b one) int {
		return cmp.Or(b.header.Time.Compare(a.header.Time), strings.Compare(b.file.id, a.file.id))
	})
	if p.Before != "" {
		i := slices.IndexFunc(all, func(x one) bool { return x.file.id == p.Before })
		if i < 0 {
			return result, api.InvalidParam("before", "recording %q: not found; begin again without before", p.Before)
		}
		all = all[i+1:]
	}
	if limit := cmp.Or(p.Limit, api.DefaultRecordingsLimit); len(all) > limit {
		all = all[:limit]
		result.NextBefore = all[limit-1].file.id
	}
	for _, x := range all {
		result.Recordings = append(result.Recordings, r.keptRecording(x.file, x.header))
	}
	return result, nil
}

// keptRecording describes a recording.
func (r *Registry) keptRecording(f recordingFile, h cast.Header) api.KeptRecording {
	info := api.KeptRecording{
		RecordingID: f.id, Command: h.Command, Cols: h.Cols, Rows: h.Rows, Bytes: f.size, Live: r.isLive(f.id),
		StartedAt: h.Time.UTC(), ChangedAt: f.at.UTC(), Input: h.HasInput,
	}
	if s, err := r.Get(f.id); err == nil {
		known := s.Info()
		info.Name = known.Name
		if t := known.Terminal; t != nil && t.Recording != nil {
			info.Input = t.Recording.Input
		}
	}
	return info
}

// maxRecordingHeader bounds the first line of a recording.
const maxRecordingHeader = 1 << 20

// ReadRecording reads a piece of a recording, also of a session that is no longer known.
func (r *Registry) ReadRecording(ctx context.Context, p api.RecordingReadParams) (api.RecordingReadResult, error) {
	if s, err := r.Get(p.RecordingID); err == nil && isRecorded(s.Info()) {
		piece, err := s.Recording(ctx, api.SessionRecordingParams{SessionID: s.id, Offset: p.Offset, Limit: p.Limit})
		if errors.Is(err, &api.Error{Code: api.CodeConflict}) {
			err = recordingFault(p.RecordingID, fs.ErrNotExist)
		}
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
	complete := p.Offset+int64(len(data)) == total && !r.isLive(p.RecordingID)
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
