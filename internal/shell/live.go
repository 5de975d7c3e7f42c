package shell

import (
	"time"

	"github.com/trl-dev/trl/internal/process"
)

// live is what can be asked of a command while it runs. It never changes.
type live struct {
	scope
	input            *Input
	userMS, systemMS int64 // of the shell, as far as it is accounted to earlier commands
}

// Running reports whether the shell runs the command. Safe for concurrent use.
func (c *Command) Running() bool { return c.live.Load() != nil }

// LastOutput is when the command, or what it left running, last wrote something; zero
// when it never did. Safe for concurrent use.
func (c *Command) LastOutput() time.Time {
	if at := c.wrote.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Usage is what the command has used until now, with everything that lives. It is
// false when the command does not run. Safe for concurrent use.
func (c *Command) Usage() (userMS, systemMS, maxRSSBytes int64, ok bool) {
	l := c.live.Load()
	if l == nil {
		return 0, 0, 0, false
	}
	if in, ok := process.Stat(l.shell); ok {
		userMS, systemMS = in.UserMS-l.userMS, in.SystemMS-l.systemMS
	}
	for _, p := range l.processes() {
		userMS += p.UserMS
		systemMS += p.SystemMS
		maxRSSBytes = max(maxRSSBytes, process.HighWaterRSS(p.PID))
	}
	return userMS, systemMS, maxRSSBytes, true
}

// Reader is a process that waits for input. Two looks that give equal values saw one
// that has not moved in between, and has not been given anything either.
type Reader struct {
	process.Reader
	Taken int64 // bytes of input that were accepted until then
}

// BlockedReader looks for a process of the command, the shell included, that is
// blocked reading its open stdin when all of that has been read, or a terminal. The
// error is process.ErrUnseen. Safe for concurrent use.
func (c *Command) BlockedReader() (Reader, bool, error) {
	l := c.live.Load()
	if l == nil {
		return Reader{}, false, nil
	}
	if err := process.CanSeeReads(l.shell); err != nil {
		return Reader{}, false, err
	}
	var pipe process.FileID
	var taken int64
	if l.input != nil {
		pipe, taken = l.input.Drained()
	}
	// The terminal that a shell may read itself is the control channel.
	if r, ok := process.BlockedReader(l.shell, pipe, false); ok {
		return Reader{r, taken}, true, nil
	}
	for _, p := range l.processes() {
		if r, ok := process.BlockedReader(p.PID, pipe, true); ok {
			return Reader{r, taken}, true, nil
		}
	}
	return Reader{}, false, nil
}
