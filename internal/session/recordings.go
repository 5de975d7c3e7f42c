package session

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
)

const (
	castSuffix = ".cast"
	// sweepGrowth is by how much a recording grows before the size of all of them is compared
	// with the limit.
	sweepGrowth = 16 << 20
)

// recordings is the directory of the recordings of terminals: a file for each session,
// written by its runner. Files stay when their sessions have ended, until all of them
// together are too large. It is safe for concurrent use and has no goroutines.
type recordings struct {
	dir   string
	total int64 // bytes of all files; 0 = no bound
	log   *slog.Logger
	nudge func() // makes the housekeeping call sweep

	mu    sync.Mutex
	sizes map[string]int64 // guarded by mu; of live sessions, at the last request for a sweep
	due   bool             // guarded by mu; the limit may be exceeded
}

// path is where the recording of a session is.
func (rs *recordings) path(id string) string { return filepath.Join(rs.dir, id+castSuffix) }

// prepare makes the place for a recording and returns its path.
func (rs *recordings) prepare(id string) (string, error) {
	if rs.dir == "" {
		return "", api.Errorf(api.CodeRuntimeUnavailable, "recording: this daemon has no directory for recordings")
	}
	if err := os.MkdirAll(rs.dir, 0o700); err != nil {
		return "", api.Errorf(api.CodeRuntimeUnavailable, "recording: %s", err)
	}
	return rs.path(id), nil
}

// discard removes the recording of a session that could not be created.
func (rs *recordings) discard(path string) {
	if path != "" {
		_ = os.Remove(path)
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
	type file struct {
		id   string
		size int64
		at   time.Time
	}
	var files []file
	sum := int64(0)
	entries, _ := os.ReadDir(rs.dir)
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), castSuffix)
		info, err := e.Info()
		if !ok || err != nil || !info.Mode().IsRegular() {
			continue
		}
		sum += info.Size()
		files = append(files, file{id, info.Size(), info.ModTime()})
	}
	slices.SortFunc(files, func(a, b file) int { return a.at.Compare(b.at) })
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

// Recording reads a piece of the recording of a terminal, and returns its present size.
func (s *Session) Recording(offset, limit int64) (data []byte, total int64, info api.SessionInfo, err error) {
	info = s.Info()
	if info.Terminal == nil || info.Terminal.Recording == nil {
		return nil, 0, info, api.Errorf(api.CodeInvalidParams, "session %q: is not recorded; create it with record: true", s.Label())
	}
	f, err := os.Open(s.registry.recordings.path(s.id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, info, api.Errorf(api.CodeConflict, "session %q: its recording was removed", s.Label())
	case err != nil:
		return nil, 0, info, api.Errorf(api.CodeRuntimeUnavailable, "session %q: its recording: %s", s.Label(), err)
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, 0, info, api.Errorf(api.CodeRuntimeUnavailable, "session %q: its recording: %s", s.Label(), err)
	}
	total = stat.Size()
	if offset > total {
		return nil, 0, info, api.InvalidParam("offset", "%d is beyond the end, which is %d", offset, total)
	}
	data = make([]byte, min(limit, total-offset))
	n, err := f.ReadAt(data, offset)
	if err != nil && err != io.EOF {
		return nil, 0, info, api.Errorf(api.CodeRuntimeUnavailable, "session %q: its recording: %s", s.Label(), err)
	}
	return data[:n], total, info, nil
}
