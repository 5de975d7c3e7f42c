package ui

import (
	"errors"
	"time"

	"github.com/trl-dev/trl/api"
)

const (
	// NoticeTime is how long the daemon may be away before a program mentions it.
	NoticeTime = 500 * time.Millisecond
	// SearchTime is how long a command looks for the next daemon. A person who has stopped the
	// daemon for good waits that long for the command to end.
	SearchTime = 10 * time.Second
	// InteractiveSearchTime is how long an interactive program looks for the next daemon.
	InteractiveSearchTime = 30 * time.Second
)

// Outage is the time without a daemon, as a person at a terminal sees it. The client meanwhile
// looks for another daemon, or starts one. One goroutine uses it.
type Outage struct {
	Notice  *time.Timer // fires when the outage lasts long enough to mention
	Stopped *time.Timer // fires when no daemon followed one that announced its end
}

// NewOutage returns an outage that has not begun.
func NewOutage() Outage {
	o := Outage{Notice: time.NewTimer(time.Hour), Stopped: time.NewTimer(time.Hour)}
	o.Notice.Stop()
	o.Stopped.Stop()
	return o
}

// Begin begins the outage; why is the reason.
func (o *Outage) Begin(why error) {
	o.Notice.Reset(NoticeTime)
	if errors.Is(why, api.ErrDaemonEnding) {
		o.Stopped.Reset(SearchTime)
	}
}

// End ends the outage. It reports whether Notice has fired.
func (o *Outage) End() bool {
	o.Stopped.Stop()
	return !o.Notice.Stop()
}

// ErrStopped is the error after a daemon was stopped and no other started.
var ErrStopped = errors.New("the daemon was stopped")
