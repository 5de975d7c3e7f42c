package terminal

import (
	"context"
	"os"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// How often processes are checked while a caller waits for one to want input: often at first and
// after output.
const (
	inputFirst = 5 * time.Millisecond
	inputLast  = 100 * time.Millisecond
	inputLooks = inputLast // the shortest wait, because it takes two checks
	// inputShare bounds the checks to one part in so many of a processor.
	inputShare = 20
)

// AwaitInput waits until a process is blocked reading from the terminal, with nothing left to
// read, and returns that process; nil when the program has ended. The kernel does not wake us
// when a process begins to wait, so AwaitInput polls. A process is waiting if two checks find it
// in the same place.
func (t *Terminal) AwaitInput(ctx context.Context) (*api.Process, error) {
	var before blocked
	seen := false
	for pause := inputFirst; ; {
		if err := process.CanSeeReads(t.program.PID); err != nil {
			return nil, api.Errorf(api.CodeRuntimeUnavailable, "%s: this system does not show whether it waits for input: %s", t.config.Name, err)
		}
		begun := time.Now()
		t.mu.Lock()
		changes := t.changesLocked()
		t.mu.Unlock()
		now, ok := t.blocked()
		switch {
		case ok && seen && now == before:
			return &api.Process{PID: now.PID, Command: process.CommandLine(now.PID)}, nil
		case ok && !seen:
			pause = inputFirst
		}
		before, seen = now, ok
		spoke, ended, err := t.pause(ctx, max(pause, inputShare*time.Since(begun)), changes)
		if ended || err != nil {
			return nil, err
		}
		if pause = min(2*pause, inputLast); spoke {
			pause = inputFirst
		}
	}
}

// blocked is a process that waits. If two checks return equal values, the process has not moved
// in between and has received no input.
type blocked struct {
	process.Reader
	taken int64
}

func (t *Terminal) blocked() (blocked, bool) {
	unread, taken := t.keyboard.unread()
	if unread {
		return blocked{}, false
	}
	// A process that has left the program's session may read from its terminal too.
	for _, p := range process.Descendants(os.Getpid(), nil) {
		if r, ok := process.TerminalReader(p.PID, t.pty.Device()); ok {
			return blocked{r, taken}, true
		}
	}
	return blocked{}, false
}

// pause waits for d, or less when something changes, but at least inputFirst.
func (t *Terminal) pause(ctx context.Context, d time.Duration, changes <-chan struct{}) (spoke, ended bool, err error) {
	short, long := time.NewTimer(min(d, inputFirst)), time.NewTimer(d)
	defer short.Stop()
	defer long.Stop()
	for rested := false; ; {
		var changed <-chan struct{}
		if rested {
			changed = changes
		}
		select {
		case <-short.C:
			rested = true
		case <-changed:
			return true, false, nil
		case <-long.C:
			return false, false, nil
		case <-t.done:
			return false, true, nil
		case <-ctx.Done():
			return false, false, context.Cause(ctx)
		}
	}
}
