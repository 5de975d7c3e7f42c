package cli

import (
	"errors"
	"time"

	"github.com/trl-dev/trl/api"
)

// outage is the time that a daemon is away, as a person at a terminal sees it. The client starts
// another daemon, see app.revive. It is used by one goroutine.
type outage struct {
	notice  *time.Timer // it is away for a while
	stopped *time.Timer // the daemon announced its end, and no other was started
}

func newOutage() outage {
	o := outage{notice: time.NewTimer(time.Hour), stopped: time.NewTimer(time.Hour)}
	o.notice.Stop()
	o.stopped.Stop()
	return o
}

// begins is called with the reason why the daemon is away.
func (o *outage) begins(why error) {
	o.notice.Reset(noticeTime)
	if errors.Is(why, api.ErrDaemonEnding) {
		o.stopped.Reset(lookFor)
	}
}

// ends reports whether the outage was noticed.
func (o *outage) ends() bool {
	o.stopped.Stop()
	return !o.notice.Stop()
}
