package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Viewer is one viewer of a terminal, registered until Leave. Only one goroutine at a time
// may call Follow; Leave may be called at any time.
type Viewer struct {
	session  *Session
	id       string
	readOnly bool

	// Guarded by the session's mu.
	size *api.TerminalSize  // nil until the viewer has reported it
	seen string             // the owner that Owner returned last
	wake context.CancelFunc // ends its waiting for output; nil while it does not wait
}

// counts reports whether the terminal may follow its size.
func (v *Viewer) counts() bool { return v.size != nil && !v.readOnly }

// ID returns the id of the viewer, which is unique, also over restarts of the daemon.
func (v *Viewer) ID() string { return v.id }

// Attach registers a viewer. If it owns the size, the terminal has its size when Attach returns.
// Only a viewer that resumes, for the rest of the output, can attach to an ended session.
func (s *Session) Attach(ctx context.Context, p api.SessionAttachParams) (*Viewer, error) {
	v := &Viewer{session: s, id: newViewerID(), readOnly: p.ReadOnly, size: p.Size}
	s.mu.Lock()
	ended := s.state == api.SessionTerminated
	resize := false
	if !ended {
		resize = s.viewers.add(v, p.TakeSize)
		s.wakeViewersLocked()
	}
	s.mu.Unlock()
	if ended && (p.FromOffset == nil || s.archived() == nil) {
		return nil, s.endedError()
	}
	if resize {
		// A program that has just ended has no size any more, but its last screen can be shown.
		if err := s.applySize(ctx); err != nil && !errors.Is(err, api.ErrSessionTerminated) {
			v.Leave()
			return nil, err
		}
	}
	return v, nil
}

func newViewerID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return "v-" + hex.EncodeToString(b[:])
}

// Leave detaches the viewer. If it owned the size, the terminal soon gets the size of the next
// owner. Leave may be called more than once.
func (v *Viewer) Leave() {
	s := v.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewers.find(v.id) == nil {
		return
	}
	resize := s.viewers.remove(v)
	s.wakeViewersLocked()
	if !resize || s.ending.step.isFinal() {
		return
	}
	// watch is one of the tasks and still runs, so the count does not start from zero.
	s.registry.tasks.Go(func() {
		if err := s.applySize(context.Background()); err != nil {
			s.log.Debug("terminal keeps the size of a viewer that detached", "error", err)
		}
	})
}

// Owner returns the viewer that owns the size, or "". From here on Follow returns when the
// owner changes.
func (v *Viewer) Owner() string {
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	v.seen = v.session.viewers.ownerID()
	return v.seen
}

// Follow reads further output. It returns nothing if the owner of the size is no longer the
// one that Owner returned. It returns the outcome when the session has ended.
func (v *Viewer) Follow(ctx context.Context, p link.FollowParams) (link.FollowResult, []byte, error) {
	s := v.session
	waiting, wake := context.WithCancel(ctx)
	defer wake()
	nothing := link.FollowResult{Resizes: p.Resizes}
	s.mu.Lock()
	if v.seen != s.viewers.ownerID() {
		s.mu.Unlock()
		return nothing, nil, nil
	}
	v.wake = wake
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		v.wake = nil
		s.mu.Unlock()
	}()
	var r link.FollowResult
	var data []byte
	err := s.readFrom(waiting, func(from source) (err error) {
		r, data, err = from.Follow(p)
		return err
	})
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return nothing, nil, nil // nothing is lost: the next Follow asks by offset
	}
	if r.Outcome != nil {
		s.awaitDone(ctx)
	}
	return r, data, err
}

// Snapshot returns what the terminal shows, with that many lines above the screen.
func (v *Viewer) Snapshot(ctx context.Context, scrollback int) (r link.SnapshotResult, data []byte, err error) {
	err = v.session.readFrom(ctx, func(from source) (err error) {
		r, data, err = from.Snapshot(link.SnapshotParams{Scrollback: scrollback})
		return err
	})
	return r, data, err
}

// wakeViewersLocked wakes the viewers that wait for output and have not seen the present owner.
func (s *Session) wakeViewersLocked() {
	owner := s.viewers.ownerID()
	for _, v := range s.viewers.list {
		if v.seen != owner && v.wake != nil {
			v.wake()
		}
	}
}
