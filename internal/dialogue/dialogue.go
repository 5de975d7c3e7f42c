package dialogue

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/transcript"
)

// Dialogue is a conversation with an agent, and owns the session in which the agent runs.
//
// All input takes one path, in one order, with mu held: a line of the agent's output or a call goes
// into the protocol, and the resulting events go into the record (see takeLocked). Readers read the
// record; the dialogue never waits for them.
//
// Goroutines of each process: readOutput, writeInput, and escalate while the process is being
// ended. The registry counts them. A Dialogue is safe for concurrent use.
type Dialogue struct {
	id       string
	name     string // may be empty
	argv     []string
	created  time.Time
	registry *Registry
	log      *slog.Logger

	// starting is a one-slot semaphore: at most one goroutine starts a process or looks for
	// orphans, and waiting for it can be cancelled.
	starting chan struct{}
	// ready is closed when the dialogue is recovered. Until then Info returns basics, and callers
	// that need more wait for ready.
	ready  <-chan struct{}
	basics api.DialogueInfo

	mu        sync.Mutex
	about     about             // guarded by mu
	env       map[string]string // guarded by mu; never on the disk
	record    *record           // its appending methods are guarded by mu
	state     api.DialogueState // guarded by mu; written by toLocked alone
	process   *agentProcess     // guarded by mu; nil when there is none
	removed   bool              // guarded by mu; the record is deleted, or about to be
	followers int               // guarded by mu; how many clients follow the events

	// info is the last snapshot of a dialogue that has ended. While it is set, tracker is nil and
	// the events are not in memory. Guarded by mu.
	info *api.DialogueInfo
	// tracker knows the open requests, items and tasks. Guarded by mu.
	tracker *transcript.Tracker
	// messages has the number of the event of each message that was sent, by the message's id.
	// Guarded by mu.
	messages  map[string]int64
	seq       int64              // guarded by mu; of the last event
	published api.DialogueState  // guarded by mu; the last state in the record
	fault     *api.DialogueFault // guarded by mu; why the state is error
	stalledAt *time.Time         // guarded by mu; since when a working agent has been silent

	shared sharedTree // the transcript, for callers that ask for it

	announced announced         // guarded by mu
	news      []api.StreamEvent // guarded by mu; for the journal, when the record is written

	denyTimer   *time.Timer // guarded by mu; denies open requests that no client answers
	flushTimer  *time.Timer // guarded by mu; writes the record again after a failure
	lingerTimer *time.Timer // guarded by mu; ends a dialogue that no client follows
	reportTimer *time.Timer // guarded by mu; reports open requests that no client sees

	reported map[string]bool // guarded by mu; the open requests that were reported

	undecided   map[string]bool     // guarded by mu; requests that no rule of undecidedBy decides
	undecidedBy *api.DialoguePolicy // guarded by mu
}

// ID returns the dialogue's id.
func (d *Dialogue) ID() string { return d.id }

// labelLocked is the name that errors use for the dialogue.
func (d *Dialogue) labelLocked() string { return cmp.Or(d.about.Params.Name, d.id) }

// Info returns a snapshot. While the dialogue is being recovered, it has what dialogue.json says.
func (d *Dialogue) Info() api.DialogueInfo {
	if !d.isRecovered() {
		return d.basics
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.infoLocked()
}

// isRecovered reports whether the dialogue is recovered. Until then its mutex is held.
func (d *Dialogue) isRecovered() bool {
	select {
	case <-d.ready:
		return true
	default:
		return false
	}
}

// awaitRecovered waits until the dialogue is recovered or ctx ends, and reports whether it is recovered.
func (d *Dialogue) awaitRecovered(ctx context.Context) bool {
	select {
	case <-d.ready:
	case <-ctx.Done():
	}
	return d.isRecovered()
}

func (d *Dialogue) infoLocked() api.DialogueInfo {
	if d.info != nil {
		info := *d.info
		info.Followers = d.followers
		return info
	}
	info := basicInfo(d.about)
	d.tracker.Describe(&info)
	describeAgent(&info, d.tracker.Opened())
	info.Followers = d.followers
	info.State, info.Error, info.StalledAt = d.state, d.fault, d.stalledAt
	_, info.Seq, _, _ = d.record.state() // the last event that can be read
	if d.process != nil {
		if at := d.process.program.lostSince().UTC(); !at.IsZero() {
			info.LostAt = &at
		}
	}
	return info
}

// waiting returns the open requests, if the dialogue has the tags.
func (d *Dialogue) waiting(tags []string) (list []api.DialogueWaiting) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tracker == nil || !hasTags(d.about.Params.Tags, tags) {
		return nil
	}
	for _, request := range d.tracker.Pending() {
		list = append(list, api.DialogueWaiting{DialogueID: d.id, Name: d.name, Agent: d.about.Params.Agent, Request: request})
	}
	return list
}

// basicInfo describes a dialogue as far as dialogue.json does: it may have a process, and is being
// started again.
func basicInfo(a about) api.DialogueInfo {
	p := a.Params
	info := api.DialogueInfo{
		DialogueID: a.ID, Name: p.Name, Agent: p.Agent, State: api.DialogueStarting, SessionID: a.SessionID,
		NativeSession: a.Options.Resume, // until the agent reports its own
		WorkingDir:    cmp.Or(a.Options.WorkingDir, p.WorkingDir), Runtime: p.Runtime, Model: p.Model, PermissionMode: p.PermissionMode,
		Tags: p.Tags, Epoch: a.Epoch, CreatedAt: a.CreatedAt, LastActivity: a.CreatedAt, Policy: p.Policy.Info(),
	}
	if p.Remote != nil {
		info.Remote = p.Remote.Address
	}
	describeAgent(&info, api.DialogueOpened{})
	if info.Tags == nil {
		info.Tags = []string{}
	}
	return info
}

// describeAgent fills in what the agent can do.
func describeAgent(info *api.DialogueInfo, o api.DialogueOpened) {
	if a, err := findAgent(info.Agent); err == nil {
		a.Describe(&o)
	}
	info.Capabilities, info.Modes = o.Capabilities, o.Modes
	if info.Capabilities == nil {
		info.Capabilities = []string{}
	}
}

// toLocked moves the dialogue to its next state; nothing else writes it.
func (d *Dialogue) toLocked(next api.DialogueState) error {
	if next == d.state {
		return nil
	}
	if !d.state.CanBecome(next) {
		return fmt.Errorf("dialogue %q: cannot go from %s to %s", d.id, d.state, next)
	}
	d.state = next
	if next != api.DialogueError {
		d.fault = nil
	}
	return nil
}

// moveLocked is toLocked for callers that have no one to return the error to. An illegal move is a
// bug; the dialogue stays in its state.
func (d *Dialogue) moveLocked(next api.DialogueState) {
	if err := d.toLocked(next); err != nil {
		d.log.Error("illegal state change of a dialogue", "error", err)
	}
}
