package dialogue

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
)

// Config is what a Host needs to know.
type Config struct {
	Sessions *session.Registry
	Logger   *slog.Logger
	// Dir is where the records are; made when it is needed.
	Dir string
	// StartTimeout is how long an agent may take to answer for the first time.
	StartTimeout time.Duration
	// Grace is how long an agent may take to end by itself, when its input has ended.
	Grace time.Duration
	// Stall is how long an agent that works may say nothing; 0 = for ever.
	Stall time.Duration
	// Reconnect is how long another daemon is looked for when the connection is lost.
	Reconnect time.Duration
	// LineBytes is how long a line of an agent may be.
	LineBytes int64
	// TotalBytes bounds the records; those of dialogues that have ended go, the oldest
	// first; 0 = no bound.
	TotalBytes int64
}

// Host has the dialogues of a daemon.
//
// Goroutines: those of the dialogues, and sweep while it runs; Close and Leave wait for
// them. A Host is safe for concurrent use.
type Registry struct {
	config     Config
	log        *slog.Logger
	streams    atomic.Int64            // how many have been numbered
	done       chan struct{}           // closed when the dialogues go on without us
	ctx        context.Context         // ends when no more agents are started
	stopStarts context.CancelCauseFunc // ends ctx
	tasks      sync.WaitGroup

	reservation sync.Mutex // held by who takes a name

	mu        sync.Mutex
	closing   bool                 // guarded by mu; nothing begins any more
	dialogues map[string]*Dialogue // guarded by mu; by id
	starting  map[string]reserved  // guarded by mu; what is being started, by id
	sweeping  bool                 // guarded by mu
}

// New makes a Host without dialogues.
func New(c Config) *Registry {
	r := &Registry{config: c, log: c.Logger, done: make(chan struct{}), dialogues: map[string]*Dialogue{}, starting: map[string]reserved{}}
	r.ctx, r.stopStarts = context.WithCancelCause(context.Background())
	return r
}

// Get finds a dialogue by its id or name. Of several that had the name, it is the one
// that lives, or else the youngest.
func (r *Registry) Get(ref string) (*Dialogue, error) {
	r.mu.Lock()
	d := r.dialogues[ref]
	r.mu.Unlock()
	if d != nil {
		<-d.ready // who asks for it waits until it is recovered, and nobody else
		return d, nil
	}
	for _, one := range r.all() {
		if ref != "" && one.name == ref && (d == nil || one.Info().State != api.DialogueEnded || d.Info().State == api.DialogueEnded) {
			d = one
		}
	}
	if d == nil {
		return nil, api.Errorf(api.CodeDialogueNotFound, "dialogue %.100q: not found", ref)
	}
	<-d.ready
	return d, nil
}

// List returns the dialogues, oldest first.
func (r *Registry) List(p api.DialogueListParams) []api.DialogueInfo {
	list := []api.DialogueInfo{}
	for _, d := range r.all() {
		info := d.Info()
		missing := slices.ContainsFunc(p.Tags, func(t string) bool { return !slices.Contains(info.Tags, t) })
		if !missing && (p.State == "" || p.State == info.State) {
			list = append(list, info)
		}
	}
	return list
}

// all is every dialogue, oldest first.
func (r *Registry) all() []*Dialogue {
	r.mu.Lock()
	list := make([]*Dialogue, 0, len(r.dialogues))
	for _, d := range r.dialogues {
		list = append(list, d)
	}
	r.mu.Unlock()
	slices.SortFunc(list, func(a, b *Dialogue) int {
		if c := a.created.Compare(b.created); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
	return list
}

// Create starts an agent in a dialogue of its own, and returns when it has answered. When
// it cannot, or ctx ends before, nothing is left of it.
func (r *Registry) Create(ctx context.Context, p api.DialogueCreateParams) (api.DialogueInfo, error) {
	if p.Runtime == "" {
		p.Runtime = "host"
	}
	if _, err := findAgent(p.Agent); err != nil {
		return api.DialogueInfo{}, err
	}
	id := newID()
	if err := r.reserve(id, reserved{p.Name, p.Agent, p.Resume}); err != nil {
		return api.DialogueInfo{}, err
	}
	defer r.release(id)
	rec, err := newRecord(filepath.Join(r.config.Dir, id))
	if err != nil {
		return api.DialogueInfo{}, errNoRecord(err)
	}
	prompt, resume := p.Prompt, p.Resume
	d := r.newDialogue(rec, about{ID: id, CreatedAt: time.Now().UTC(), Params: p})
	d.env, d.about.Params.Env = p.Env, nil
	d.resetLocked()
	if err := d.start(ctx, resume); err != nil {
		d.undo()
		return api.DialogueInfo{}, err
	}
	if prompt != "" {
		if _, err := d.Send(ctx, api.DialogueSendParams{DialogueID: id, Text: prompt}); err != nil {
			d.close("its first message could not be sent", alreadyClosed)
			d.undo()
			return api.DialogueInfo{}, err
		}
	}
	r.mu.Lock()
	if !r.closing {
		r.dialogues[id] = d
	}
	r.mu.Unlock()
	err = d.endIfClosing()
	if err == nil {
		err = d.noteCreated()
	}
	if err != nil {
		d.close("could not be created", alreadyClosed)
		r.mu.Lock()
		delete(r.dialogues, id)
		r.mu.Unlock()
		d.undo()
		return api.DialogueInfo{}, err
	}
	info := d.Info()
	d.log.Info("dialogue created", "agent", info.Agent, "session_id", info.SessionID)
	return info, nil
}

// undo removes what there is of a dialogue that could not be created.
func (d *Dialogue) undo() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.discardLocked(); err != nil {
		d.log.Error("record of the dialogue cannot be removed", "error", err)
	}
}

// discardLocked removes the record. While another daemon may still have the session, the record
// stays, hidden from clients, until that session has ended. mu is held.
func (d *Dialogue) discardLocked() error {
	d.removed = true
	d.record.end()
	a := d.about
	if !a.Orphan || a.Params.Remote == nil {
		return d.record.remove()
	}
	a.Created, a.Info = false, nil
	if err := d.record.save(a); err != nil {
		return err
	}
	d.registry.chase(func() bool { return d.registry.removeUncreated(a) })
	return nil
}

// noteCreated notes that the dialogue is complete: the next daemon is to keep it.
func (d *Dialogue) noteCreated() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.about.Created = true
	if err := d.record.save(d.about); err != nil {
		return errNoRecord(err)
	}
	return nil
}

// endIfClosing ends a program that was started while the daemon began to end.
func (d *Dialogue) endIfClosing() error {
	d.registry.mu.Lock()
	late := d.registry.closing
	d.registry.mu.Unlock()
	if !late {
		return nil
	}
	d.close("the daemon is shutting down", alreadyClosed)
	return api.ErrDaemonEnding
}

// closed is a channel for who cannot wait.
var alreadyClosed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (r *Registry) newDialogue(rec *record, a about) *Dialogue {
	return &Dialogue{
		id: a.ID, name: a.Params.Name, created: a.CreatedAt, registry: r, log: r.log.With("dialogue_id", a.ID), starting: make(chan struct{}, 1),
		about: a, record: rec, state: api.DialogueStarting, messages: map[string]int64{}, ready: alreadyClosed,
	}
}

// reserved is what two dialogues cannot have at once: a name, and the agent's own
// conversation.
type reserved struct{ name, agent, native string }

// clash says what of it another has too; empty for nothing.
func (r reserved) clash(other reserved) string {
	switch {
	case r.name != "" && r.name == other.name:
		return "name " + strconv.Quote(r.name)
	case r.native != "" && r.native == other.native && r.agent == other.agent:
		return "conversation " + strconv.Quote(r.native) + " of " + r.agent
	}
	return ""
}

// reserve takes for a dialogue that is to be started what no other may have.
func (r *Registry) reserve(id string, want reserved) error {
	r.reservation.Lock() // nothing is started between looking and taking
	defer r.reservation.Unlock()
	taken := map[string]reserved{}
	r.mu.Lock()
	maps.Copy(taken, r.starting)
	r.mu.Unlock()
	for _, d := range r.all() { // after those that are starting, which become these
		if info := d.Info(); info.State != api.DialogueEnded {
			taken[d.id] = reserved{info.Name, info.Agent, info.NativeSession}
		}
	}
	for other, has := range taken {
		if what := want.clash(has); what != "" {
			return api.Errorf(api.CodeConflict, "dialogue: %s is taken by %s", what, other)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return api.ErrDaemonEnding
	}
	r.starting[id] = want
	r.tasks.Add(1) // under mu and before closing is set, so that Close waits for it
	return nil
}

func (r *Registry) release(id string) {
	r.mu.Lock()
	delete(r.starting, id)
	r.mu.Unlock()
	r.tasks.Done()
}

// forget removes what is kept of a dialogue that has ended.
func (r *Registry) forget(d *Dialogue) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.removed:
		return nil
	case d.process != nil || d.state != api.DialogueEnded:
		return api.Errorf(api.CodeConflict, "dialogue %q: is still running", d.labelLocked())
	}
	r.mu.Lock()
	delete(r.dialogues, d.id)
	r.mu.Unlock()
	return d.discardLocked()
}

// sweepSoon lets the records be looked after, soon.
func (r *Registry) sweepSoon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.config.TotalBytes <= 0 || r.sweeping || r.closing {
		return
	}
	r.sweeping = true
	r.tasks.Go(r.sweep)
}

// sweep removes the records that are too many.
func (r *Registry) sweep() {
	r.mu.Lock()
	r.sweeping = false // what ends from now on is another one's business
	r.mu.Unlock()
	type past struct {
		d     *Dialogue
		bytes int64
		at    time.Time
	}
	var total int64
	var ended []past
	for _, d := range r.all() {
		bytes := d.record.totalBytes()
		total += bytes
		if info := d.Info(); info.State == api.DialogueEnded {
			ended = append(ended, past{d, bytes, info.LastActivity})
		}
	}
	slices.SortFunc(ended, func(a, b past) int { return a.at.Compare(b.at) })
	for _, p := range ended {
		if total <= r.config.TotalBytes {
			return
		}
		if err := r.forget(p.d); err == nil {
			total -= p.bytes
			p.d.log.Info("removed the record of a dialogue (dialogues_total_bytes)")
		}
	}
}

// Close ends all dialogues and waits until nothing is left of them. When force is done,
// they are killed.
func (r *Registry) Close(force <-chan struct{}) {
	list := r.refuseStarts()
	var all sync.WaitGroup
	for _, d := range list {
		all.Go(func() { d.close("the daemon is shutting down", force) })
	}
	all.Wait()
	r.tasks.Wait()
	close(r.done)
}

// Leave lets the programs go on; a later daemon finds them.
func (r *Registry) Leave() {
	list := r.refuseStarts()
	close(r.done)
	for _, d := range list {
		d.leave()
	}
	r.tasks.Wait()
}

func (r *Registry) refuseStarts() []*Dialogue {
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	r.stopStarts(api.ErrDaemonEnding)
	return r.all()
}

func newID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return "d-" + hex.EncodeToString(b[:])
}
