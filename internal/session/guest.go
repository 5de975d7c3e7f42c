package session

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
)

// guest is the runner of a session that belongs to another daemon, its owner. This daemon starts the
// runner, lets the owner connect to it and ends it, but never speaks to it: all that happens in the
// session is between the owner and the runner.
//
// Goroutines: watchGuest, from the start to the end. Everything is guarded by Registry.mu, except
// fields that no longer change once started is closed.
type guest struct {
	about   About
	home    home
	started chan struct{} // closed when the runner was started, or could not be
	cancel  context.CancelCauseFunc
	runner  Runner        // nil if the runner could not be started
	leave   chan struct{} // closed when a later daemon will have the guest
	ending  chan struct{} // closed when the guest must end
	done    chan struct{} // closed when nothing of it is left

	connections int
	lost        *time.Timer // ends the guest, while the owner has no connection
	lostAt      time.Time   // when that happens; zero if it does not
	cause       string      // why this daemon ends it; empty if it ended by itself
	remains     Remains     // once done is closed
	endedAt     time.Time   // once done is closed
}

// maxPastGuests is how many ended guests the daemon remembers, with the cause of their end.
const maxPastGuests = 1024

// newGuest makes a guest that is not started.
func newGuest(about About, h home) *guest {
	return &guest{
		about: about, home: h, started: make(chan struct{}), leave: make(chan struct{}), ending: make(chan struct{}), done: make(chan struct{}),
	}
}

// StartGuest starts the runner of a session that belongs to another daemon, in a place of this
// one. If the owner already has such a guest, it is returned.
func (r *Registry) StartGuest(ctx context.Context, p api.GuestStartParams) (api.GuestInfo, error) {
	owner := api.GuestOwner{OwnerID: p.OwnerID, Owner: p.Owner, OwnerLostS: r.config.OwnerLost.Seconds()}
	if p.OwnerLostS != nil {
		if most := owner.OwnerLostS; most > 0 && *p.OwnerLostS > most {
			return api.GuestInfo{}, api.InvalidParam("owner_lost_s", "%g is above the owner_lost_s of the other daemon, which is %g", *p.OwnerLostS, most)
		}
		owner.OwnerLostS = *p.OwnerLostS
	}
	var h home // that of the neighbour, if there is one
	if p.Beside == "" {
		var err error
		if h, _, err = r.findHome(api.SessionCreateParams{Runtime: p.Runtime}); err != nil {
			return api.GuestInfo{}, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g, beside, err := r.reserveGuest(p, owner, h, cancel)
	if err != nil {
		return api.GuestInfo{}, err
	}
	if g == nil { // another call started it
		return r.awaitGuest(ctx, p)
	}
	defer r.creating.Done()
	if limit := r.createTimeout(api.SessionCreateParams{}, g.home); limit > 0 {
		timer := time.AfterFunc(limit, func() {
			cancel(api.Errorf(api.CodeRuntimeUnavailable, "session %q: was not ready after %s (create_timeout_s)", p.SessionID, limit))
		})
		defer timer.Stop()
	}
	runner, err := g.home.runtime.Start(ctx, Spec{
		About: g.about, Target: g.home.target, Beside: beside, Params: api.SessionCreateParams{Limits: p.Limits},
		Progress: sparse(func(step api.PlaceProgress) { // the owner subscribes to it
			r.journal.PublishProgress(api.SessionInfo{SessionID: p.SessionID, Name: p.Name}, "", step)
		}),
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		close(g.started)
		delete(r.guests, p.SessionID)
		r.noteFreeLocked()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return api.GuestInfo{}, err
	}
	r.watchGuestLocked(g, runner)
	r.log.Info("guest started", "session_id", p.SessionID, "owner_id", p.OwnerID, "owner", p.Owner)
	return r.guestInfoLocked(g), nil
}

// reserveGuest makes a guest that is being started, or returns nil if the owner has it already.
func (r *Registry) reserveGuest(p api.GuestStartParams, owner api.GuestOwner, h home, cancel context.CancelCauseFunc) (g *guest, beside Runner, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing != nil {
		return nil, nil, r.closing
	}
	if old := r.guests[p.SessionID]; old != nil && old.about.Guest.OwnerID == p.OwnerID && !happened(old.ending) {
		return nil, nil, nil
	}
	if past := r.pastGuests[p.SessionID]; past != nil && past.about.Guest.OwnerID == p.OwnerID {
		return nil, nil, api.Errorf(api.CodeSessionTerminated, "session %q: has ended, and cannot be started again", p.SessionID)
	}
	if r.isKnownLocked(p.SessionID) {
		return nil, nil, api.Errorf(api.CodeConflict, "session %q: the other daemon already has a session with this id", p.SessionID)
	}
	if p.Beside != "" {
		other := r.guests[p.Beside]
		if other == nil || other.runner == nil || other.about.Guest.OwnerID != p.OwnerID {
			return nil, nil, api.Errorf(api.CodeSessionNotFound, "session %.100q: not found", p.Beside)
		}
		h, beside = other.home, other.runner
	}
	if err := r.fullLocked(); err != nil {
		return nil, nil, err
	}
	g = newGuest(About{
		SessionID: p.SessionID, Word: h.target.Word, Name: p.Name, Kind: cmp.Or(p.Kind, api.KindShell), Tags: p.Tags,
		CreatedAt: time.Now().UTC(), Guest: &owner,
	}, h)
	g.cancel = cancel
	r.guests[p.SessionID] = g
	r.noteFreeLocked()
	r.creating.Add(1) // under mu and before closing is set, so that stopCreating waits for it
	return g, beside, nil
}

// awaitGuest waits until another call has started a guest.
func (r *Registry) awaitGuest(ctx context.Context, p api.GuestStartParams) (api.GuestInfo, error) {
	r.mu.Lock()
	g := r.guests[p.SessionID]
	r.mu.Unlock()
	if g != nil {
		select {
		case <-g.started:
		case <-ctx.Done():
			return api.GuestInfo{}, ctx.Err()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if g.runner != nil {
			return r.guestInfoLocked(g), nil
		}
	}
	return api.GuestInfo{}, api.Errorf(api.CodeRuntimeUnavailable, "session %q: its runner could not be started", p.SessionID)
}

// adoptGuest takes over a guest of an earlier daemon. If end is true, the guest ends.
func (r *Registry) adoptGuest(rt Runtime, runner Runner, end bool) {
	g := newGuest(runner.About(), homeOf(rt, runner))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.guests[g.about.SessionID] = g
	r.watchGuestLocked(g, runner)
	if end {
		r.endGuestLocked(g, "its daemon has ended")
	}
}

// watchGuestLocked starts to watch a guest whose runner has been started.
func (r *Registry) watchGuestLocked(g *guest, runner Runner) {
	g.runner = runner
	close(g.started)
	r.awaitOwnerLocked(g)
	r.noteFreeLocked()
	r.journal.PublishSession(r.guestSessionLocked(g))
	r.tasks.Go(func() { r.watchGuest(g) })
}

// watchGuest waits for the end of a guest, and removes what is left of it.
func (r *Registry) watchGuest(g *guest) {
	select {
	case <-g.runner.Done():
	case <-g.ending:
	case <-g.leave:
		r.mu.Lock()
		r.stopOwnerTimerLocked(g)
		r.mu.Unlock()
		close(g.done)
		return
	}
	g.runner.Kill()
	happens(g.runner.Done(), exitTimeout)
	remains := g.runner.Remove(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopOwnerTimerLocked(g)
	g.remains, g.endedAt = remains, time.Now().UTC()
	info := r.guestSessionLocked(g)
	info.State, info.TerminatedAt, info.Cause = api.SessionTerminated, &g.endedAt, cmp.Or(g.cause, remains.Cause)
	info.EndsInS, info.EndsWhy = nil, ""
	r.journal.PublishSession(info)
	r.log.Info("guest ended", "session_id", g.about.SessionID, "cause", info.Cause)
	r.retireGuestLocked(g)
	r.noteFreeLocked()
	close(g.done)
	r.wakeNow()
}

// retireGuestLocked moves a guest to those that have ended.
func (r *Registry) retireGuestLocked(g *guest) {
	delete(r.guests, g.about.SessionID)
	if len(r.pastGuests) >= maxPastGuests {
		oldest := slices.MinFunc(slices.Collect(maps.Values(r.pastGuests)), func(a, b *guest) int { return a.endedAt.Compare(b.endedAt) })
		delete(r.pastGuests, oldest.about.SessionID)
	}
	r.pastGuests[g.about.SessionID] = g
}

// endGuestLocked begins to end a guest.
func (r *Registry) endGuestLocked(g *guest, cause string) {
	if happened(g.ending) || happened(g.leave) {
		return
	}
	g.cause = cause
	close(g.ending)
}

// awaitOwnerLocked begins to wait for a connection of the owner.
func (r *Registry) awaitOwnerLocked(g *guest) {
	limit := time.Duration(g.about.Guest.OwnerLostS * float64(time.Second))
	if limit <= 0 {
		return
	}
	g.lostAt = time.Now().Add(limit)
	g.lost = time.AfterFunc(limit, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if g.connections == 0 && !g.lostAt.IsZero() && !time.Now().Before(g.lostAt) {
			r.endGuestLocked(g, causeOwnerLost)
		}
	})
}

// causeOwnerLost is the cause of the end of a guest whose owner did not return.
const causeOwnerLost = "the daemon that owns it did not connect to it for owner_lost_s"

func (r *Registry) stopOwnerTimerLocked(g *guest) {
	if g.lost != nil {
		g.lost.Stop()
	}
	g.lost, g.lostAt = nil, time.Time{}
}

// findGuest finds the guest of an owner. The error is SESSION_TERMINATED, with the cause, if it has ended.
// Details say with "by" whether this daemon ended it.
func (r *Registry) findGuest(ownerID, sessionID string) (*guest, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.guests[sessionID]; g != nil && g.about.Guest.OwnerID == ownerID {
		return g, nil
	}
	if g := r.pastGuests[sessionID]; g != nil && g.about.Guest.OwnerID == ownerID {
		e := api.Errorf(api.CodeSessionTerminated, "session %q: has ended: %s", sessionID, cmp.Or(g.cause, g.remains.Cause))
		e.Details = map[string]any{"cause": cmp.Or(g.cause, g.remains.Cause)}
		if g.cause != "" {
			e.Details["by"] = "daemon"
		}
		return nil, e
	}
	return nil, api.Errorf(api.CodeSessionNotFound, "session %.100q: not found", sessionID)
}

// ConnectGuest connects the owner to the runner of its guest.
func (r *Registry) ConnectGuest(ctx context.Context, ownerID, sessionID string) (*GuestConnection, error) {
	g, err := r.findGuest(ownerID, sessionID)
	if err != nil {
		return nil, err
	}
	select {
	case <-g.started:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	runner := g.runner
	r.mu.Unlock()
	if runner == nil {
		return nil, api.Errorf(api.CodeSessionNotFound, "session %.100q: not found", sessionID)
	}
	rwc, err := runner.Dial(ctx)
	if err != nil {
		if happens(runner.Done(), 0) {
			<-g.done
			_, ended := r.findGuest(ownerID, sessionID)
			return nil, cmp.Or(ended, err)
		}
		return nil, api.Errorf(api.CodeRuntimeUnavailable, "session %q: its runner cannot be reached: %s", sessionID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	g.connections++
	r.stopOwnerTimerLocked(g)
	return newGuestConnection(rwc, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if g.connections--; g.connections == 0 && !happened(g.done) && !happened(g.leave) {
			r.awaitOwnerLocked(g)
		}
	}), nil
}

// EndGuest ends a guest, and returns when nothing is left of it. It is idempotent.
func (r *Registry) EndGuest(ctx context.Context, ownerID, sessionID, cause string) (api.GuestEndResult, error) {
	result := api.GuestEndResult{SessionID: sessionID, Cause: "it no longer exists", Killed: []api.KilledProcess{}}
	r.mu.Lock()
	g := r.guests[sessionID]
	if g == nil {
		g = r.pastGuests[sessionID]
	}
	if g == nil && ownerID != "" {
		// A request to start it, which the owner has given up, may still be on its way. It finds an
		// ended guest and fails.
		g := newGuest(About{SessionID: sessionID, Guest: &api.GuestOwner{OwnerID: ownerID}}, home{})
		g.endedAt, g.remains.Cause = time.Now().UTC(), result.Cause
		close(g.started)
		close(g.done)
		r.retireGuestLocked(g)
	}
	r.mu.Unlock()
	if g == nil || ownerID != "" && g.about.Guest.OwnerID != ownerID {
		return result, nil
	}
	select {
	case <-g.started:
	case <-ctx.Done():
		return result, ctx.Err()
	}
	r.mu.Lock()
	if g.runner == nil {
		r.mu.Unlock()
		return result, nil
	}
	r.endGuestLocked(g, cause)
	r.mu.Unlock()
	select {
	case <-g.done:
	case <-ctx.Done():
		return result, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	result.Cause, result.NoRoom = g.remains.Cause, g.remains.NoRoom
	result.Killed = append(result.Killed, g.remains.Killed...)
	return result, nil
}

// Guests returns the guests of an owner, oldest first; of all if it is empty.
func (r *Registry) Guests(ownerID string) []api.GuestInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []api.GuestInfo{}
	for _, g := range r.guests {
		if g.runner != nil && (ownerID == "" || g.about.Guest.OwnerID == ownerID) {
			list = append(list, r.guestInfoLocked(g))
		}
	}
	slices.SortFunc(list, func(a, b api.GuestInfo) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.SessionID, b.SessionID))
	})
	return list
}

func (r *Registry) guestInfoLocked(g *guest) api.GuestInfo {
	info := api.GuestInfo{GuestOwner: *g.about.Guest, SessionID: g.about.SessionID, CreatedAt: g.about.CreatedAt}
	info.Connected = g.connections > 0
	place := g.runner.Place()
	info.Place, info.Limits = place.Info, place.Limits
	return info
}

// GuestSessions describes the guests as sessions, oldest first.
func (r *Registry) GuestSessions() []api.SessionInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []api.SessionInfo{}
	for _, g := range r.guests {
		list = append(list, r.guestSessionLocked(g))
	}
	slices.SortFunc(list, func(a, b api.SessionInfo) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.SessionID, b.SessionID))
	})
	return list
}

// GuestSession describes a guest as a session; false if there is no such guest.
func (r *Registry) GuestSession(sessionID string) (api.SessionDetails, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.guests[sessionID]
	if g == nil {
		return api.SessionDetails{}, false
	}
	d := api.SessionDetails{SessionInfo: r.guestSessionLocked(g), EnvKeys: []string{}, Processes: []api.Process{}}
	if p, ok := g.runner.(interface{ PID() int }); ok {
		d.RunnerPID = p.PID()
	}
	return d, true
}

func (r *Registry) guestSessionLocked(g *guest) api.SessionInfo {
	owner := *g.about.Guest
	owner.Connected = g.connections > 0
	info := api.SessionInfo{
		SessionID: g.about.SessionID, Name: g.about.Name, Kind: g.about.Kind, Runtime: g.about.Word, State: api.SessionRunning,
		CreatedAt: g.about.CreatedAt, LastActivity: g.about.CreatedAt, Tags: append([]string{}, g.about.Tags...), Reachable: true, Guest: &owner,
	}
	if g.runner == nil {
		info.State = api.SessionCreating
		return info
	}
	info.Place = placeOf(g.runner)
	if !g.lostAt.IsZero() {
		left := max(0, math.Ceil(time.Until(g.lostAt).Seconds()))
		info.EndsInS, info.EndsWhy = &left, causeOwnerLost
	}
	return info
}

// guestError is the error of calls that only the owner of a guest can make.
func (g *guest) guestError(ref string) error {
	owner := cmp.Or(g.about.Guest.Owner, g.about.Guest.OwnerID)
	if d := (api.SessionInfo{Tags: g.about.Tags}).Owner(); d != "" {
		owner = "dialogue " + d + " on " + owner
	}
	e := api.Errorf(api.CodeConflict, "session %q: belongs to another daemon (%s), which alone can use it; session.info shows it, and session.destroy with force ends it", ref, owner)
	e.Details = map[string]any{"owner": owner}
	return e
}

// endGuests ends all guests, or leaves them to a later daemon, and waits for that.
func (r *Registry) endGuests(leave bool) {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.guests))
	for _, g := range all {
		switch {
		case !leave:
			r.endGuestLocked(g, "its daemon is shutting down")
		case !happened(g.ending) && !happened(g.leave):
			close(g.leave)
		}
	}
	r.mu.Unlock()
	for _, g := range all {
		<-g.done
	}
}

// OwnerLost returns how long a guest may live without a connection of its owner; 0 = without a limit.
func (r *Registry) OwnerLost() time.Duration { return r.config.OwnerLost }

// GuestCapabilities returns the capabilities that guests have here and may lack in other places.
func (r *Registry) GuestCapabilities() []string {
	if h, _, err := r.findHome(api.SessionCreateParams{}); err == nil {
		return h.runtime.Capabilities()
	}
	return []string{}
}
