package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Viewer is one viewer of a terminal, registered until Leave. Only one goroutine at a time
// may call Follow; Leave may be called at any time.
type Viewer struct {
	session  *Session
	id       string
	readOnly bool
	label    string
	since    time.Time
	watches  bool // it wants to know the other viewers

	// Guarded by the session's mu.
	size   *api.TerminalSize  // nil until the viewer has reported it
	seen   string             // the owner that Owner returned last
	listed int64              // viewers.changes when Viewers was called last
	wake   context.CancelFunc // ends its waiting for output; nil while it does not wait
}

// counts reports whether the terminal may follow its size.
func (v *Viewer) counts() bool { return v.size != nil && !v.readOnly }

// ID returns the id of the viewer, which is unique, also over restarts of the daemon.
func (v *Viewer) ID() string { return v.id }

// Attach registers a viewer. If it owns the size, the terminal has its size when Attach returns.
// Only a viewer that resumes, for the rest of the output, can attach to an ended session.
func (s *Session) Attach(ctx context.Context, p api.SessionAttachParams) (*Viewer, error) {
	v := &Viewer{session: s, id: newViewerID(), readOnly: p.ReadOnly, label: p.Label, since: time.Now().UTC(), watches: p.Viewers, size: p.Size}
	if c := api.CallerOf(ctx); v.label == "" && c != nil {
		v.label = c.Label
	}
	s.mu.Lock()
	ended := s.state == api.SessionTerminated
	resize := false
	if !ended {
		resize = s.viewers.add(v, p.TakeSize)
		v.listed = s.viewers.changes
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
	defer func() { // without the session's lock
		at, _ := s.deadline() // the session may be idle from here on
		s.registry.wakeBefore(at)
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewers.find(v.id) == nil {
		return
	}
	resize := s.viewers.remove(v)
	s.viewers.left = time.Now()
	s.wakeViewersLocked()
	if resize {
		s.applySizeLaterLocked()
	}
}

// Owner returns the viewer that owns the size, or "". From here on Follow returns when the
// owner changes.
func (v *Viewer) Owner() string {
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	v.seen = v.session.viewers.ownerID()
	return v.seen
}

// Viewers returns all viewers of the terminal, the first that came first; none if the session ended
// before this one came. From here on Follow returns when the list changes, if the viewer attached with
// viewers.
func (v *Viewer) Viewers() []api.Viewer {
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	vs := &v.session.viewers
	v.listed = vs.changes
	var list []api.Viewer
	for _, one := range vs.list {
		info := api.Viewer{ViewerID: one.id, Label: one.label, ReadOnly: one.readOnly, Owner: one == vs.owner, Since: one.since}
		if one.size != nil {
			info.Cols, info.Rows = one.size.Cols, one.size.Rows
		}
		list = append(list, info)
	}
	return list
}

// staleLocked reports whether Owner or Viewers would return something else than before.
func (v *Viewer) staleLocked() bool {
	vs := &v.session.viewers
	return v.seen != vs.ownerID() || v.watches && v.listed != vs.changes
}

// Follow reads further output. It returns nothing if the owner of the size is no longer the
// one that Owner returned, or the list no longer the one that Viewers returned. It returns the outcome
// when the session has ended.
func (v *Viewer) Follow(ctx context.Context, p link.FollowParams) (link.FollowResult, []byte, error) {
	s := v.session
	waiting, wake := context.WithCancel(ctx)
	defer wake()
	nothing := link.FollowResult{Resizes: p.Resizes}
	s.mu.Lock()
	if v.staleLocked() {
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

// wakeViewersLocked wakes the viewers that wait for output and do not know of a change.
func (s *Session) wakeViewersLocked() {
	for _, v := range s.viewers.list {
		if v.wake != nil && v.staleLocked() {
			v.wake()
		}
	}
}
