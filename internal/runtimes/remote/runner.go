package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
)

// killTimeout bounds one attempt to kill a runner.
const killTimeout = 10 * time.Second

// runner is one runner in a place. What is not guarded is set before the runner is returned.
type runner struct {
	rt     *Runtime
	site   Site
	shared *shared
	done   chan struct{} // closed when the runner is known to have ended
	turn   chan struct{} // a semaphore: its slot is taken while the session is removed

	mu         sync.Mutex
	rec        record // Owner, SiteID and the ids do not change once it is started; the rest is guarded by mu
	ended      bool   // guarded by mu; done is closed
	placeEnded bool   // guarded by mu; it has ended with its place
	away       bool   // guarded by mu; the last attempt to reach the place was in vain
	killing    bool   // guarded by mu
	doomed     bool   // guarded by mu; the session has ended, and its removal must still be carried out
	removed    bool   // guarded by mu; nothing is left, not even the record
}

var _ session.Runner = (*runner)(nil)

func newRunner(rt *Runtime, rec record) *runner {
	return &runner{rt: rt, rec: rec, done: make(chan struct{}), turn: make(chan struct{}, 1)}
}

// Start makes the place of a session, or finds it, and starts the runner there.
func (rt *Runtime) Start(ctx context.Context, spec session.Spec) (session.Runner, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := newRunner(rt, record{
		Record: state.Record{
			SessionID: spec.SessionID, Runtime: rt.Name(), Word: spec.Word, CreatedAt: spec.CreatedAt, Protocol: link.Protocol, Key: rand.Text(),
			Name: spec.Name, Kind: spec.Kind, Tags: spec.Tags, Guest: spec.Guest,
		},
		Owner: spec.SessionID,
	})
	rt.mu.Lock()
	closed := rt.closed
	rt.runners[spec.SessionID] = r
	rt.mu.Unlock()
	// The record comes first: a later daemon then knows of everything that is made from here on.
	err := r.write()
	if closed {
		err = api.ErrDaemonEnding
	}
	if err == nil {
		err = r.start(ctx, spec)
	}
	if err != nil {
		r.Remove(false)
		return nil, err
	}
	return r, nil
}

func (r *runner) start(ctx context.Context, spec session.Spec) error {
	progress := spec.Progress
	if progress == nil {
		progress = func(api.PlaceProgress) {}
	}
	if err := r.enter(ctx, spec, progress); err != nil {
		return err
	}
	if err := r.change(func(rec *record) { rec.Site = r.site.Record() }); err != nil {
		return err
	}
	program := keptProgram
	if m, ok := r.site.(Machine); ok {
		var err error
		if program, err = m.Install(ctx, progress); err != nil {
			return err
		}
	}
	if err := r.change(func(rec *record) { rec.Site, rec.Program = r.site.Record(), program }); err != nil {
		return err
	}
	report, err := r.launch(ctx, spec)
	if err != nil {
		return err
	}
	return r.change(func(rec *record) { rec.Site, rec.Report = r.site.Record(), report })
}

// keptProgram is in the record in place of the path of trl-runner, for a Keeper.
const keptProgram = "kept"

// enter makes or finds the place, or shares that of another session.
func (r *runner) enter(ctx context.Context, spec session.Spec, progress func(api.PlaceProgress)) (err error) {
	if spec.Beside == nil {
		r.site, err = r.rt.driver.Open(ctx, Opening{Daemon: r.rt.daemon, SessionID: spec.SessionID, Target: spec.Target, Limits: spec.Params.Limits, Progress: progress})
		if err == nil {
			r.rec.SiteID = r.site.ID()
			r.rt.join(r.rec.SiteID, r)
		}
		return err
	}
	other, ok := spec.Beside.(*runner)
	if !ok || other.rt != r.rt {
		return api.Errorf(api.CodeInternal, "session %q: its neighbour is in another runtime", spec.SessionID)
	}
	if err := other.shared.take(ctx); err != nil {
		return err
	}
	defer other.shared.give()
	other.mu.Lock()
	gone := other.removed || other.placeEnded
	other.mu.Unlock()
	if gone {
		return api.Errorf(api.CodeSessionTerminated, "session %q: has ended, and its place with it", other.rec.SessionID)
	}
	r.site, r.rec.SiteID = other.site, other.rec.SiteID
	r.rt.mu.Lock()
	r.rec.Owner = other.rec.Owner
	r.rt.mu.Unlock()
	r.rt.join(r.rec.SiteID, r)
	return nil
}

// launch starts the runner, unless the place has done that itself.
func (r *runner) launch(ctx context.Context, spec session.Spec) (report Report, err error) {
	if s, ok := r.site.(Starter); ok && spec.Beside == nil {
		report, ok, err := s.Started(ctx)
		if ok || err != nil {
			return report, err
		}
	}
	if k, ok := r.site.(Keeper); ok {
		report, err = k.Start(ctx, spec)
		return report, r.note(err)
	}
	err = r.run(ctx, &report, "start", r.rec.SessionID)
	if err == nil && (report.PID <= 0 || report.Dir == "") {
		err = api.Errorf(api.CodeRuntimeUnavailable, "%s: trl-runner started no runner: %+v", r.where(), report)
	}
	return report, err
}

// where names the place in errors.
func (r *runner) where() string {
	i := r.site.Info()
	return cmp.Or(i.Container, i.Pod, i.Host, i.Address, string(i.Kind))
}

// write writes the record, unless the session is removed.
func (r *runner) write() error { return r.change(func(*record) {}) }

// change changes the record, in the file too, unless the session is removed.
func (r *runner) change(f func(*record)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.rec)
	if r.removed {
		return nil
	}
	if err := r.rt.state.WriteRecord(r.rec.SessionID, r.rec); err != nil {
		return fmt.Errorf("session record: %w", err)
	}
	return nil
}

// About returns the session that the runner was started for.
func (r *runner) About() session.About {
	r.mu.Lock()
	defer r.mu.Unlock()
	return session.About{SessionID: r.rec.SessionID, Word: r.rec.Word, Name: r.rec.Name, Kind: r.rec.Kind, Tags: r.rec.Tags, CreatedAt: r.rec.CreatedAt, Guest: r.rec.Guest}
}

// Place describes the place. Its environment is known to the runner alone.
func (r *runner) Place() session.Place {
	p := session.Place{Info: r.site.Info()}
	if l, ok := r.site.(Limiter); ok {
		p.Limits = l.Limits()
	}
	if l, ok := r.site.(LimitSetter); ok && len(p.Limits) > 0 && r.rec.Owner == r.rec.SessionID {
		p.SetLimit = l.SetLimit
	}
	return p
}

// Describe writes the name and the tags into the record.
func (r *runner) Describe(name string, tags []string) error {
	return r.change(func(rec *record) { rec.Name, rec.Tags = name, tags })
}

// Key returns the key from the record, which only this user can read.
func (r *runner) Key() string { return r.rec.Key }

// Done is closed when the runner is known to have ended: trl-runner reports that there, or the place has
// ended.
func (r *runner) Done() <-chan struct{} { return r.done }

// end notes that the runner has ended.
func (r *runner) end(cause string, withPlace bool) {
	r.mu.Lock()
	again := r.ended
	r.ended = true
	r.placeEnded = r.placeEnded || withPlace
	r.mu.Unlock()
	if again {
		return
	}
	// A later daemon then removes it without asking again.
	if err := r.change(func(rec *record) { rec.Ended = cause }); err != nil {
		r.rt.log.Warn("session record cannot be written", "session_id", r.rec.SessionID, "error", err)
	}
	close(r.done)
}

// identity returns the arguments by which trl-runner knows the runner. Before the runner is known,
// they are the session's id.
func (r *runner) identity() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := r.rec.Report
	return []string{cmp.Or(rep.Dir, r.rec.SessionID), strconv.Itoa(rep.PID), strconv.FormatUint(rep.Start, 10)}
}

// Kill kills the runner in the background.
func (r *runner) Kill() {
	r.mu.Lock()
	busy := r.killing || r.ended
	r.killing = r.killing || !busy
	r.mu.Unlock()
	if busy {
		return
	}
	r.rt.spawn(func() {
		ctx, cancel := context.WithTimeout(r.rt.ctx, killTimeout)
		defer cancel()
		cause, err := r.kill(ctx)
		switch ended := asEnded(err); {
		case ended != nil:
			r.end(ended.Cause, true)
		case err == nil:
			r.end(cause, false)
		default:
			r.rt.log.Debug("runner could not be killed", "session_id", r.rec.SessionID, "error", err)
		}
		r.mu.Lock()
		r.killing = false
		r.mu.Unlock()
	})
}
