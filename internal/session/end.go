package session

import (
	"context"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
	"github.com/trl-dev/trl/internal/link"
)

// destroy starts to end the session and returns at once; done is closed when the session has
// ended.
func (s *Session) destroy(force bool, cause string) {
	step := endRequested
	if force {
		step = endForced
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.ending.step == endNone
	if !s.endLocked(step, cause) {
		return // it is being ended already, or it is left to a later daemon
	}
	if first {
		s.log.Debug("ending session", "cause", cause, "force", force)
	}
	s.startEndingRunnerLocked(link.DestroyParams{Force: force, Cause: cause})
}

// requestExportLocked asks the runner of a session that has ended by itself for its output, then
// lets it exit. A session that is still being created keeps waiting: admit calls this again.
func (s *Session) requestExportLocked() {
	if s.ending.report != nil && s.state != api.SessionCreating && s.endLocked(endExporting, "") {
		s.startEndingRunnerLocked(link.DestroyParams{Cause: s.ending.report.cause})
	}
}

// startEndingRunnerLocked starts endRunner. The ending has just moved to a step that is not
// final, so watch still runs.
func (s *Session) startEndingRunnerLocked(p link.DestroyParams) {
	// The output of a session that was tied to a connection is not kept, unless its program
	// ended while the connection was open.
	p.Export = s.registry.keepsOutput() && (!s.details.Ephemeral || s.ending.own && s.kindLocked() != api.KindShell)
	// watch is one of the tasks and still runs, so the count does not start from zero.
	s.runnerEndings.Add(1)
	s.registry.tasks.Go(func() {
		defer s.runnerEndings.Done()
		s.endRunner(p)
	})
}

// endRunner makes the runner end its session and exit. It kills a runner that does not, or that
// it cannot reach.
func (s *Session) endRunner(p link.DestroyParams) {
	// The command gets the grace time, and then the shell gets it.
	reach, patience := awayPatience, 2*s.registry.config.KillGrace+5*time.Second
	s.mu.Lock()
	own := s.ending.step == endExporting
	s.mu.Unlock()
	switch {
	case p.Force:
		reach, patience = noticeAfter, 5*time.Second
	case own: // the session is over, and its output waits there
		reach, patience = waitPatience, exportPatience
	}
	deadline := time.Now().Add(patience)
	for {
		c := s.reachToEnd(min(reach, time.Until(deadline)))
		if c == nil {
			break
		}
		if s.dismiss(c.conn, p, patience) {
			if happens(s.runner.Done(), exitTimeout) {
				return
			}
			break
		}
		if p.Force || !happened(c.conn.Done()) || time.Until(deadline) <= 0 {
			break
		}
		s.noteLost(c, "the link to its runner broke", 0, noticeAfter)
	}
	s.killRunner()
}

// reachToEnd returns a connection to the runner. It waits up to patience for a runner that is
// unreachable, and returns nil if the runner has exited or still cannot be reached.
func (s *Session) reachToEnd(patience time.Duration) *runnerConn {
	s.mu.Lock()
	a := s.absence
	s.mu.Unlock()
	if a != nil {
		select {
		case s.retryNow <- struct{}{}:
		default:
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-a.over:
		case <-s.runner.Done():
			return nil
		case <-timer.C:
			s.log.Warn("killing an unreachable runner with its session", "error", s.unreachable(nil))
			return nil
		}
	}
	c, _ := s.currentConn(forever)
	return c
}

// dismiss makes the runner end its session over one connection, and stores its output and its
// recording. It reports whether the runner can exit. Each answer may take the time patience.
func (s *Session) dismiss(conn *link.Conn, p link.DestroyParams, patience time.Duration) bool {
	// A runner that does not read blocks our write; closing the connection ends it.
	call := func(o link.Outgoing) ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		return conn.Call(ctx, o)
	}
	var result link.DestroyResult
	text, err := call(link.Destroy.With(&p, nil, &result))
	if err != nil {
		if !happened(s.runner.Done()) {
			s.log.Warn("runner does not end its session", "error", err)
		}
		return false
	}
	recorded := s.fetchLastRecording(call)
	entry, ok := s.fetchExport(call, result.Export, text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending.result == nil {
		s.ending.result = &result
	}
	if entry != nil {
		s.ending.entry = entry
	}
	s.ending.recorded = s.ending.recorded || recorded
	return ok && recorded
}

// killRunner kills the runner, unless the session is left to a later daemon: the runner then keeps
// the output for that daemon. If the end of the runner cannot be observed, because its place is
// unreachable, the session ends all the same, and the runtime kills the runner when it can.
func (s *Session) killRunner() {
	if s.isLeft() {
		return
	}
	s.runner.Kill()
	if happens(s.runner.Done(), exitTimeout) {
		return
	}
	s.mu.Lock()
	s.ending.lost = true
	c := s.conn
	s.mu.Unlock()
	s.quit()
	if c != nil {
		_ = c.conn.Close() // watch then ends the session
	}
}

// finishEnding is called by watch when the runner has exited or cannot be used: it removes the
// runner with everything that it may have left behind, and the session is terminated. It only
// disconnects from a session that is left to a later daemon.
func (s *Session) finishEnding() {
	s.mu.Lock()
	left := !s.endLocked(endRemoving, "")
	s.mu.Unlock()
	if left {
		s.stopWaitingForOwner()
		s.closeDone()
		return
	}
	s.quit()
	s.runner.Kill()
	s.runnerEndings.Wait() // they may have the runner's result
	s.mu.Lock()
	s.takeArchivedLocked()
	clean, lost := s.ending.result != nil, s.ending.lost
	s.mu.Unlock()
	if lost || !happens(s.runner.Done(), exitTimeout) {
		s.log.Warn("the runner could not be killed")
	}
	remains := s.runner.Remove(clean)
	s.stopWaitingForOwner()

	// Under both locks: a client that sees the end of the session can use its place and its name
	// at once.
	s.registry.mu.Lock()
	s.mu.Lock()
	cause := s.causeLocked(remains)
	s.ending.killed = append([]api.KilledProcess{}, remains.Killed...)
	if r := s.ending.result; r != nil {
		s.ending.killed = append(s.ending.killed, r.Killed...)
		s.applyDetailsLocked(link.SessionDetails{SessionDetails: r.Info}, s.reports)
		s.registry.journal.PublishExecs(s.id, r.Execs)
	}
	s.noteLostRecordingLocked()
	neverCreated := s.state == api.SessionCreating
	if err := s.toLocked(api.SessionTerminated, cause); err != nil {
		s.log.Error("session ended twice", "error", err)
	}
	s.registry.retireLocked(s)
	s.registry.mu.Unlock()
	s.publishLocked()
	info := s.infoLocked()
	s.registry.liveOutput.Add(-s.details.OutputBytes)
	if s.ending.entry == nil {
		s.details.OutputBytes = 0
	}
	expected := s.ending.cause != "" || s.ending.own && s.kindLocked() != api.KindShell
	s.conn = nil
	s.mu.Unlock()
	switch {
	case neverCreated:
		s.log.Debug("session was not created")
	case expected:
		s.log.Info("session ended", "cause", cause)
	default:
		s.log.Warn("session ended unexpectedly", "cause", cause)
	}
	s.registry.recordings.noteSize(info)
	s.registry.wakeNow()
	s.registry.enforceOutputLimit()
	s.closeDone()
}

// leave disconnects from the session and lets it live, unless it is being ended.
func (s *Session) leave() {
	s.mu.Lock()
	left := s.endLocked(endLeft, "")
	c := s.conn
	s.mu.Unlock()
	if left {
		s.quit()
		if c != nil {
			_ = c.conn.Close()
		}
	}
}

// closeDone wakes the callers that wait for the session or its runner: nothing more happens here.
func (s *Session) closeDone() {
	close(s.done)
	if s.recovered != nil && !happened(s.recovered) {
		close(s.recovered)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.absence; a != nil {
		s.absence = nil
		a.end()
	}
}

// stopWaitingForOwner ends the wait for a change of the session's owner.
func (s *Session) stopWaitingForOwner() {
	s.mu.Lock()
	stop := s.stopOwnerWait
	s.stopOwnerWait = nil
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// giveUpCreation ends a session whose creation failed. If its runner died before, it returns how.
func (s *Session) giveUpCreation(cause string) (crash Remains) {
	s.mu.Lock()
	s.endLocked(endForced, cause)
	c := s.conn
	s.mu.Unlock()
	crashed := happened(s.runner.Done())
	s.runner.Kill()
	if c != nil { // watch runs and ends the session
		<-s.done
		return Remains{}
	}
	happens(s.runner.Done(), exitTimeout)
	remains := s.runner.Remove(false)
	if crashed {
		return remains
	}
	return Remains{}
}

// destroyResult is the answer to session.destroy once the session has ended.
func (s *Session) destroyResult() api.SessionDestroyResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	killed := s.ending.killed
	if killed == nil {
		killed = []api.KilledProcess{}
	}
	return api.SessionDestroyResult{SessionID: s.id, State: s.state, Killed: killed}
}

// Kill ends the session at once, and waits until nothing is left of it.
func (s *Session) Kill(ctx context.Context) error {
	s.destroy(true, "destroyed")
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetchExport stores the export of an ended session in the archive, and confirms that to the
// runner. It reports whether the runner can exit.
func (s *Session) fetchExport(call func(link.Outgoing) ([]byte, error), export *link.ExportResult, text []byte) (entry *archive.Entry, ok bool) {
	if export == nil {
		return nil, true
	}
	entry, err := s.storeExport(call, export.More, text)
	if err != nil {
		s.log.Warn("output of an ended session is lost", "error", err)
		return nil, false
	}
	_, err = call(link.Export.With(&struct{}{}, nil, &link.ExportResult{}))
	return entry, err == nil
}

func (s *Session) storeExport(call func(link.Outgoing) ([]byte, error), more bool, text []byte) (*archive.Entry, error) {
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
		if text, err = call(link.Export.With(&struct{}{}, nil, &r)); err != nil {
			w.Abort()
			return nil, err
		}
		more = r.More
	}
}
