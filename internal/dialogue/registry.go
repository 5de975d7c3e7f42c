package dialogue

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/journal"
	"github.com/trl-dev/trl/internal/session"
)

// Config is the configuration of a Registry.
type Config struct {
	Sessions *session.Registry
	// Journal gets the events of dialogues that event.subscribe pushes; nil: they are not published.
	Journal *journal.Journal
	Logger  *slog.Logger
	// Dir holds the records. It is created with the first dialogue.
	Dir string
	// DefaultRuntime is the place of agents whose creator names none; empty for the host.
	DefaultRuntime string
	// StartTimeout is how long an agent may take to answer, for the first time and to each call.
	StartTimeout time.Duration
	// Grace is how long an agent may take to exit on its own after its input has ended.
	Grace time.Duration
	// Stall is how long a working agent may be silent before it is reported as stalled; 0 means
	// without a limit.
	Stall time.Duration
	// Reconnect is how long the place of an agent may be unreachable before the dialogue reports it.
	Reconnect time.Duration
	// LineBytes bounds the length of a line of an agent.
	LineBytes int64
	// TotalBytes bounds the size of all records; 0 means no bound. The records of ended dialogues
	// are removed, the oldest first.
	TotalBytes int64
	// OnRequest gets the requests that have waited for OnRequestAfter while no client looked. It
	// must not wait. Nil: requests are not reported.
	OnRequest      func(api.RequestReport)
	OnRequestAfter time.Duration
}

// Registry has the dialogues of a daemon.
//
// Goroutines: those of the dialogues, sweep, and those that recover dialogues of an earlier daemon;
// Close and Leave wait for them. A Registry is safe for concurrent use.
type Registry struct {
	config     Config
	log        *slog.Logger
	streams    atomic.Int64            // how many event streams were opened
	pages      atomic.Int64            // how many pages of the console are open
	done       chan struct{}           // closed when this daemon no longer serves the dialogues
	ctx        context.Context         // ends when no more agents are started
	stopStarts context.CancelCauseFunc // ends ctx
	tasks      sync.WaitGroup

	reservation sync.Mutex // held from checking that a name is free until it is taken

	mu        sync.Mutex
	closing   bool                 // guarded by mu; no dialogue or goroutine is started any more
	dialogues map[string]*Dialogue // guarded by mu; by id
	starting  map[string]reserved  // guarded by mu; the names of dialogues that are being started, by id
	sweeping  bool                 // guarded by mu
}

// New returns a Registry without dialogues.
func New(c Config) *Registry {
	r := &Registry{config: c, log: c.Logger, done: make(chan struct{}), dialogues: map[string]*Dialogue{}, starting: map[string]reserved{}}
	r.ctx, r.stopStarts = context.WithCancelCause(context.Background())
	return r
}

// Get finds a dialogue by its id or name, and waits until it is recovered. If several dialogues had
// the name, it returns the one that lives, or else the youngest.
func (r *Registry) Get(ref string) (*Dialogue, error) {
	r.mu.Lock()
	d := r.dialogues[ref]
	r.mu.Unlock()
	if d != nil {
		<-d.ready // only callers that ask for this dialogue wait for its recovery
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

// List returns all dialogues that p selects, oldest first. The caller cuts out the page.
func (r *Registry) List(p api.DialogueListParams) []api.DialogueInfo {
	list := []api.DialogueInfo{}
	for _, d := range r.all() {
		info := d.Info()
		if hasTags(info.Tags, p.Tags) && p.Selects(info.State) {
			list = append(list, info)
		}
	}
	return list
}

// recoveryWait is how long Requests waits for dialogues that are being recovered. Most records are read
// in less; a long one takes many seconds.
const recoveryWait = time.Second

// Requests returns the open requests of all dialogues, the one that has waited longest first. It
// waits a while for dialogues that are being recovered, and names those that still are.
func (r *Registry) Requests(ctx context.Context, p api.DialogueRequestsParams) (api.DialogueRequestsResult, error) {
	result := api.DialogueRequestsResult{Requests: []api.DialogueWaiting{}}
	wait, cancel := context.WithTimeout(ctx, recoveryWait)
	defer cancel()
	for _, d := range r.all() {
		switch {
		case d.isRecovered():
		case !hasTags(d.basics.Tags, p.Tags):
			continue
		case !d.awaitRecovered(wait):
			if err := ctx.Err(); err != nil {
				return result, err
			}
			result.Recovering = append(result.Recovering, d.id)
			continue
		}
		result.Requests = append(result.Requests, d.waiting(p.Tags)...)
	}
	slices.SortStableFunc(result.Requests, func(a, b api.DialogueWaiting) int { return openedAt(a).Compare(openedAt(b)) })
	return result, nil
}

func openedAt(w api.DialogueWaiting) (at time.Time) {
	if w.Request.OpenedAt != nil {
		at = *w.Request.OpenedAt
	}
	return at
}

// hasTags reports whether all wanted tags are there.
func hasTags(has, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(t string) bool { return !slices.Contains(has, t) })
}

// all returns the dialogues, oldest first.
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

// Create starts an agent in a new dialogue, and returns when the agent has answered. If that fails,
// or ctx ends first, nothing is left of the dialogue.
func (r *Registry) Create(ctx context.Context, p api.DialogueCreateParams) (api.DialogueInfo, error) {
	if p.Runtime == "" {
		p.Runtime = cmp.Or(r.config.DefaultRuntime, placeHost)
	}
	if _, err := findAgent(p.Agent); err != nil {
		return api.DialogueInfo{}, err
	}
	id := newID()
	if err := r.reserve(id, reserved{p.Name, p.Agent, p.Resume, p.Argv}); err != nil {
		return api.DialogueInfo{}, err
	}
	defer r.release(id)
	rec, err := newRecord(filepath.Join(r.config.Dir, id))
	if err != nil {
		return api.DialogueInfo{}, errNoRecord(err)
	}
	prompt, resume := p.Prompt, p.Resume
	createID := p.CreateID
	p.CreateID = "" // it is for this creation alone
	d := r.newDialogue(rec, about{ID: id, CreatedAt: time.Now().UTC(), Params: p})
	d.env, d.about.Params.Env = p.Env, nil
	d.resetLocked()
	if err := d.start(ctx, resume, createID); err != nil {
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
	entered := !r.closing
	if entered {
		r.dialogues[id] = d
	}
	r.mu.Unlock()
	// Close and Leave see a dialogue that is entered. It is complete then, also if they follow at once:
	// Leave may have handed its process to the next daemon.
	if entered {
		err = d.noteCreated()
	} else {
		err = d.endIfClosing(prompt != "")
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

// undo removes a dialogue that could not be created.
func (d *Dialogue) undo() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.discardLocked(); err != nil {
		d.log.Error("record of the dialogue cannot be removed", "error", err)
	}
}

// discardLocked removes the record.
func (d *Dialogue) discardLocked() error {
	d.removed = true
	d.record.end()
	return d.record.remove()
}

// noteCreated notes in the record that the dialogue is complete, so that the next daemon keeps it.
func (d *Dialogue) noteCreated() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.about.Created = true
	if err := d.record.save(d.about); err != nil {
		return errNoRecord(err)
	}
	d.announceLocked()
	return nil
}

// errPrompted is the error of a creation that the end of the daemon cancelled when the agent had its
// first message. It is no ErrDaemonEnding: after that one, a client asks the next daemon, and the agent
// would do twice what the message says.
var errPrompted error = api.Errorf(api.CodeRuntimeUnavailable, "%s; the agent may have begun with the prompt", api.ErrDaemonEnding.Message)

// endIfClosing ends the process if the daemon began to shut down while the process was started:
// Close and Leave may have missed it. prompted says that the agent has its first message.
func (d *Dialogue) endIfClosing(prompted bool) error {
	d.registry.mu.Lock()
	late := d.registry.closing
	d.registry.mu.Unlock()
	if !late {
		return nil
	}
	d.close("the daemon is shutting down", alreadyClosed)
	if prompted {
		return errPrompted
	}
	return context.Cause(d.registry.ctx)
}

// alreadyClosed is a channel for callers that do not wait.
var alreadyClosed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (r *Registry) newDialogue(rec *record, a about) *Dialogue {
	return &Dialogue{
		id: a.ID, name: a.Params.Name, argv: a.Params.Argv, created: a.CreatedAt, registry: r, log: r.log.With("dialogue_id", a.ID), starting: make(chan struct{}, 1),
		about: a, record: rec, state: api.DialogueStarting, messages: map[string]int64{}, ready: alreadyClosed,
	}
}

// reserved holds the things that two live dialogues cannot share: a name, and a conversation of the
// agent.
type reserved struct {
	name, agent, native string
	argv                []string
}

// clash names the thing that both reserve; empty if there is none.
func (r reserved) clash(other reserved) string {
	switch {
	case r.name != "" && r.name == other.name:
		return "name " + strconv.Quote(r.name)
	case r.native != "" && r.native == other.native && r.agent == other.agent && (r.agent != "acp" || mayBeOne(r.argv, other.argv)):
		return "conversation " + strconv.Quote(r.native) + " of " + r.agent
	}
	return ""
}

// mayBeOne reports whether two commands may run the same program. Another program that speaks ACP may
// have other conversations with the same ids, such as session-1. A launcher has the program as its first
// argument that is no option.
func mayBeOne(a, b []string) bool {
	program := func(argv []string) (name, first string) {
		for i, word := range argv {
			if i == 0 {
				name = path.Base(word)
			} else if !strings.HasPrefix(word, "-") {
				return name, word
			}
		}
		return name, ""
	}
	name, first := program(a)
	otherName, otherFirst := program(b)
	return name == otherName && (first == otherFirst || first == "" || otherFirst == "")
}

// reserve takes the name and the conversation for a dialogue that is about to be started, or
// returns a conflict.
func (r *Registry) reserve(id string, want reserved) error {
	r.reservation.Lock() // so that two callers cannot both find a name free
	defer r.reservation.Unlock()
	taken := map[string]reserved{}
	r.mu.Lock()
	maps.Copy(taken, r.starting)
	r.mu.Unlock()
	for _, d := range r.all() { // in this order: a dialogue moves from r.starting to r.dialogues
		if info := d.Info(); info.State != api.DialogueEnded {
			taken[d.id] = reserved{info.Name, info.Agent, info.NativeSession, d.argv}
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
		return context.Cause(r.ctx)
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

// forget removes an ended dialogue and its record.
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
	d.announceRemovedLocked()
	return d.discardLocked()
}

// sweepSoon starts sweep, unless it is about to run.
func (r *Registry) sweepSoon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.config.TotalBytes <= 0 || r.sweeping || r.closing {
		return
	}
	r.sweeping = true
	r.tasks.Go(r.sweep)
}

// sweep removes the oldest records of ended dialogues while all records take more than TotalBytes.
func (r *Registry) sweep() {
	r.mu.Lock()
	r.sweeping = false // a dialogue that ends from now on needs another sweep
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

// Close ends all dialogues and waits for their processes and goroutines. The processes are killed
// when force is closed.
func (r *Registry) Close(force <-chan struct{}) {
	list := r.refuseStarts(api.ErrDaemonStopped)
	var all sync.WaitGroup
	for _, d := range list {
		all.Go(func() { d.close("the daemon is shutting down", force) })
	}
	all.Wait()
	r.tasks.Wait()
	close(r.done)
}

// Leave releases the processes, which go on; the next daemon recovers them.
func (r *Registry) Leave() {
	list := r.refuseStarts(api.ErrDaemonEnding)
	close(r.done)
	for _, d := range list {
		d.leave()
	}
	r.tasks.Wait()
}

// refuseStarts refuses new dialogues, cancels those that are being created, and returns the others. why
// tells the creators of those that are cancelled whether to ask the next daemon.
func (r *Registry) refuseStarts(why error) []*Dialogue {
	r.mu.Lock()
	r.closing = true
	r.stopStarts(why)
	r.mu.Unlock()
	return r.all()
}

func newID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return "d-" + hex.EncodeToString(b[:])
}
