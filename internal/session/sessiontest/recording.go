package sessiontest

import (
	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Record adds to the recording that the runner keeps, and reports its size.
func (r *Runner) Record(data []byte) {
	r.mu.Lock()
	r.recording = append(r.recording, data...)
	now := *r.screen.recording
	now.Bytes = int64(len(r.recording))
	r.screen.recording = &now
	r.updateSizeLocked()
	r.mu.Unlock()
	r.tell()
}

func (r *Runner) readRecording(p link.RecordingParams) (any, []byte, error) {
	if r.protocol() < link.Recording.Since {
		return nil, nil, api.Errorf(api.CodeMethodNotFound, "%s: unknown", link.Recording.Name)
	}
	r.mu.Lock()
	rest := r.recording[min(p.Offset, int64(len(r.recording))):]
	result := link.RecordingResult{Total: int64(len(r.recording))}
	r.mu.Unlock()
	if p.Fetched && p.Offset == result.Total {
		r.leaveIfFetched(func() { r.fetched = true })
	}
	return result, rest[:min(len(rest), p.Limit)], nil
}
