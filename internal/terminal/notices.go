package terminal

import (
	"sync"
	"time"
)

// newsEvery is the least time between two notices.
const newsEvery = 100 * time.Millisecond

// notices calls changed and warn, not too often, from the goroutine of a timer that holds no
// lock.
type notices struct {
	changed func()
	warn    func(error)

	mu       sync.Mutex
	news     bool           // guarded by mu; changed is due
	warnings []error        // guarded by mu; warn is due for each
	last     time.Time      // guarded by mu; the time of the last calls
	timer    *time.Timer    // guarded by mu; nil if no call is due
	closed   bool           // guarded by mu
	pending  sync.WaitGroup // calls that are due or under way
}

// maxWarnings is how many warnings may wait; further ones are dropped.
const maxWarnings = 10

// notify makes a call due: warn with a warning, changed without one.
func (n *notices) notify(warning error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case warning == nil:
		n.news = true
	case len(n.warnings) < maxWarnings:
		n.warnings = append(n.warnings, warning)
	}
	if n.timer == nil && !n.closed {
		n.pending.Add(1)
		n.timer = time.AfterFunc(time.Until(n.last.Add(newsEvery)), n.due)
	}
}

func (n *notices) due() {
	defer n.pending.Done()
	n.mu.Lock()
	news, warnings := n.news, n.warnings
	n.news, n.warnings = false, nil
	n.timer, n.last = nil, time.Now()
	n.mu.Unlock()
	for _, w := range warnings {
		if n.warn != nil {
			n.warn(w)
		}
	}
	if news && n.changed != nil {
		n.changed()
	}
}

// close waits until no call is under way, and none follows.
func (n *notices) close() {
	n.mu.Lock()
	n.closed = true
	if n.timer != nil && n.timer.Stop() {
		n.timer = nil
		n.pending.Done()
	}
	n.mu.Unlock()
	n.pending.Wait()
}
