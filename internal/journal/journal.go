// Package journal keeps the numbered events of sessions, their commands and dialogues: in memory
// for readers that follow them, and in a file, so that a later daemon continues the numbers.
//
// The journal also remembers the last state that it published for every live session
// (published.go). It compares the reports of runners with that state and publishes only changes,
// also those that happened while no daemon ran.
package journal

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
)

const (
	// maxEvents is how many events stay readable, at least.
	maxEvents = 10_000
	// writeDelay is how long an event that no reader has asked for may be in memory only, and
	// maxDelayed is about how many of them there may be.
	writeDelay = time.Second
	maxDelayed = 1000
)

// Journal is the numbered list of the events of sessions, their commands and dialogues. The last
// events are in memory; a file has them too, so that a new daemon continues the numbers and
// no event that a subscriber has seen is lost. The file has ids, names, times and exit
// codes: no text of commands, no variables, no output.
//
// Publishing never waits and does not touch the file: a reader writes the events that it is
// about to return, and a timer writes the rest. The events of runners about commands are not
// even decoded before that, because it would delay the caller of every short command. The
// only goroutine of a Journal is that of its timer. It is safe for concurrent use. It calls
// nothing while it holds its locks, so callers may publish with any other lock held.
type Journal struct {
	log *slog.Logger

	// waiters counts the running calls of Wait. While there is one, events are decoded at once.
	waiters atomic.Int32

	// queueMu is taken after mu.
	queueMu sync.Mutex
	queue   []execEvent // guarded by queueMu; not decoded yet, in order
	timer   *time.Timer // guarded by queueMu; runs while an event is not written
	queued  int         // guarded by queueMu; how many events came since the timer was set
	closed  bool        // guarded by queueMu

	// fileMu keeps the written events in their order; it is taken before mu.
	fileMu  sync.Mutex
	path    string   // "" for memory only
	maxFile int64    // how large the file grows before it becomes the older one of two
	file    *os.File // guarded by fileMu; nil without a file, and after Close
	size    int64    // guarded by fileMu
	written int64    // guarded by fileMu; the last event that is in the file
	failed  bool     // guarded by fileMu; the last write failed, which was logged

	mu       sync.Mutex
	events   []api.StreamEvent     // guarded by mu; their numbers have no gap
	last     int64                 // guarded by mu; the number of the last event, 0 for none
	sessions map[string]*published // guarded by mu; live sessions as they were published, by id
	// network counts the decisions of the proxies of sessions that were published, by id of the session:
	// of those that live or are being created. Guarded by mu.
	network map[string]api.NetworkCounts
	// dialogues has the dialogues as they were published and are not removed, by id. Guarded by mu.
	dialogues map[string]PublishedDialogue
	changed   chan struct{} // guarded by mu; closed by the next event; nil while no call waits
	counts    counts        // guarded by mu
}

// execEvent is an event of a command as its runner sent it.
type execEvent struct {
	session string
	event   json.RawMessage
}

// New returns a journal in memory only.
func New(log *slog.Logger) *Journal {
	return &Journal{log: log, maxFile: maxFileSize, sessions: map[string]*published{}, network: map[string]api.NetworkCounts{}, dialogues: map[string]PublishedDialogue{}, counts: newCounts()}
}

// Last returns the number of the last event, 0 if there was none.
func (j *Journal) Last() int64 {
	j.lockDecoded()
	defer j.mu.Unlock()
	return j.last
}

// Read returns events after a number, at most limit, and the number of the first event that is
// kept. If that is larger than after+1, the events between are no longer kept. The returned events are in
// the file, so that no restart can take them back.
func (j *Journal) Read(after int64, limit int) (events []api.StreamEvent, first int64) {
	j.lockDecoded()
	first = j.last - int64(len(j.events)) + 1
	from := max(after, first-1) - (first - 1)
	if n := int64(len(j.events)) - from; n > 0 {
		events = append(events, j.events[from:from+min(n, int64(limit))]...)
	}
	j.mu.Unlock()
	if len(events) > 0 {
		j.write(events[len(events)-1].Seq)
	}
	return events, first
}

// Wait waits until there is an event after that number, or ctx ends.
func (j *Journal) Wait(ctx context.Context, after int64) error {
	j.waiters.Add(1) // first: events that come later are then decoded at once
	defer j.waiters.Add(-1)
	for {
		j.lockDecoded()
		if j.last > after {
			j.mu.Unlock()
			return nil
		}
		if j.changed == nil {
			j.changed = make(chan struct{})
		}
		changed := j.changed
		j.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Find returns the id of the session that the newest event with that id or name is about.
func (j *Journal) Find(ref string) (id string, ok bool) {
	j.lockDecoded()
	defer j.mu.Unlock()
	for i := len(j.events) - 1; i >= 0; i-- {
		if ev := &j.events[i]; ev.SessionID != "" && (ev.SessionID == ref || ev.DialogueID == "" && ev.Name == ref) {
			return ev.SessionID, true
		}
	}
	return "", false
}

// lockDecoded locks mu and decodes the queued events.
func (j *Journal) lockDecoded() {
	j.mu.Lock()
	j.queueMu.Lock()
	list := j.queue
	j.queue = nil
	j.queueMu.Unlock()
	for _, h := range list {
		j.decodeLocked(h)
	}
}

// ReceiveExecEvent publishes a runner's event about a command, if it is new. It is decoded only
// when a reader asks for events, or soon after.
func (j *Journal) ReceiveExecEvent(session string, event json.RawMessage) {
	j.queueMu.Lock()
	j.queue = append(j.queue, execEvent{session, event})
	j.queueMu.Unlock()
	j.scheduleWrite()
	if j.waiters.Load() > 0 {
		j.lockDecoded()
		j.mu.Unlock()
	}
}

// scheduleWrite makes sure that the timer writes the events that no subscriber reads.
func (j *Journal) scheduleWrite() {
	j.queueMu.Lock()
	defer j.queueMu.Unlock()
	switch j.queued++; {
	case j.closed:
	case j.timer == nil:
		j.timer = time.AfterFunc(writeDelay, j.flush)
	case j.queued == 1:
		j.timer.Reset(writeDelay)
	case j.queued == maxDelayed:
		j.timer.Reset(0)
	}
}

// flush decodes and writes all events.
func (j *Journal) flush() {
	j.queueMu.Lock()
	j.queued = 0
	j.queueMu.Unlock()
	j.write(j.Last())
}

// publishLocked gives an event its number, keeps it and wakes the waiting calls.
func (j *Journal) publishLocked(ev api.StreamEvent) {
	j.last++
	ev.Seq = j.last
	j.countLocked(&ev)
	j.applyLocked(&ev)
	j.keepLocked(ev)
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// keepLocked keeps an event in memory, and drops the oldest ones if there are many.
func (j *Journal) keepLocked(ev api.StreamEvent) {
	if len(j.events) >= maxEvents+maxEvents/4 {
		n := copy(j.events, j.events[len(j.events)-maxEvents+1:])
		clear(j.events[n:])
		j.events = j.events[:n]
	}
	j.events = append(j.events, ev)
}

// Close writes the remaining events. Events that are published later stay in memory.
func (j *Journal) Close() {
	j.queueMu.Lock()
	j.closed = true
	if j.timer != nil {
		j.timer.Stop()
	}
	j.queueMu.Unlock()
	j.flush()
	j.fileMu.Lock()
	defer j.fileMu.Unlock()
	if j.file != nil {
		_ = j.file.Close()
		j.file = nil
	}
}
