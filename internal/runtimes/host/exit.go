package host

import (
	"context"
	"time"

	"github.com/trl-dev/trl/internal/process"
)

// pollExit is waitExit for systems that cannot report the exit of a process that is not a child.
func pollExit(ctx context.Context, info process.Info) bool {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if now, ok := process.Stat(info.PID); !ok || now.StartTime != info.StartTime || now.Ended() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}
