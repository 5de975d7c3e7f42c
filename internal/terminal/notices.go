package terminal

import (
	"sync"
	"time"
)

// newsEvery is how long notices are apart, at least.
const newsEvery = 100 * time.Millisecond

// notices calls out when there is news, not too often. The calls come from the goroutine
// of a timer, which holds no lock.
type notices struct {
	changed func()
	warn    func(error)

	mu       sync.Mutex
	news     bool           // guarded by mu; changed is to be called
	warnings []error        // guarded by mu; warn is to be called with them
	last     time.Time      // guarded by mu; when something was called
	timer    *time.Timer    // guarded by mu; nil unless something is due
	closed   bool           // guarded by mu
	pending  sync.WaitGroup // what is due or under way
}

// maxWarnings is how many may wait to be told.
const maxWarnings = 10

// tell says that something has changed, or that something went wrong.
func (n *notices) tell(warning error) {
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
