package runner

import (
	"context"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/shell"
)

// How often the processes of a command are checked while a caller waits for one to want input:
// often at first and after output.
const (
	lookFirst = 5 * time.Millisecond
	lookLast  = 100 * time.Millisecond
	// lookShare bounds the checks to one part in so many of a processor.
	lookShare = 20
)

// await is exec.await. The kernel does not wake us when a process begins to wait for input, so
// the runner polls. A process is waiting if two checks find it in the same place, with nothing
// left to read.
func (r *Runner) await(ctx context.Context, p *api.ExecInfoParams) (*link.AwaitResult, error) {
	e, err := r.find(p.ExecID)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	who, err := e.awaitInput(ctx)
	return &link.AwaitResult{Process: who}, err
}

// awaitInput returns the process that waits for input; nil when the command has ended.
func (e *Exec) awaitInput(ctx context.Context) (*api.Process, error) {
	if t := terminalOf(e); t != nil {
		return t.AwaitInput(ctx)
	}
	var before shell.Reader
	seen := false
	for pause := lookFirst; ; {
		begun, last := time.Now(), e.Log.Last()
		now, ok, err := e.task.BlockedReader()
		switch {
		case err != nil:
			return nil, api.Errorf(api.CodeRuntimeUnavailable, "exec %q: this system does not show whether it waits for input: %s", e.ID, err)
		case ok && seen && now == before:
			return &api.Process{PID: now.PID, Command: process.CommandLine(now.PID)}, nil
		case ok && !seen:
			pause = lookFirst
		}
		before, seen = now, ok
		spoke, ended, err := e.pause(ctx, max(pause, lookShare*time.Since(begun)), last)
		if ended || err != nil {
			return nil, err
		}
		if pause = min(2*pause, lookLast); spoke {
			pause = lookFirst
		}
	}
}

// pause waits for d, or less when output arrives after seq, but at least lookFirst.
func (e *Exec) pause(ctx context.Context, d time.Duration, seq int64) (spoke, ended bool, err error) {
	short := time.NewTimer(min(d, lookFirst))
	defer short.Stop()
	select {
	case <-short.C:
	case <-e.ended:
		return false, true, nil
	case <-ctx.Done():
		return false, false, ctx.Err()
	}
	if d > lookFirst {
		rest, cancel := context.WithTimeout(ctx, d-lookFirst)
		defer cancel()
		spoke = e.Log.Wait(rest, seq) == nil
	}
	select {
	case <-e.ended:
		ended = true
	default:
	}
	return spoke, ended, ctx.Err()
}
