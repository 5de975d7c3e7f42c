package session

import (
	"context"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// destroy begins to end the session and returns at once; done tells the rest. Of
// several calls one does the work, except that a forced one overtakes one that is not.
func (s *Session) destroy(force bool, cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.ending != "" || s.bidden
	if s.hasNoRunnerLocked() || s.left || s.over || again && (!force || s.forced) {
		return
	}
	if !again {
		s.ending = cause
		s.log.Debug("ending session", "cause", cause, "force", force)
	}
	s.forced = s.forced || force
	s.startEndingRunnerLocked(link.DestroyParams{Force: force, Cause: cause})
}

// startEndingRunnerLocked lets the runner end. mu is held, and the session is watched.
func (s *Session) startEndingRunnerLocked(p link.DestroyParams) {
	// Of a session that was tied to a connection nothing is kept, unless its program came
	// to an end while the connection was there.
	p.Export = s.registry.keepsOutput() && (!s.details.Ephemeral || s.bidden && s.kindLocked() != api.KindShell)
	// watch is one of the tasks and still runs, so the count does not start from zero.
	s.runnerEndings.Add(1)
	s.registry.tasks.Go(func() {
		defer s.runnerEndings.Done()
		s.endRunner(p)
	})
}

// endRunner tells the runner to end its session and itself, and kills it if it does not, or
// cannot be told.
func (s *Session) endRunner(p link.DestroyParams) {
	// The command gets the grace time, and then the shell.
	reach, patience := awayPatience, 2*s.registry.config.KillGrace+5*time.Second
	if p.Force {
		reach, patience = noticeAfter, 5*time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := s.awaitReach(ctx, reach)
	c, _ := s.currentConn(forever)
	if c == nil || err != nil {
		if err != nil {
			s.log.Warn("killing an unreachable runner with its session", "error", err)
		}
		s.runner.Kill()
		return
	}
	conn := c.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var receipt link.DestroyResult
	if text, err := conn.Call(ctx, link.CallDestroy, p, nil, &receipt); err == nil {
		entry, ok := s.fetch(ctx, conn, receipt.Export, text)
		s.mu.Lock()
		if s.receipt == nil {
			s.receipt = &receipt
		}
		if entry != nil {
			s.entry = entry
		}
		s.mu.Unlock()
		if ok && happens(s.runner.Done(), exitTimeout) {
			return
		}
	} else if !happens(s.runner.Done(), 0) {
		s.log.Warn("runner does not end its session", "error", err)
	}
	s.runner.Kill()
}

// finishEnding is the last act of a session: the runner goes, with everything it may have
// left, and the session is terminated.
func (s *Session) finishEnding() {
	if s.isLeft() {
		s.stopWaitingForOwner()
		s.closeDone()
		return
	}
	s.quit()
	s.runner.Kill()
	if !happens(s.runner.Done(), exitTimeout) {
		s.log.Error("runner did not exit after SIGKILL")
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.runnerEndings.Wait() // they may have the receipt
	s.mu.Lock()
	clean := s.receipt != nil
	s.mu.Unlock()
	remains := s.runner.Remove(clean)
	s.stopWaitingForOwner()

	// Its end and the place and name it had are one thing: who hears that it has ended can
	// have them at once.
	s.registry.mu.Lock()
	s.mu.Lock()
	cause := s.causeLocked(remains)
	s.killed = append([]api.KilledProcess{}, remains.Killed...)
	if r := s.receipt; r != nil {
		s.killed = append(s.killed, r.Killed...)
		s.applyDetailsLocked(link.SessionDetails{SessionDetails: r.Info}, s.reports)
		s.registry.journal.PublishExecs(s.id, r.Execs)
	}
	unborn := s.state == api.SessionCreating
	if err := s.toLocked(api.SessionTerminated, cause); err != nil {
		s.log.Error("session ends twice", "error", err)
	}
	s.registry.retireLocked(s)
	s.registry.mu.Unlock()
	s.publishLocked()
	info := s.infoLocked()
	s.registry.liveOutput.Add(-s.details.OutputBytes)
	if s.entry == nil {
		s.details.OutputBytes = 0
	}
	asked := s.ending != "" || s.bidden && s.kindLocked() != api.KindShell
	s.conn = nil
	s.mu.Unlock()
	switch {
	case unborn:
		s.log.Debug("session was not created")
	case asked:
		s.log.Info("session ended", "cause", cause)
	default:
		s.log.Warn("session ended unexpectedly", "cause", cause)
	}
	s.registry.recordings.noteSize(info)
	s.registry.wakeNow()
	s.registry.enforceOutputLimit()
	s.closeDone()
}

// causeLocked says why the session ended: what the runner said when it ended by itself, or
// who asked for it, or how the runner died. mu is held.
func (s *Session) causeLocked(remains Remains) string {
	switch {
	case s.farewell != "" && (s.bidden || s.ending == ""):
		return s.farewell
	case s.ending != "":
		return s.ending
	case remains.Cause != "":
		return "its runner died: " + remains.Cause
	}
	return "its runner died"
}

// leave ends the daemon's part in the session and lets the session live.
func (s *Session) leave() {
	s.mu.Lock()
	c := s.conn
	s.left = s.ending == ""
	left := s.left
	s.mu.Unlock()
	if left {
		s.quit()
		if c != nil {
			_ = c.conn.Close()
		}
	}
}

// closeDone tells everybody who waits for the session or its runner that nothing follows.
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

func (s *Session) isLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// stopWaitingForOwner ends the session's tie to the connection of its creator.
func (s *Session) stopWaitingForOwner() {
	s.mu.Lock()
	forget := s.stopOwnerWait
	s.stopOwnerWait = nil
	s.mu.Unlock()
	if forget != nil {
		forget()
	}
}

// giveUpCreation ends a session that never came to be. It returns how its runner ended,
// when that was before.
func (s *Session) giveUpCreation(cause string) (crash Remains) {
	s.mu.Lock()
	if s.ending == "" {
		s.ending = cause
	}
	c := s.conn
	s.mu.Unlock()
	crashed := happened(s.runner.Done())
	s.runner.Kill()
	if c != nil { // it is watched
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

// destroyResult tells what was killed when the session ended.
func (s *Session) destroyResult() api.SessionDestroyResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	killed := s.killed
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
