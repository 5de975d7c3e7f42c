// Package dialogue holds the conversations with coding agents. Each owns a session of kind
// program, and a record on disk that survives the program, the daemon and a reboot. Package
// agent has the protocols of the programs; package transcript reduces their events.
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
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/session"
)

// Config is what a Host needs to know.
type Config struct {
	Registry *session.Registry
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
type Host struct {
	config  Config
	log     *slog.Logger
	streams atomic.Int64            // how many have been numbered
	leaving chan struct{}           // closed when the dialogues go on without us
	ctx     context.Context         // ends when no more agents are started
	refused context.CancelCauseFunc // ends ctx
	tasks   sync.WaitGroup

	reserving sync.Mutex // held by who takes a name

	mu        sync.Mutex
	closing   bool                 // guarded by mu; nothing begins any more
	dialogues map[string]*Dialogue // guarded by mu; by id
	starting  map[string]reserved  // guarded by mu; what is being started, by id
	sweeping  bool                 // guarded by mu
}

// New makes a Host without dialogues.
func New(c Config) *Host {
	h := &Host{config: c, log: c.Logger, leaving: make(chan struct{}), dialogues: map[string]*Dialogue{}, starting: map[string]reserved{}}
	h.ctx, h.refused = context.WithCancelCause(context.Background())
	return h
}

// Get finds a dialogue by its id or name. Of several that had the name, it is the one
// that lives, or else the youngest.
func (h *Host) Get(ref string) (*Dialogue, error) {
	h.mu.Lock()
	d := h.dialogues[ref]
	h.mu.Unlock()
	if d != nil {
		<-d.known // who asks for it waits until it is recovered, and nobody else
		return d, nil
	}
	for _, one := range h.all() {
		if ref != "" && one.name == ref && (d == nil || one.Info().State != api.DialogueEnded || d.Info().State == api.DialogueEnded) {
			d = one
		}
	}
	if d == nil {
		return nil, api.Errorf(api.CodeDialogueNotFound, "dialogue %.100q: not found", ref)
	}
	<-d.known
	return d, nil
}

// List returns the dialogues, oldest first.
func (h *Host) List(p api.DialogueListParams) []api.DialogueInfo {
	list := []api.DialogueInfo{}
	for _, d := range h.all() {
		info := d.Info()
		missing := slices.ContainsFunc(p.Tags, func(t string) bool { return !slices.Contains(info.Tags, t) })
		if !missing && (p.State == "" || p.State == info.State) {
			list = append(list, info)
		}
	}
	return list
}

// all is every dialogue, oldest first.
func (h *Host) all() []*Dialogue {
	h.mu.Lock()
	list := make([]*Dialogue, 0, len(h.dialogues))
	for _, d := range h.dialogues {
		list = append(list, d)
	}
	h.mu.Unlock()
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
func (h *Host) Create(ctx context.Context, p api.DialogueCreateParams) (api.DialogueInfo, error) {
	if p.Runtime == "" {
		p.Runtime = "host"
	}
	if _, err := findAgent(p.Agent); err != nil {
		return api.DialogueInfo{}, err
	}
	id := newID()
	if err := h.reserve(id, reserved{p.Name, p.Agent, p.Resume}); err != nil {
		return api.DialogueInfo{}, err
	}
	defer h.release(id)
	r, err := newRecord(filepath.Join(h.config.Dir, id))
	if err != nil {
		return api.DialogueInfo{}, errNoRecord(err)
	}
	prompt, resume := p.Prompt, p.Resume
	d := h.newDialogue(r, about{ID: id, CreatedAt: time.Now().UTC(), Params: p})
	d.env, d.about.Params.Env = p.Env, nil
	d.state = api.DialogueStarting
	d.reset()
	if err := d.start(ctx, resume); err != nil {
		d.undo()
		return api.DialogueInfo{}, err
	}
	if prompt != "" {
		if _, err := d.Send(ctx, api.DialogueSendParams{DialogueID: id, Text: prompt}); err != nil {
			d.close("its first message could not be sent", closed)
			d.undo()
			return api.DialogueInfo{}, err
		}
	}
	h.mu.Lock()
	if !h.closing {
		h.dialogues[id] = d
	}
	h.mu.Unlock()
	err = d.tooLate()
	if err == nil {
		err = d.noteCreated()
	}
	if err != nil {
		d.close("could not be created", closed)
		h.mu.Lock()
		delete(h.dialogues, id)
		h.mu.Unlock()
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
	if err := d.discard(); err != nil {
		d.log.Error("record of the dialogue cannot be removed", "error", err)
	}
}

// discard removes the record. While another daemon may still have the session, the record
// stays, hidden from clients, until that session has ended. mu is held.
func (d *Dialogue) discard() error {
	d.removed = true
	d.record.end()
	a := d.about
	if !a.Stray || a.Params.Remote == nil {
		return d.record.remove()
	}
	a.Created, a.Info = false, nil
	if err := d.record.save(a); err != nil {
		return err
	}
	d.host.chase(func() bool { return d.host.undone(a) })
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

// tooLate ends a program that was started while the daemon began to end.
func (d *Dialogue) tooLate() error {
	d.host.mu.Lock()
	late := d.host.closing
	d.host.mu.Unlock()
	if !late {
		return nil
	}
	d.close("the daemon is shutting down", closed)
	return api.ErrDaemonEnding
}

// closed is a channel for who cannot wait.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (h *Host) newDialogue(r *record, a about) *Dialogue {
	return &Dialogue{
		id: a.ID, name: a.Params.Name, created: a.CreatedAt, host: h, log: h.log.With("dialogue_id", a.ID), moving: make(chan struct{}, 1),
		about: a, record: r, messages: map[string]int64{}, known: closed,
	}
}

func findAgent(name string) (agent.Agent, error) {
	a, ok := agent.Find(name)
	if !ok {
		e := api.Errorf(api.CodeInvalidParams, "params.agent: %.40q is not one of %s", name, strings.Join(agent.Names(), ", "))
		e.Details = map[string]any{"field": "agent"}
		return nil, e
	}
	return a, nil
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
func (h *Host) reserve(id string, r reserved) error {
	h.reserving.Lock() // nothing is started between looking and taking
	defer h.reserving.Unlock()
	taken := map[string]reserved{}
	h.mu.Lock()
	maps.Copy(taken, h.starting)
	h.mu.Unlock()
	for _, d := range h.all() { // after those that are starting, which become these
		if info := d.Info(); info.State != api.DialogueEnded {
			taken[d.id] = reserved{info.Name, info.Agent, info.NativeSession}
		}
	}
	for other, has := range taken {
		if what := r.clash(has); what != "" {
			return api.Errorf(api.CodeConflict, "dialogue: %s is taken by %s", what, other)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return api.ErrDaemonEnding
	}
	h.starting[id] = r
	h.tasks.Add(1) // under mu and before closing is set, so that Close waits for it
	return nil
}

func (h *Host) release(id string) {
	h.mu.Lock()
	delete(h.starting, id)
	h.mu.Unlock()
	h.tasks.Done()
}

// forget removes what is kept of a dialogue that has ended.
func (h *Host) forget(d *Dialogue) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.removed:
		return nil
	case d.process != nil || d.state != api.DialogueEnded:
		return api.Errorf(api.CodeConflict, "dialogue %q: is still running", d.label())
	}
	h.mu.Lock()
	delete(h.dialogues, d.id)
	h.mu.Unlock()
	return d.discard()
}

// nudge lets the records be looked after, soon.
func (h *Host) nudge() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.config.TotalBytes <= 0 || h.sweeping || h.closing {
		return
	}
	h.sweeping = true
	h.tasks.Go(h.sweep)
}

// sweep removes the records that are too many.
func (h *Host) sweep() {
	h.mu.Lock()
	h.sweeping = false // what ends from now on is another one's business
	h.mu.Unlock()
	type past struct {
		d     *Dialogue
		bytes int64
		at    time.Time
	}
	var total int64
	var ended []past
	for _, d := range h.all() {
		bytes := d.record.bytesOf()
		total += bytes
		if info := d.Info(); info.State == api.DialogueEnded {
			ended = append(ended, past{d, bytes, info.LastActivity})
		}
	}
	slices.SortFunc(ended, func(a, b past) int { return a.at.Compare(b.at) })
	for _, p := range ended {
		if total <= h.config.TotalBytes {
			return
		}
		if err := h.forget(p.d); err == nil {
			total -= p.bytes
			p.d.log.Info("removed the record of a dialogue (dialogues_total_bytes)")
		}
	}
}

// Close ends all dialogues and waits until nothing is left of them. When force is done,
// they are killed.
func (h *Host) Close(force <-chan struct{}) {
	list := h.refuse()
	var all sync.WaitGroup
	for _, d := range list {
		all.Go(func() { d.close("the daemon is shutting down", force) })
	}
	all.Wait()
	h.tasks.Wait()
	close(h.leaving)
}

// Leave lets the programs go on; a later daemon finds them.
func (h *Host) Leave() {
	list := h.refuse()
	close(h.leaving)
	for _, d := range list {
		d.leave()
	}
	h.tasks.Wait()
}

func (h *Host) refuse() []*Dialogue {
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	h.refused(api.ErrDaemonEnding)
	return h.all()
}

func newID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return "d-" + hex.EncodeToString(b[:])
}
