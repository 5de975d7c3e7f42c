package dialogue

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/transcript"
)

// Dialogue is a conversation with an agent, and owns the session of the agent's program.
//
// All input goes through one function, in one order: take, with mu held. A line of the
// program or a call goes into the protocol, and the resulting events go into the record.
// Readers read the record; the dialogue never waits for them.
//
// Goroutines of each process: read, write, and end while it is being ended. The host counts
// them. A Dialogue is safe for concurrent use.
type Dialogue struct {
	id       string
	name     string // may be empty
	created  time.Time
	registry *Registry
	log      *slog.Logger

	// moving is held by who starts a process.
	starting chan struct{}
	// known is closed when the dialogue is recovered; until then mu is held by the goroutine
	// that reads its record, and found is what can be said of it.
	ready  <-chan struct{}
	basics api.DialogueInfo

	mu          sync.Mutex
	about       about               // guarded by mu
	env         map[string]string   // guarded by mu; never on the disk
	record      *record             // its appending methods are guarded by mu
	info        *api.DialogueInfo   // guarded by mu; of one that has ended and whose events were not read
	state       api.DialogueState   // guarded by mu; written by to alone
	published   api.DialogueState   // guarded by mu; the last state in the record
	fault       *api.DialogueFault  // guarded by mu; why it is in state error
	process     *agentProcess       // guarded by mu; nil when none lives
	tracker     *transcript.Tracker // guarded by mu; nil with info
	messages    map[string]int64    // guarded by mu; what was sent, and the number of the event that tells
	seq         int64               // guarded by mu; of the last event
	stalledAt   *time.Time          // guarded by mu
	followers   int                 // guarded by mu; how many follow the events
	denyTimer   *time.Timer         // guarded by mu; when nobody has followed for too long
	flushTimer  *time.Timer         // guarded by mu; when it is tried again to write the record
	lingerTimer *time.Timer         // guarded by mu; when it ends because nobody follows
	removed     bool                // guarded by mu; nothing is kept of it
}

// process is one process of the agent.
type agentProcess struct {
	program program
	ctx     context.Context // ends when the dialogue lets go of it
	leave   context.CancelFunc
	done    chan struct{} // closed when it is over, or was left

	// The rest is guarded by the dialogue's mu.
	protocol   agent.Protocol
	lines      lines
	agentState api.DialogueState // as the protocol told it: running or idle
	ready      chan struct{}     // closed when the agent has answered, or will not
	isReady    bool
	failed     string                     // why the conversation could not be opened
	waiting    map[string]chan *api.Error // calls that have no answer yet
	calls      int                        // how many were made
	stderr     []byte                     // its end
	stdinBytes int64                      // bytes written to it until now
	input      outbox
	lastOutput time.Time     // when it last wrote
	stallTimer *time.Timer   // for its silence
	replay     *replay       // while it is brought back to where it was
	again      bool          // it is of an earlier daemon, which may have sent what waits to be sent
	killing    bool          // the dialogue itself has destroyed its session, or is about to
	killed     bool          // its session is gone
	ending     string        // why it is being ended, when it is
	forced     chan struct{} // closed when its end cannot wait
	rushed     bool          // forced is closed
	gone       bool          // it has ended where nobody heard of it
	left       bool          // it goes on without us
	retry      chan struct{}
	retried    chan struct{}   // closed when what failed has been tried again
	answering  map[string]bool // requests that the policy is answering
	aliases    aliases         // ids of an older record
}

// stderrTail is how much is kept of what a program writes to stderr.
const stderrTail = 8 << 10

// ID returns the dialogue's id.
func (d *Dialogue) ID() string { return d.id }

// labelLocked is what an error calls the dialogue. mu is held.
func (d *Dialogue) labelLocked() string {
	if d.about.Params.Name != "" {
		return d.about.Params.Name
	}
	return d.id
}

// Info returns a snapshot.
func (d *Dialogue) Info() api.DialogueInfo {
	select {
	case <-d.ready:
	default:
		return d.basics
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.infoLocked()
}

// infoLocked is Info with mu held.
func (d *Dialogue) infoLocked() api.DialogueInfo {
	if d.info != nil {
		return *d.info
	}
	p := d.about.Params
	info := api.DialogueInfo{
		DialogueID: d.id, Name: p.Name, Agent: p.Agent, SessionID: d.about.SessionID, WorkingDir: cmp.Or(d.about.Options.WorkingDir, p.WorkingDir), Runtime: p.Runtime,
		Model: p.Model, PermissionMode: p.PermissionMode, Tags: p.Tags, Epoch: d.about.Epoch, CreatedAt: d.about.CreatedAt, LastActivity: d.about.CreatedAt,
	}
	d.tracker.Describe(&info)
	info.NativeSession = cmp.Or(info.NativeSession, d.about.Options.Resume) // before the agent says so itself
	info.State, info.Error, info.StalledAt = d.state, d.fault, d.stalledAt
	_, info.Seq, _, _ = d.record.state() // what can be read
	if d.process != nil {
		if at := d.process.program.lostSince().UTC(); !at.IsZero() {
			info.LostAt = &at
		}
	}
	if info.Tags == nil {
		info.Tags = []string{}
	}
	return info
}

// toLocked moves the dialogue to its next state; nothing else writes it. mu is held.
func (d *Dialogue) toLocked(next api.DialogueState) {
	if next == d.state {
		return
	}
	if !d.state.CanBecome(next) {
		d.log.Error("illegal state change of a dialogue", "error", "cannot go from "+string(d.state)+" to "+string(next))
		return
	}
	d.state = next
	if next != api.DialogueError {
		d.fault = nil
	}
}

// takeLocked does what follows from a line or a call: events into the record, lines to the
// program, answers to those who wait. mu is held; the caller writes the record.
func (d *Dialogue) takeLocked(p *agentProcess, s agent.Step, at *int64) {
	asked := false
	for _, ev := range s.Events {
		asked = asked || ev.Type == api.DialogueEventRequestOpened || ev.Type == api.DialogueEventRequestClosed
		if ev.Type == api.DialogueEventState {
			p.agentState = ev.State
			d.publishStateLocked(p, at)
			continue
		}
		ev.Offset = at
		d.publishLocked(p, p.aliases.renamed(ev))
	}
	for _, text := range s.Write {
		d.sendLocked(p, text)
	}
	for _, a := range s.Answers {
		if c := p.waiting[a.ID]; c != nil {
			c <- a.Err
			delete(p.waiting, a.ID)
		}
	}
	if s.Failed != "" && !p.isReady {
		p.failed = s.Failed
		p.isReady = true
		close(p.ready)
	}
	if s.Ready && !p.isReady {
		p.isReady = true
		close(p.ready)
		if p.agentState == "" {
			p.agentState = api.DialogueIdle
		}
		d.publishStateLocked(p, at)
	}
	if asked { // last: the answer is a call of its own, behind all that the line says
		d.applyPolicyLocked(p)
	}
}

// publishStateLocked tells the state when it is another: that an open request requires action is
// known here alone. One that cannot go on does so when its fault is resolved, and not before.
func (d *Dialogue) publishStateLocked(p *agentProcess, at *int64) {
	if p == nil || !p.isReady {
		return
	}
	state := p.agentState
	switch {
	case d.state == api.DialogueError || d.state == api.DialogueEnded:
		return
	case len(d.tracker.Pending()) > 0:
		state = api.DialogueRequiresAction
	case state == "":
		state = api.DialogueIdle
	}
	if state != d.published {
		d.publishLocked(p, api.DialogueEvent{Type: api.DialogueEventState, State: state, Offset: at})
	}
	d.toLocked(state)
}

// publishLocked puts an event into the record, and what follows from it. p is nil when the process
// has ended. mu is held.
func (d *Dialogue) publishLocked(p *agentProcess, ev api.DialogueEvent) {
	ev.Epoch = d.about.Epoch
	if p != nil {
		made := ev
		for _, known := range p.replay.next(&ev) {
			d.applyLocked(known)
		}
		switch {
		case ev.Seq > 0:
			p.aliases.learn(made, ev)
		case ev.Seq < 0:
			p.aliases.adopt(made, d.tracker.IsOpen)
		}
	}
	if ev.Seq == 0 { // it is new
		ev.Seq, ev.At = d.seq+1, time.Now().UTC()
		if err := d.record.add(ev); err != nil {
			d.log.Error("event cannot be kept", "error", err)
			return
		}
	}
	if ev.Seq < 0 { // the record says otherwise, and is right
		return
	}
	d.applyLocked(ev)
	for _, next := range d.tracker.Follow() {
		next.Offset = ev.Offset
		d.publishLocked(p, next)
	}
	if ev.Type == api.DialogueEventRequestOpened || ev.Type == api.DialogueEventRequestClosed {
		d.publishStateLocked(p, ev.Offset)
	}
}

// applyLocked takes note of an event that is in the record. mu is held.
func (d *Dialogue) applyLocked(ev api.DialogueEvent) {
	d.seq = ev.Seq
	d.tracker.Apply(ev)
	switch ev.Type {
	case api.DialogueEventState:
		d.published = ev.State
	case api.DialogueEventMessage:
		if _, known := d.messages[ev.Message.MessageID]; !known {
			d.messages[ev.Message.MessageID] = ev.Seq
		}
	}
}

// own is an event that the dialogue makes by itself: nothing that the program or a caller
// did leads to it again.
const own = "trl"

// publishOwnLocked appends an event of the dialogue's own. mu is held.
func (d *Dialogue) publishOwnLocked(p *agentProcess, ev api.DialogueEvent) {
	ev.NativeID = own
	d.publishLocked(p, ev)
	d.flushLocked()
}

// flushLocked writes the record. What cannot be written now is written later. mu is held.
func (d *Dialogue) flushLocked() {
	err := d.record.write(d.seq, d.state == api.DialogueEnded)
	if err == nil {
		return
	}
	d.log.Error("events cannot be written", "error", err)
	if d.flushTimer == nil && d.process != nil {
		d.flushTimer = time.AfterFunc(roomPause, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.flushTimer = nil; d.process != nil {
				d.flushLocked()
			}
		})
	}
}

// receive takes what the program wrote. When it cannot be written down it is given again: what
// was taken of it is known by its offset.
func (d *Dialogue) receive(p *agentProcess, got piece) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if got.stream == api.EventStderr {
		p.stderr = append(p.stderr, got.data...)
		if extra := len(p.stderr) - stderrTail; extra > 0 {
			p.stderr = append(p.stderr[:0], p.stderr[extra:]...)
		}
		return nil
	}
	if got.gap > p.lines.end {
		d.gapLocked(p, got.gap)
	}
	offset, data := p.lines.unseen(got.offset, got.data)
	if len(data) == 0 {
		return d.record.write(d.seq, false)
	}
	if offset > p.lines.end {
		d.gapLocked(p, offset)
	}
	if _, err := d.record.stdout.WriteAt(data, offset); err != nil {
		return err
	}
	if d.fault != nil && d.fault.Code == recordFailed {
		d.toLocked(d.liveStateLocked(p)) // before the line: what it says of the state is told with it
	}
	p.lastOutput = time.Now()
	d.stalledAt = nil
	p.lines.add(data, func(l line) { d.lineLocked(p, l) })
	d.watchStallLocked(p)
	return d.record.write(d.seq, false)
}

// gapLocked notes that output is lost, and what was cut off by it. mu is held.
func (d *Dialogue) gapLocked(p *agentProcess, to int64) {
	from := p.lines.end
	cut, _ := p.lines.skip(to)
	at := from
	d.publishLocked(p, unparsed("gap", at, cut.text, to-from))
	d.flushLocked()
}

// lineLocked takes one line of the program. mu is held.
func (d *Dialogue) lineLocked(p *agentProcess, l line) {
	text := l.text
	if n := len(text); n > 0 && text[n-1] == '\r' {
		text = text[:n-1]
	}
	switch {
	case l.lost:
		d.publishLocked(p, unparsed("gap", l.start, text, l.size))
	case l.size > int64(len(l.text)):
		d.publishLocked(p, unparsed("too_long", l.start, text, l.size))
	case len(text) > 0:
		d.takeLocked(p, p.protocol.Line(text), &l.start)
	}
}

// unparsedText is how much of a line that says nothing is in its event.
const unparsedText = 4 << 10

func unparsed(why string, at int64, text []byte, bytes int64) api.DialogueEvent {
	s, _ := api.Text(text[:min(len(text), unparsedText)])
	return api.DialogueEvent{Type: api.DialogueEventUnparsed, Offset: &at, Unparsed: &api.DialogueUnparsed{Why: why, Text: s, Bytes: bytes}}
}

// errNoReply is why the answer to a call is not waited for any longer.
var errNoReply = api.Errorf(api.CodeAgentFailed, "the agent did not answer in time; the request may still take effect")

// call makes a call of the protocol and waits for its answer, as long as ctx does, and as
// long as an agent may take to answer at all. check, with mu held, may refuse it.
func (d *Dialogue) call(ctx context.Context, c agent.Call, check func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.registry.config.StartTimeout, errNoReply)
	defer cancel()
	d.mu.Lock()
	p := d.process
	err := d.checkLiveLocked()
	if err == nil && check != nil {
		err = check()
	}
	if err != nil {
		d.mu.Unlock()
		return err
	}
	answer := d.callLocked(p, c)
	d.mu.Unlock()
	select {
	case err := <-answer:
		if err != nil {
			return err
		}
		return nil
	case <-p.done:
		select {
		case err := <-answer:
			if err != nil {
				return err
			}
			return nil
		default:
		}
		return d.endedError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// callLocked makes a call. The answer comes through the channel. mu is held.
func (d *Dialogue) callLocked(p *agentProcess, c agent.Call) <-chan *api.Error {
	answer := make(chan *api.Error, 1)
	c.ID = callID(p.calls + 1)
	if err := d.record.addCall(callAt{p.lines.end, c}); err != nil {
		answer <- api.Errorf(api.CodeResourcePressure, "dialogue %q: its record cannot be written (%s)", d.labelLocked(), err)
		return answer
	}
	p.calls++
	p.waiting[c.ID] = answer
	p.lastOutput = time.Now() // it is its turn
	d.takeLocked(p, p.protocol.Do(p.aliases.call(c)), nil)
	d.flushLocked()
	d.watchStallLocked(p)
	return answer
}

// checkLiveLocked refuses what needs a process. mu is held.
func (d *Dialogue) checkLiveLocked() error {
	switch {
	case d.process == nil || d.process.ending != "":
		return d.endedErrorLocked()
	case d.state == api.DialogueStarting:
		return api.Errorf(api.CodeConflict, "dialogue %q: the agent has not answered yet", d.labelLocked())
	case d.state == api.DialogueError:
		return d.faultErrorLocked()
	case d.process.left:
		return api.ErrDaemonEnding
	}
	return nil
}

// faultErrorLocked is the error of calls to a dialogue in state error. mu is held.
func (d *Dialogue) faultErrorLocked() error {
	if d.fault.Code == recordFailed {
		return api.Errorf(api.CodeResourcePressure, "dialogue %q: its record cannot be written (%s); it continues when the disk has room", d.labelLocked(), d.fault.Message)
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "dialogue %q: the agent cannot be reached (%s); dialogue.retry tries again", d.labelLocked(), d.fault.Reason)
}

func (d *Dialogue) endedErrorLocked() error {
	return api.Errorf(api.CodeDialogueEnded, "dialogue %q: has ended; dialogue.resume starts the agent again", d.labelLocked())
}

func (d *Dialogue) endedError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process != nil && d.process.left {
		return api.ErrDaemonEnding
	}
	return d.endedErrorLocked()
}
