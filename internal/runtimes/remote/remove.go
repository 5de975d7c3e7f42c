package remote

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

const (
	// removeTimeout bounds one attempt to remove a session, and awayTimeout one to remove it from a
	// place that could not be reached a moment ago.
	removeTimeout = 20 * time.Second
	awayTimeout   = 5 * time.Second
	// firstPause and lastPause are the times between two attempts.
	firstPause = 2 * time.Second
	lastPause  = 5 * time.Minute
)

// Remove removes what is left of the session. If the place cannot be reached, that is remembered,
// and done later.
func (r *runner) Remove(clean bool) session.Remains {
	r.mu.Lock()
	r.rec.Clean = clean
	limit := removeTimeout
	if r.away {
		limit = awayTimeout
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.rt.ctx, limit)
	defer cancel()
	removed, err := r.remove(ctx)
	r.mu.Lock()
	remains := session.Remains{
		Cause: cmp.Or(r.rec.Ended, removed.Cause, "its process no longer exists"), PlaceEnded: r.placeEnded, NoRoom: removed.NoRoom, Killed: removed.Killed,
	}
	if !r.ended {
		remains.Cause = "its place cannot be reached"
	}
	r.mu.Unlock()
	if err != nil {
		r.rt.log.Warn("session cannot be removed from its place; it will be when that can be reached", "session_id", r.rec.SessionID, "error", err)
		r.mu.Lock()
		r.doomed = true
		r.mu.Unlock()
		if err := r.change(func(rec *record) { rec.Doomed = true }); err != nil {
			r.rt.log.Error("session record cannot be written", "session_id", r.rec.SessionID, "error", err)
		}
		r.rt.spawn(func() { r.removeLater(firstPause) })
	}
	return remains
}

func (r *runner) isDoomed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doomed
}

// removeLater removes the session, however long it takes until its place can be reached.
func (r *runner) removeLater(pause time.Duration) {
	for began := time.Now(); ; pause = min(max(2*pause, firstPause), lastPause) {
		// The random pause spreads the attempts of sessions that lost their places together.
		wait := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-wait.C:
		case <-r.rt.ctx.Done():
		}
		wait.Stop()
		if r.rt.ctx.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(r.rt.ctx, removeTimeout)
		_, err := r.remove(ctx)
		cancel()
		if err == nil {
			r.rt.log.Info("session removed from its place", "session_id", r.rec.SessionID, "after", time.Since(began).Round(time.Millisecond))
			return
		}
		r.rt.log.Debug("session still cannot be removed from its place", "session_id", r.rec.SessionID, "error", err)
	}
}

// remove makes one attempt to remove the session from its place, and the place with the last
// session, if TRL made it.
func (r *runner) remove(ctx context.Context) (removed link.Removed, err error) {
	select { // one attempt at a time
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return removed, context.Cause(ctx)
	}
	r.mu.Lock()
	gone, clean, withPlace, program := r.removed, r.rec.Clean, r.placeEnded, r.rec.Program
	r.mu.Unlock()
	if gone {
		return removed, nil
	}
	if r.shared == nil { // there is no place
		r.forget()
		return removed, nil
	}
	if err := r.shared.take(ctx); err != nil {
		return removed, err
	}
	defer r.shared.give()
	last := r.rt.isLast(r)
	disposable := last && isMade(r.site.Info().Kind)
	// The processes end with a place that is removed. Only the reason of a sudden end is in it.
	if program != "" && !withPlace && !(disposable && clean) {
		removed, err = r.clear(ctx, clean)
		if ended := asEnded(err); ended != nil {
			r.end(ended.Cause, true)
			err = nil
		} else if err == nil {
			r.end(cmp.Or(removed.Cause, "killed by SIGKILL"), false)
		}
		if err != nil && !disposable {
			return removed, err
		}
	}
	if last {
		if err = r.site.Remove(ctx); err != nil {
			return removed, err
		}
		if isMade(r.site.Info().Kind) {
			r.end("its place was removed", false)
		}
	}
	r.forget()
	return removed, nil
}

// isMade reports whether TRL makes the places of a kind, and removes them with the last session.
func isMade(kind api.PlaceKind) bool { return kind == api.PlaceDocker || kind == api.PlaceKubernetes }

// forget removes the record.
func (r *runner) forget() {
	r.mu.Lock()
	r.removed, r.doomed = true, false
	err := r.rt.state.RemoveRecord(r.rec.SessionID)
	r.mu.Unlock()
	if err != nil {
		r.rt.log.Warn("session record cannot be removed", "session_id", r.rec.SessionID, "error", err)
	}
	r.rt.leave(r)
}
