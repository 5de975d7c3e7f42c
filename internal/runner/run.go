package runner

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/shell"
)

// reportRunningAfter is how long a command runs before the runner reports that the session
// is running. A caller could not see the state of a shorter one.
const reportRunningAfter = 2 * time.Millisecond

// submit accepts a command, which may run at once or waits in the queue. For a repeated request
// it returns the command of the first one, and again.
func (r *Runner) submit(p link.ExecParams, stdin []byte) (e *Exec, again bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, err := r.knownRunLocked(p.RunID); e != nil || err != nil {
		return e, true, err
	}
	if !p.Wait { // an earlier command may still make the directory of one that waits
		r.mu.Unlock()
		err = shell.CheckDir(p.WorkingDir)
		if err == nil && p.Argv != nil {
			_, err = r.findBeside(p.ExecParams)
		}
		r.mu.Lock()
		if err != nil {
			return nil, false, err
		}
		if e, err := r.knownRunLocked(p.RunID); e != nil || err != nil { // submitted meanwhile
			return e, true, err
		}
	}
	e, err = r.acceptLocked(p, stdin)
	if err == nil {
		r.keepRunLocked(p.RunID, e.ID)
	}
	return e, false, err
}

func (r *Runner) acceptLocked(p link.ExecParams, stdin []byte) (*Exec, error) {
	lim := r.params.Limits
	switch {
	case !r.created:
		return nil, api.Errorf(api.CodeInternal, "session %q: not created", r.cfg.SessionID)
	case r.program != nil:
		return nil, r.wrongKindLocked("it takes session.input, not commands")
	case r.state == api.SessionTerminated || r.ending != nil:
		return nil, r.terminatedErrorLocked()
	case r.shell == nil && p.Argv == nil:
		return nil, api.Errorf(api.CodeInvalidParams, "session %q: has no shell for the text of a command; give the program and its arguments as argv", r.labelLocked())
	case r.maxCommandsLocked() > 0 && r.commands >= r.maxCommandsLocked():
		return nil, api.Errorf(api.CodeSessionLimitExceeded, "session %q: has run %d commands, which is the limit (max_commands, or limits.commands); create another session", r.labelLocked(), r.commands)
	case lim.MaxStdinBytes > 0 && int64(len(stdin)) > lim.MaxStdinBytes:
		return nil, api.Errorf(api.CodeRequestTooLarge, "params.stdin: %d bytes, at most %d (max_stdin_bytes)", len(stdin), lim.MaxStdinBytes)
	case p.Argv != nil:
		if err := r.roomErrorLocked(p.Wait); err != nil {
			return nil, err
		}
	case r.current != nil && !p.Wait:
		return nil, api.Errorf(api.CodeSessionBusy, "session %q: runs %s", r.labelLocked(), r.current.ID)
	case r.current != nil && len(r.queue) >= lim.MaxQueued:
		return nil, api.Errorf(api.CodeSessionBusy, "session %q: %d commands are waiting, which is the limit (max_queued); try again later", r.labelLocked(), len(r.queue))
	}
	timeout := r.sessionTimeoutLocked()
	if p.TimeoutS != nil {
		timeout = *p.TimeoutS
	}
	r.commands++
	e := r.newExec(r.commands, output.New(r.store, lim.OutputBytes), lim.MaxStdinBytes)
	e.params, e.timeout = p.ExecParams, seconds(timeout)
	if p.Backpressure != nil && *p.Backpressure {
		limit := max(lim.OutputBytes, leastPaced)
		e.Log, e.pace = output.New(r.store, limit), newPace(e.ID, limit, lim.MemoryBytes, seconds(lim.ReaderStallS))
	}
	if p.Argv != nil {
		e.task, e.params.Command = r.newBeside(e, p, stdin), commandLine(p.Argv)
	} else {
		e.task = r.newShellTask(e, p, stdin)
	}
	r.boundOutput(e)
	// Listings need only the text; environment values and stdin must not outlive the command.
	e.params.Env, e.params.Stdin, e.params.StdinBase64 = nil, nil, ""
	r.execs[e.ID] = e
	r.order = append(r.order, e)
	r.note(link.ExecEvent{ExecID: e.ID, State: e.state, At: e.queuedAt.UTC()})
	switch {
	case p.Argv != nil:
		r.acceptBesideLocked(e)
	case r.current == nil:
		r.beginLocked(e)
	default:
		r.queue = append(r.queue, e)
	}
	r.evictLocked()
	return e, nil
}

// newShellTask makes the task of a command of the shell.
func (r *Runner) newShellTask(e *Exec, p link.ExecParams, stdin []byte) shellTask {
	lim := r.params.Limits
	cmd := &shell.Command{
		Text: p.Command, Env: p.Env, WorkingDir: p.WorkingDir, Stdin: stdin, HasStdin: p.HasStdin, Merge: p.Merge,
		Timeout: e.timeout, Grace: seconds(lim.KillGraceS), Log: e.Log, Abort: make(chan syscall.Signal, 1),
	}
	if p.OpenStdin {
		cmd.Stdin, cmd.HasStdin, cmd.Input = nil, false, shell.NewInput(lim.MaxStdinBytes, stdin)
	}
	if e.pace != nil {
		cmd.Full = e.full
	}
	return shellTask{cmd, r.shell.Wake}
}

// beginLocked makes e the running command.
func (r *Runner) beginLocked(e *Exec) {
	r.current = e
	if r.state == api.SessionIdle {
		_ = r.toLocked(api.SessionRunning, "")
	}
	close(e.turn)
}

// inTurn calls f with the shell locked, when it is the command's turn; not at all for a command
// that was given up while it was queued. f runs the command and answers its caller. Only then
// the shell's state is checkpointed, so that the caller does not wait for that, and the shell
// stays locked until it is, so that the next command cannot come between.
func (r *Runner) inTurn(e *Exec, f func()) (ran bool) {
	<-e.turn
	if e.givenUp() {
		return false
	}
	r.lockShell()
	f()
	r.flush() // an answer took the events along, unless its daemon has disconnected
	if r.shell.CheckpointDue() {
		r.shell.Checkpoint()
	}
	r.unlockShell()
	r.scheduleQuiet()
	return true
}

// execute runs a command in the shell to its end. The caller holds the shell. Output that
// processes still hold is left to drain, so that a result made before agrees with the outcome.
func (r *Runner) execute(e *Exec) *shell.Held {
	_ = e.to(api.ExecRunning)
	started := time.Now()
	var oc shell.Outcome
	var out *api.ExecOutcome
	m, err := r.newMeter(e)
	tell := time.AfterFunc(reportRunningAfter, func() {
		m.takesLong()
		r.report(false)
	})
	if err == nil {
		oc, err = r.shell.Run(e.task.(shellTask).Command)
	}
	tell.Stop()
	e.task.forget()
	if err == nil {
		out = e.newOutcome(oc, started, r.shell.WorkingDir())
	}
	m.end(out, oc.Alone)
	e.exited(out, err)
	r.ended(e, oc)
	r.report(true)
	e.end()
	if oc.Held == nil {
		_ = e.to(api.ExecClosed)
	}
	r.reportExecs(true)
	return oc.Held
}

// drain lets the Drainer read the output of processes that the command left running.
func (r *Runner) drain(e *Exec, held *shell.Held) {
	if held == nil {
		return
	}
	r.drainer.Add(held, func() {
		_ = e.to(api.ExecClosed)
		go r.reportExecs(false) // the Drainer must not wait for the daemon
	})
}

// ended makes the session idle again, or begins the next command of the queue.
func (r *Runner) ended(e *Exec, oc shell.Outcome) {
	r.mu.Lock()
	r.current = nil
	memory, file := e.Log.Kept()
	e.kept = memory + file
	r.kept += e.kept
	r.cwd = r.shell.WorkingDir()
	r.restarts = r.shell.Restarts()
	died := oc.Died
	if errors.Is(died, api.ErrResourcePressure) {
		died = nil // the next command tries again to start a shell
	}
	if r.state == api.SessionRunning {
		_ = r.toLocked(api.SessionIdle, "")
	}
	if died == nil && len(r.queue) > 0 {
		next := r.queue[0]
		r.queue = r.queue[1:]
		r.beginLocked(next)
	}
	r.mu.Unlock()
	if died != nil {
		go r.destroy(link.DestroyParams{Force: true, Cause: "the shell ended and could not be started again: " + died.Error()}, true)
	}
}

// abandon gives up a command: it removes a queued one from the queue and stops a running one,
// without waiting for the end.
func (r *Runner) abandon(e *Exec, sig syscall.Signal) {
	r.mu.Lock()
	for _, queue := range []*[]*Exec{&r.queue, &r.waiting} {
		if i := slices.Index(*queue, e); i >= 0 {
			*queue = slices.Delete(*queue, i, i+1)
			r.mu.Unlock()
			r.giveUpQueued(e)
			return
		}
	}
	running := r.current == e || slices.Contains(r.parallel, e)
	r.mu.Unlock()
	if running {
		e.task.stop(sig)
	}
}

// giveUpQueued ends a command that never ran.
func (r *Runner) giveUpQueued(e *Exec) {
	r.mu.Lock()
	cwd := r.cwd
	r.mu.Unlock()
	e.task.forget()
	e.giveUp(&api.ExecOutcome{ExitCode: api.ExitCancelled, Cancelled: true, WorkingDir: cwd, LeftRunning: []api.Process{}, Killed: []api.KilledProcess{}})
	r.reportExecs(true)
}

// run is exec.run: the command's whole life within one call.
func (r *Runner) run(ctx context.Context, q *link.Request[*link.ExecParams, *link.RunResult]) error {
	p := *q.Params
	e, again, err := r.submit(p, q.Body)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		// A daemon that died is not a caller that left: the next daemon asks for the outcome.
		detached := p.Detach != nil && *p.Detach
		if !detached && !errors.Is(context.Cause(ctx), link.ErrLost) {
			e.because(callerGone)
			r.abandon(e, syscall.SIGTERM)
		}
	})
	if beside := besideOf(e) != nil; again || beside {
		if !again {
			go r.runBeside(e)
		}
		select {
		case <-e.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		stop()
		return r.answerRun(q, e, nil)
	}
	ran := r.inTurn(e, func() {
		held := r.execute(e)
		stop()
		err = r.answerRun(q, e, held)
	})
	if !ran {
		stop()
		err = r.answerRun(q, e, nil)
	}
	return err
}

// answerRun answers exec.run with the outcome of an ended command, and lets the output drain
// that processes still hold.
func (r *Runner) answerRun(q *link.Request[*link.ExecParams, *link.RunResult], e *Exec, held *shell.Held) error {
	oc, err := e.result()
	if err != nil {
		return err
	}
	limit := maxOutput(q.Params.ExecParams)
	stdout, cutOut := e.Log.Result(output.Stdout, limit)
	stderr, cutErr := e.Log.Result(output.Stderr, limit)
	r.drain(e, held)
	res := link.RunResult{ExecID: e.ID, StdoutLen: len(stdout), ExecOutcome: *oc}
	res.StdoutTruncated, res.StderrTruncated = cutOut, cutErr
	body := stdout
	if len(stderr) > 0 {
		body = append(stdout[:len(stdout):len(stdout)], stderr...)
	}
	q.Answer(&res, body)
	return nil
}

// start is exec.start: it answers at once, and the command goes on.
func (r *Runner) start(_ context.Context, q *link.Request[*link.ExecParams, *api.ExecInfo]) error {
	e, again, err := r.submit(*q.Params, q.Body)
	switch {
	case err != nil:
		return err
	case again:
		info := e.Info()
		q.Answer(&info, nil)
		return nil
	}
	switch {
	case besideOf(e) == nil:
		go r.inTurn(e, func() { r.drain(e, r.execute(e)) })
	case !happened(e.turn):
		go r.runBeside(e)
	default: // so that the answer has the process id, or says why there is none
		if err := r.launch(e); err != nil {
			return err
		}
		go r.attend(e)
	}
	r.report(true)
	info := e.snapshot()
	q.Answer(&info, nil)
	return nil
}

func maxOutput(p api.ExecParams) int64 {
	if p.MaxOutputBytes != nil {
		return *p.MaxOutputBytes
	}
	return api.DefaultMaxOutputBytes
}

// evictLocked forgets the oldest closed commands, so that neither the number of commands
// nor their output grows without bound.
func (r *Runner) evictLocked() {
	lim := r.params.Limits
	for i := 0; i < len(r.order) && (len(r.order) > max(lim.ExecsKept, 1) || (lim.SessionOutput > 0 && r.kept > lim.SessionOutput)); {
		e := r.order[i]
		if !e.closed() { // an argv command may run for as long as the session
			i++
			continue
		}
		r.kept -= e.kept
		e.Log.Release()
		delete(r.execs, e.ID)
		r.order = slices.Delete(r.order, i, i+1)
		if b := besideOf(e); b != nil {
			r.forgetBeside(b)
		}
	}
}

func (r *Runner) find(id string) (*Exec, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.execs[id]; e != nil {
		return e, nil
	}
	return nil, api.Errorf(api.CodeExecNotFound, "exec %q: not found", id)
}

// execInfo is exec.info.
func (r *Runner) execInfo(_ context.Context, p *api.ExecInfoParams) (*api.ExecInfo, error) {
	e, err := r.find(p.ExecID)
	if err != nil {
		return nil, err
	}
	info := e.Info()
	return &info, nil
}

// execList is exec.list.
func (r *Runner) execList(context.Context, *struct{}) (*api.ExecListResult, error) {
	return &api.ExecListResult{Execs: r.list()}, nil
}

// list returns snapshots, oldest first.
func (r *Runner) list() []api.ExecInfo {
	r.mu.Lock()
	order := append([]*Exec(nil), r.order...)
	r.mu.Unlock()
	infos := make([]api.ExecInfo, 0, len(order))
	for _, e := range order {
		infos = append(infos, e.Info())
	}
	return infos
}

// callerGone is the cause of the end of a command whose caller did not cancel it.
const callerGone = "its caller disconnected"

// cancel is exec.cancel: it answers when the command has ended.
func (r *Runner) cancel(ctx context.Context, p *link.CancelParams) (*api.ExecInfo, error) {
	sig, err := signalOf(p.Signal)
	if err != nil {
		return nil, err
	}
	var e *Exec
	if p.ExecID != "" {
		if e, err = r.find(p.ExecID); err != nil {
			return nil, err
		}
	} else {
		r.mu.Lock()
		e = r.current
		label, beside := r.labelLocked(), len(r.parallel)
		r.mu.Unlock()
		switch {
		case e == nil && beside > 0:
			return nil, api.Errorf(api.CodeExecNotFound, "session %q: its shell runs no command, but %d run beside it; name one", label, beside)
		case e == nil:
			return nil, api.Errorf(api.CodeExecNotFound, "session %q: runs no command", label)
		}
	}
	if p.Gone {
		e.because(callerGone)
	}
	r.abandon(e, sig)
	select {
	case <-e.ended:
		info := e.Info()
		return &info, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
