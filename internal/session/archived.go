package session

import (
	"context"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
	"github.com/trl-dev/trl/internal/link"
)

// keepsOutput reports whether the output of a session that ends now stays readable.
func (r *Registry) keepsOutput() bool {
	return r.config.Archive != nil && r.config.Retention > 0 && !r.closed.Load()
}

// requestExportLocked lets a runner go whose session has ended by itself, and asks it for what is to be
// kept. mu is held.
func (s *Session) requestExportLocked() {
	unborn, asked := s.state == api.SessionCreating, s.ending != "" || s.bidden
	if unborn || asked || s.left || s.over || s.hasNoRunnerLocked() {
		return
	}
	s.bidden = true
	s.startEndingRunnerLocked(link.DestroyParams{Cause: s.farewell})
}

// fetch brings the export of a session that has ended into the archive, and tells its
// runner that it is there. It reports whether the runner can go.
func (s *Session) fetch(ctx context.Context, conn *link.Conn, export *link.ExportResult, text []byte) (entry *archive.Entry, ok bool) {
	if export == nil {
		return nil, true
	}
	entry, err := s.store(ctx, conn, export.More, text)
	if err != nil {
		s.log.Warn("output of an ended session is lost", "error", err)
		return nil, false
	}
	_, err = conn.Call(ctx, link.CallExport, struct{}{}, nil, &link.ExportResult{})
	return entry, err == nil
}

func (s *Session) store(ctx context.Context, conn *link.Conn, more bool, text []byte) (*archive.Entry, error) {
	w, err := s.registry.config.Archive.Create(s.id)
	if err != nil {
		return nil, err
	}
	for {
		if _, err := w.Write(text); err != nil {
			w.Abort()
			return nil, err
		}
		if !more {
			return w.Close()
		}
		var r link.ExportResult
		if text, err = conn.Call(ctx, link.CallExport, struct{}{}, nil, &r); err != nil {
			w.Abort()
			return nil, err
		}
		more = r.More
	}
}

// archived is where the output of a session that has ended is, or nil.
func (s *Session) archived() *archive.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != api.SessionTerminated || s.entry == nil || !s.entry.Kept() {
		return nil
	}
	return s.entry
}

// withPresentAge brings what was told of a command when its session ended to the present.
func (s *Session) withPresentAge(info api.ExecInfo) api.ExecInfo {
	since := time.Since(s.endedSince()).Milliseconds()
	info.AgeMS += since
	if info.QuietMS != nil {
		quiet := *info.QuietMS + since
		info.QuietMS = &quiet
	}
	return info
}

// callPast answers what can be read of a session that has ended.
func (s *Session) callPast(params, result any) ([]byte, error) {
	if _, waits := params.(api.SessionWaitParams); waits && !s.isLeft() {
		*result.(*api.SessionWaitResult) = s.waitResult()
		return nil, nil
	}
	entry := s.archived()
	if entry == nil {
		return nil, s.endedError()
	}
	switch p := params.(type) {
	case api.SessionScreenParams:
		r, err := entry.Screen(p)
		*result.(*api.SessionScreenResult) = r
		return nil, err
	case link.SnapshotParams:
		r, text, err := entry.Snapshot(p)
		*result.(*link.SnapshotResult) = r
		return text, err
	case link.FollowParams:
		r, text, err := entry.Follow(p)
		*result.(*link.FollowResult) = r
		return text, err
	case link.ReadParams:
		r, text, err := entry.Read(p)
		*result.(*link.ReadResult) = r
		return text, err
	case link.OutputParams:
		r, text, err := entry.Output(p)
		*result.(*link.OutputResult) = r
		return text, err
	}
	return nil, s.endedError()
}

// waitResult is the answer to who waits for something in a session that has ended.
func (s *Session) waitResult() api.SessionWaitResult {
	info := s.Info()
	return api.SessionWaitResult{Reason: api.WaitExit, ExitCode: info.ExitCode, Signal: info.Signal}
}

// loadArchived makes the sessions of the archive readable that ended before this daemon
// began, and returns them.
func (r *Registry) loadArchived() map[string]api.SessionInfo {
	list := map[string]api.SessionInfo{}
	if r.config.Archive == nil {
		return list
	}
	for _, e := range r.config.Archive.Entries() {
		r.mu.Lock()
		known := r.living[e.ID()] != nil || r.past[e.ID()] != nil
		r.mu.Unlock()
		if known {
			continue // it has just been fetched
		}
		s := newSession(r, e.ID(), "")
		receipt := e.Result()
		s.mu.Lock()
		err := s.toLocked(api.SessionTerminated, "")
		s.details, s.receipt, s.killed, s.entry, s.over = receipt.Info, &receipt, receipt.Killed, e, true
		s.gone = time.Now().Add(-e.Age())
		s.details.ShellPID, s.details.RunnerPID = 0, 0 // they may be somebody else's now
		s.mu.Unlock()
		if err != nil || s.Info().TerminatedAt == nil || r.config.Retention <= 0 {
			e.Remove()
			continue
		}
		close(s.done)
		r.mu.Lock()
		r.past[s.id] = s
		r.mu.Unlock()
		list[s.id] = s.Info()
	}
	r.wakeNow()
	return list
}
