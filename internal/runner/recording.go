package runner

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// recordingPiece is how many bytes of a recording one answer has at most.
const recordingPiece = 1 << 20

// recording is the file with the recording of a terminal. The terminal writes it, and the daemon
// reads it: in the directory that both share, or with the call recording.
type recording struct {
	file    *os.File
	shared  bool // the file is in the shared directory; otherwise it has no name
	fetched bool // guarded by the runner's mu; the daemon has all of it
}

// newRecording makes the file. It must be new, and only its owner may read it.
func (r *Runner) newRecording(p link.CreateParams) (*recording, error) {
	rec := &recording{shared: p.RecordDir != ""}
	var err error
	if rec.shared {
		rec.file, err = os.OpenFile(filepath.Join(p.RecordDir, link.RecordFile(p.SessionID)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	} else {
		rec.file, err = output.Unnamed(cmp.Or(p.Limits.SpillDir, r.cfg.Dir))
	}
	if err != nil {
		return nil, api.Errorf(api.CodeRuntimeUnavailable, "recording: %s", err)
	}
	return rec, nil
}

// Write appends to the recording.
func (rec *recording) Write(p []byte) (int, error) { return rec.file.Write(p) }

// Close leaves the file open: the daemon still reads it.
func (rec *recording) Close() error { return nil }

// discard removes the recording of a terminal that could not start.
func (rec *recording) discard() {
	if rec.shared {
		_ = os.Remove(rec.file.Name())
	}
	rec.file.Close()
}

// readRecording answers the call recording. The runner ends when the daemon has fetched the whole
// recording of an ended session, and wants nothing else.
func (r *Runner) readRecording(_ context.Context, q *link.Request[*link.RecordingParams, *link.RecordingResult]) error {
	r.mu.Lock()
	rec, p, label := r.recording, q.Params, r.labelLocked()
	r.mu.Unlock()
	if rec == nil {
		return api.Errorf(api.CodeInvalidParams, "session %q: is not recorded; create it with record: true", label)
	}
	stat, err := rec.file.Stat()
	if err != nil {
		return err
	}
	result := &link.RecordingResult{Total: stat.Size()}
	body := make([]byte, max(0, min(int64(p.Limit), recordingPiece, result.Total-p.Offset)))
	n, err := rec.file.ReadAt(body, p.Offset)
	if err != nil && err != io.EOF {
		return err
	}
	over := false
	r.mu.Lock()
	if p.Fetched && p.Offset >= result.Total && r.state == api.SessionTerminated && r.isRecordedLocked() {
		rec.fetched, over = true, !r.wanted
	}
	r.mu.Unlock()
	q.Answer(result, body[:n])
	if over {
		r.exit()
	}
	return nil
}

// hasRemainsLocked reports whether the runner has something that a daemon wants and does not have.
func (r *Runner) hasRemainsLocked() bool { return r.wanted || r.isRecordedLocked() }

// isRecordedLocked reports whether only the runner has the whole recording.
func (r *Runner) isRecordedLocked() bool {
	return r.recording != nil && !r.recording.shared && !r.recording.fetched
}
