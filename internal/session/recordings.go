package session

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/terminal/cast"
)

const (
	// sweepGrowth is by how much a recording grows before the size of all of them is compared
	// with the limit.
	sweepGrowth = 16 << 20
	// fetchGrowth is by how much a recording in another place grows before the daemon fetches
	// the new part: so much of it is lost at most if its runner dies.
	fetchGrowth = 256 << 10
	// recordingPiece is how many bytes of a recording are fetched at once.
	recordingPiece = 1 << 20
)

// recordings is the directory of the recordings of terminals: a file for each session. The
// runner writes the file if its place shares the directory; otherwise the daemon fetches the
// recording from the runner, and the file is the beginning of it. Files stay when their sessions
// have ended, until all of them together are too large. It is safe for concurrent use and has no
// goroutines.
type recordings struct {
	dir   string
	total int64 // bytes of all files; 0 = no bound
	log   *slog.Logger
	nudge func() // makes the housekeeping call sweep

	mu    sync.Mutex
	sizes map[string]int64 // guarded by mu; of live sessions, at the last request for a sweep
	due   bool             // guarded by mu; the limit may be exceeded
	// headers are the headers of files, by id. A header is written once, so each is read once.
	headers map[string]cast.Header // guarded by mu
}

// path is where the recording of a session is.
func (rs *recordings) path(id string) string { return filepath.Join(rs.dir, link.RecordFile(id)) }

// setPath says where the recording of a session is, which its runner does not know.
func (rs *recordings) setPath(info api.SessionInfo) {
	if info.Terminal != nil && info.Terminal.Recording != nil {
		info.Terminal.Recording.Path = rs.path(info.SessionID)
	}
}

// prepare makes the directory.
func (rs *recordings) prepare() error {
	if rs.dir == "" {
		return api.Errorf(api.CodeRuntimeUnavailable, "recording: this daemon has no directory for recordings")
	}
	if err := os.MkdirAll(rs.dir, 0o700); err != nil {
		return api.Errorf(api.CodeRuntimeUnavailable, "recording: %s", err)
	}
	return nil
}

// discard removes the recording of a session that could not be created.
func (rs *recordings) discard(id string) {
	if rs.dir != "" {
		_ = os.Remove(rs.path(id))
	}
}

// noteSize requests a sweep if a runner reports that its recording has grown much, or ended.
func (rs *recordings) noteSize(info api.SessionInfo) {
	if info.Terminal == nil || info.Terminal.Recording == nil {
		return
	}
	size, ended := info.Terminal.Recording.Bytes, info.State == api.SessionTerminated
	rs.mu.Lock()
	due := ended || size-rs.sizes[info.SessionID] >= sweepGrowth
	if due {
		rs.sizes[info.SessionID] = size
		rs.due = true
	}
	if ended {
		delete(rs.sizes, info.SessionID)
	}
	rs.mu.Unlock()
	if due {
		rs.nudge()
	}
}

// requestSweep makes the next sweep compare the size of all files with the limit.
func (rs *recordings) requestSweep() {
	rs.mu.Lock()
	rs.due = true
	rs.mu.Unlock()
}

// sweep removes the oldest recordings of ended sessions until all of them are within the limit,
// if a sweep was requested.
func (rs *recordings) sweep(isLive func(id string) bool) {
	rs.mu.Lock()
	due := rs.due
	rs.due = false
	rs.mu.Unlock()
	if !due || rs.total <= 0 || rs.dir == "" {
		return
	}
	files, err := rs.files()
	if err != nil {
		rs.log.Warn("recordings cannot be listed", "error", err)
		return
	}
	sum := int64(0)
	for _, f := range files {
		sum += f.size
	}
	slices.SortFunc(files, func(a, b recordingFile) int { return a.at.Compare(b.at) })
	for _, f := range files {
		if sum <= rs.total {
			return
		}
		if isLive(f.id) {
			continue
		}
		if err := os.Remove(rs.path(f.id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			rs.log.Warn("recording cannot be removed", "session_id", f.id, "error", err)
			continue
		}
		rs.log.Info("removed a recording above the limit (recordings_total_bytes)", "session_id", f.id, "bytes", f.size)
		sum -= f.size
	}
}
