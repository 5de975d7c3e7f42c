package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// recoverTimeout bounds how long a runner of an earlier daemon may take to answer.
const recoverTimeout = 5 * time.Second

// Recover takes over the sessions that an earlier daemon left alive. A runner that
// does not answer in time is ended, with everything in it; one of another version that
// cannot be understood is left alone. When end is true they are all ended, and none is
// seen again. What happened while no daemon was there is told in the journal.
func (r *Registry) Recover(ctx context.Context, end bool) error {
	runners, err := r.runtime.Recover(ctx)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	lost := map[string]string{} // guarded by mu; why a runner could not be taken over, by session
	alive := map[string]bool{}
	for _, runner := range runners {
		alive[runner.SessionID()] = true
		all.Go(func() {
			if why := r.recover(ctx, runner, end); why != "" {
				mu.Lock()
				lost[runner.SessionID()] = why
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if a := r.config.Archive; a != nil && end {
		a.Clear()
	}
	kept := r.remember()
	r.recordings.look()
	r.nudge()
	now := time.Now()
	for _, gone := range r.journal.living() {
		why, dropped := lost[gone.SessionID]
		if alive[gone.SessionID] && !dropped {
			continue
		}
		if info, ok := kept[gone.SessionID]; ok { // nobody could tell of its end
			r.journal.session(info)
			continue
		}
		if !dropped {
			why = "its runner died while no daemon was there"
		}
		gone.State, gone.TerminatedAt, gone.Cause = api.SessionTerminated, &now, why
		r.journal.session(gone)
	}
	return nil
}

// recover takes one session over. It returns why that session was ended instead.
func (r *Registry) recover(ctx context.Context, runner Runner, end bool) (ended string) {
	s := newSession(r, runner.SessionID(), "")
	s.runner = runner
	w, err := s.resume(ctx)
	var stranger *strangerError
	switch {
	case errors.As(err, &stranger) && !end:
		s.log.Warn("session of an earlier daemon is left alone: "+stranger.Error()+
			"; use a trl of that version to reach it, or end the process of its runner", "runner_pid", stranger.hello.PID)
		return ""
	case err != nil:
		s.log.Warn("session of an earlier daemon is ended", "error", err)
		cause := "could not be taken over: " + err.Error()
		s.abandon(cause)
		return cause
	case end: // nobody is to see it again
		s.use(w)
		s.destroy(false, "its daemon is gone")
		return ""
	}
	r.readmit(s)
	s.use(w)
	if s.goodbye() {
		<-s.done
		return ""
	}
	info := s.Info()
	s.log.Info("session taken over from an earlier daemon", "name", info.Name, "state", info.State)
	if s.ephemeral() {
		s.destroy(false, "the connection that made it is gone")
	}
	return ""
}

// resume connects to a runner that has a session.
func (s *Session) resume(ctx context.Context) (*wire, error) {
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	w, hello, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if !hello.Created {
		w.close()
		return nil, errors.New("it was never completed")
	}
	if err := s.refresh(ctx, w); err != nil {
		w.close()
		return nil, err
	}
	err = s.catchUp()
	if err == nil {
		err = s.tellExecs(ctx, w)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// catchUp brings a session of an earlier daemon into the state that its runner tells.
func (s *Session) catchUp() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := s.heard == api.SessionTerminated
	if over && !s.registry.keeps() {
		return errors.New("it has ended: " + s.farewell)
	}
	shell := s.kind() == api.KindShell
	err := s.begin(s.heard == api.SessionRunning || !shell)
	if err == nil && (!over || !shell) { // nothing happened to a shell that has ended
		s.tell()
	}
	return err
}

// goodbye lets the runner go when it has ended the session: an earlier daemon was ending
// it, or it ended by itself. What is to be read of it is still there.
func (s *Session) goodbye() (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard != api.SessionTerminated {
		return false
	}
	s.bid()
	return true
}

// tellExecs tells what happened to the commands while the runner could not be heard.
func (s *Session) tellExecs(ctx context.Context, w *wire) error {
	var r api.ExecListResult
	if _, err := w.conn.Call(ctx, link.CallExecList, struct{}{}, nil, &r); err != nil {
		return err
	}
	s.registry.journal.execList(s.id, r.Execs)
	return nil
}

// readmit registers a session of an earlier daemon. Limits do not apply: it is there.
func (r *Registry) readmit(s *Session) {
	name := s.Info().Name
	r.mu.Lock()
	r.living[s.id] = s
	if _, taken := r.names[name]; name != "" && !taken {
		r.names[name] = s.id
	}
	r.noteFree()
	r.mu.Unlock()
	at, _ := s.deadline()
	r.expect(at)
}

func (s *Session) ephemeral() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.details.Ephemeral
}
