package terminal

import (
	"context"
	"os"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// How often processes are looked at while somebody waits for one to want input: often at
// first, and when the program has written something.
const (
	inputFirst = 5 * time.Millisecond
	inputLast  = 100 * time.Millisecond
	inputLooks = inputLast // what somebody waits at least: it takes two looks
	// inputShare bounds what the looks take of a processor: one part in so many.
	inputShare = 20
)

// AwaitInput waits until a process is blocked reading from the terminal with nothing
// left to read, and says which; nil when the program has ended. The kernel does not wake
// us when a process begins to wait, so the processes are looked at again and again. One
// is waiting when two looks find it in the same place.
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

// blocked is a process that waits. Two looks that give equal values saw one that has not
// moved in between, and has not been given anything either.
type blocked struct {
	process.Reader
	taken int64
}

func (t *Terminal) blocked() (blocked, bool) {
	unread, taken := t.keyboard.unread()
	if unread {
		return blocked{}, false
	}
	// Also what has left the program's session may read from its terminal.
	for _, p := range process.Descendants(os.Getpid(), nil) {
		if r, ok := process.TerminalReader(p.PID, t.pty.Device()); ok {
			return blocked{r, taken}, true
		}
	}
	return blocked{}, false
}

// pause lets some time go by: less, but not nothing, when something changes.
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
