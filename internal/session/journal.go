package session

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
	// lazyWrite is how long an event that nobody has asked for may be in memory alone,
	// and maxLazy about how many of them.
	lazyWrite = time.Second
	maxLazy   = 1000
)

// Journal is the numbered list of the events of sessions and their commands. The last
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

	// waiters is how many calls of Wait there are. While there is one, nothing is put off.
	waiters atomic.Int32

	// heardMu is taken after mu.
	heardMu sync.Mutex
	heard   []heard     // guarded by heardMu; what is not decoded yet, in order
	timer   *time.Timer // guarded by heardMu; runs while something is not written
	lazy    int         // guarded by heardMu; how much came since it was set
	closed  bool        // guarded by heardMu

	// fileMu orders what is written; it is taken before mu.
	fileMu  sync.Mutex
	path    string   // "" for memory alone
	maxFile int64    // how large the file grows before it becomes the older one of two
	file    *os.File // guarded by fileMu; nil without a file, and after Close
	size    int64    // guarded by fileMu
	written int64    // guarded by fileMu; the last event that is in the file
	failed  bool     // guarded by fileMu; writing did not succeed, which was logged

	mu      sync.Mutex
	events  []api.StreamEvent // guarded by mu; without holes in their numbers
	last    int64             // guarded by mu; the number of the last event, 0 for none
	known   map[string]*known // guarded by mu; living sessions as they were told, by id
	changed chan struct{}     // guarded by mu; closed by the next event; nil while nobody waits
}

// heard is an event of a command as a runner sent it.
type heard struct {
	session string
	event   json.RawMessage
}

func newJournal(log *slog.Logger) *Journal {
	return &Journal{log: log, maxFile: maxJournalFile, known: map[string]*known{}}
}

// Last returns the number of the last event, 0 when there was none.
func (j *Journal) Last() int64 {
	j.lock()
	defer j.mu.Unlock()
	return j.last
}

// Read returns events after a number, at most limit, and the number of the first that
// is kept. When that is larger than after+1, those between are gone. What is returned
// is in the file.
func (j *Journal) Read(after int64, limit int) (events []api.StreamEvent, first int64) {
	j.lock()
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

// Wait waits until there is an event after that number.
func (j *Journal) Wait(ctx context.Context, after int64) error {
	j.waiters.Add(1) // before looking: what is heard later is not put off
	defer j.waiters.Add(-1)
	for {
		j.lock()
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

// Find returns the id of the session that was last told of by that id or name.
func (j *Journal) Find(ref string) (id string, ok bool) {
	j.lock()
	defer j.mu.Unlock()
	for i := len(j.events) - 1; i >= 0; i-- {
		if ev := &j.events[i]; ev.SessionID == ref || ev.Name != "" && ev.Name == ref {
			return ev.SessionID, true
		}
	}
	return "", false
}

// lock takes mu when everything that was heard is in events.
func (j *Journal) lock() {
	j.mu.Lock()
	j.heardMu.Lock()
	list := j.heard
	j.heard = nil
	j.heardMu.Unlock()
	for _, h := range list {
		j.decode(h)
	}
}

// hear takes what a runner says of a command.
func (j *Journal) hear(session string, event json.RawMessage) {
	j.heardMu.Lock()
	j.heard = append(j.heard, heard{session, event})
	j.heardMu.Unlock()
	j.putOff()
	if j.waiters.Load() > 0 {
		j.lock()
		j.mu.Unlock()
	}
}

// putOff makes sure that the timer writes the events that no subscriber reads.
func (j *Journal) putOff() {
	j.heardMu.Lock()
	defer j.heardMu.Unlock()
	switch j.lazy++; {
	case j.closed:
	case j.timer == nil:
		j.timer = time.AfterFunc(lazyWrite, j.catchUp)
	case j.lazy == 1:
		j.timer.Reset(lazyWrite)
	case j.lazy == maxLazy:
		j.timer.Reset(0)
	}
}

// catchUp decodes and writes everything.
func (j *Journal) catchUp() {
	j.heardMu.Lock()
	j.lazy = 0
	j.heardMu.Unlock()
	j.write(j.Last())
}

// publish gives an event its number. mu is held.
func (j *Journal) publish(ev api.StreamEvent) {
	j.last++
	ev.Seq = j.last
	j.apply(&ev)
	j.keep(ev)
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// keep remembers an event, and forgets the oldest when there are many. mu is held.
func (j *Journal) keep(ev api.StreamEvent) {
	if len(j.events) >= maxEvents+maxEvents/4 {
		n := copy(j.events, j.events[len(j.events)-maxEvents+1:])
		clear(j.events[n:])
		j.events = j.events[:n]
	}
	j.events = append(j.events, ev)
}

// Close writes what is not written yet. What is published after it is not.
func (j *Journal) Close() {
	j.heardMu.Lock()
	j.closed = true
	if j.timer != nil {
		j.timer.Stop()
	}
	j.heardMu.Unlock()
	j.catchUp()
	j.fileMu.Lock()
	defer j.fileMu.Unlock()
	if j.file != nil {
		_ = j.file.Close()
		j.file = nil
	}
}
