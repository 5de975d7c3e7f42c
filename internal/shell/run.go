package shell

import (
	"os"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
)

// bookkeepTime limits the time that the shell may take for control text between commands.
const bookkeepTime = 10 * time.Second

// run is one call of Run.
type run struct {
	*Shell
	cmd     *Command
	req     request
	start   time.Time
	streams [2]*stream
	ranIn   *process.Process      // the shell of the command, which has its directory and environment
	before  *State                // the last known state from before the command; may be nil
	earlier map[int]uint64        // processes older than the command: pid → start time
	strays  func() []process.Info // Config.Strays since the start of the command; may be nil
	oc      Outcome
	rssNext time.Duration // from start to the next sample of memory
	// ping and pingFile are the token and the script of the last ping that was sent after
	// this command; "" for none.
	ping, pingFile string
}

// Run runs one command to its end. An error means that the command was not run at all.
func (s *Shell) Run(c *Command) (Outcome, error) {
	r := &run{Shell: s, cmd: c, rssNext: 5 * time.Millisecond}
	if err := r.prepareCommand(); err != nil {
		return r.oc, err
	}
	control, err := r.controlText()
	if err != nil {
		r.withdraw()
		return r.oc, err
	}
	s.printedOut, s.printedErr = s.printedOut[:0], s.printedErr[:0]
	s.send(control)
	st, ended := r.awaitEnd()
	switch {
	case ended:
		r.oc.ExitCode = st.code
		if st.cwd != "" {
			s.cwd = st.cwd
		}
	case s.dead():
		r.shellDied()
	default:
		r.abort()
	}
	r.finish()
	s.last = r.oc.ExitCode
	return r.oc, nil
}

// replaceShell kills the shell and starts a new one with the last known state. It reports whether
// there is one.
func (r *run) replaceShell() bool {
	s := r.Shell
	s.killUnusable()
	r.oc.Died = s.restart(s.bestState(nil))
	r.oc.Restarted = true
	return r.oc.Died == nil
}

// prepareCommand makes the shell, the streams and the command's directory and environment ready.
func (r *run) prepareCommand() error {
	s, c := r.Shell, r.cmd
	if err := r.revive(); err != nil {
		return err
	}
	r.req = request{text: c.Text, workingDir: c.WorkingDir, token: s.token(), lastStatus: s.last, stdin: os.DevNull}
	for k, v := range c.Env {
		r.req.env = append(r.req.env, envVar{k, v})
	}
	sort.Slice(r.req.env, func(i, j int) bool { return r.req.env[i].key < r.req.env[j].key })
	if !s.cfg.Isolated { // an isolated shell sees other directories, and reports what it cannot enter
		if err := CheckDir(c.WorkingDir); err != nil {
			return err
		}
	}
	if s.dirty && (len(c.Env) > 0 || mayEndShell(c.Text)) {
		s.Checkpoint()
	}
	r.before = s.checkpoint
	if err := r.openStreams(); err != nil {
		return err
	}
	if !r.usable() && !r.replaceShell() {
		r.closeOutputs()
		return r.oc.Died
	}
	if err := r.enter(); err != nil {
		r.closeOutputs()
		return err
	}
	r.ranIn = s.proc
	r.start = time.Now()
	r.earlier = s.present()
	r.oc.Alone = len(r.earlier) == 0
	if s.cfg.Strays != nil {
		r.strays = s.straysFromNow()
	}
	c.live.Store(&runningCommand{scope: r.scope(), input: c.Input, userMS: s.cpuUser, systemMS: s.cpuSystem})
	return nil
}

// revive starts a new shell if there is none.
func (r *run) revive() error {
	if !r.dead() {
		return nil
	}
	if err := r.Revive(); err != nil {
		r.oc.Died = err
		return err
	}
	r.oc.Restarted = true
	return nil
}

// CheckDir returns an error if path, the working directory for a command, is not a directory. "",
// the shell's own directory, is accepted.
func CheckDir(path string) error {
	if path == "" {
		return nil
	}
	if fi, err := os.Stat(path); err != nil || !fi.IsDir() {
		return api.InvalidParam("working_dir", "%q is not a directory", path)
	}
	return nil
}

// mayEndShell reports whether a command looks as if it could replace or kill the shell without
// running its EXIT trap. The answer only decides whether a checkpoint is taken before the
// command; when a command that was not recognized ends the shell, the last checkpoint is
// restored.
func mayEndShell(text string) bool {
	for _, w := range []string{"exec", "kill", "exit", "logout", "trap", "limit"} {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// controlText writes the command's scripts and returns the control text that runs them. A script that
// could not be written completely (a full disk) must not run, so that is an error.
func (r *run) controlText() (string, error) {
	s := r.Shell
	if r.cmd.Input != nil {
		path, err := s.attachInput(r.cmd.Input)
		if err != nil {
			return "", err
		}
		r.req.stdin = path
	} else if r.cmd.HasStdin {
		f, err := newFeeder(s.dir.stdin(), r.cmd.Stdin, s.cfg.Isolated)
		if err != nil {
			return "", err
		}
		r.req.stdin, r.oc.feeder = f.path, f
	}
	if s.last != 0 && s.lastFile != s.last {
		if err := writeFile(s.dir.last(), []byte(lastScript(s.last))); err != nil {
			return "", err
		}
		s.lastFile = s.last
	}
	file, wrapper, control := s.dialect.command(s.dir, r.req)
	if err := s.commandFile.put(file); err != nil {
		return "", err
	}
	if err := s.wrapperFile.put(wrapper); err != nil {
		return "", err
	}
	s.dirty = true
	return control, nil
}

// withdraw undoes prepareCommand and controlText for a command that is not run.
func (r *run) withdraw() {
	s := r.Shell
	s.closeOutputs()
	s.detachInput()
	r.cmd.live.Store(nil)
	if r.oc.feeder != nil {
		r.oc.feeder.release()
	}
	s.commandFile.put("")
	s.wrapperFile.put("")
	r.leave()
}

// awaitEnd waits until the command has ended, its time is over, it is aborted, or the shell has
// died. It returns true with a status if the command has ended.
func (r *run) awaitEnd() (status, bool) {
	s := r.Shell
	var limit time.Time
	if r.cmd.Timeout > 0 {
		limit = r.start.Add(r.cmd.Timeout)
	}
	check, ask, look := r.start.Add(time.Second), r.start.Add(pingLate), r.start.Add(muteFirst)
	var silence muteCheck
	for {
		if st, ok := s.takeStatus(r.req.token, r.ping); ok {
			if st.token != r.ping && r.ping != "" {
				s.await(r.ping, time.Now().Add(time.Second))
			}
			if st.token == r.ping && r.ping != "" && softFiles(s.proc.PID) < enoughFiles {
				// The shell had too few descriptors to report the status of the command;
				// what the ping brings is the status of that failure.
				r.killMute()
				return status{}, false
			}
			return st, true
		}
		if s.dead() {
			return status{}, false
		}
		select {
		case sig := <-r.cmd.Abort:
			r.oc.Cancelled, r.oc.Signal = true, sig
			return status{}, false
		default:
		}
		now := time.Now()
		if !ask.IsZero() && now.After(ask) {
			r.sendPing()
			ask = time.Time{}
		}
		if !limit.IsZero() && !now.Before(limit) {
			r.oc.TimedOut, r.oc.Signal = true, syscall.SIGTERM
			return status{}, false
		}
		if now.After(check) {
			r.repair()
			check = now.Add(time.Second)
		}
		if now.After(look) {
			found, again := silence.look(r)
			if found {
				r.killMute()
				return status{}, false
			}
			look = now.Add(again)
		}
		streams := r.streams[:]
		if r.cmd.Full != nil && r.cmd.Full() {
			streams = nil
		}
		s.wait(earliest(limit, check, ask, look, r.sampleMemory(now)), streams...)
	}
}

// pingLate is the running time after which a ping is sent behind the command. The shell answers
// it after it has reported the command's status. It answers the ping alone if it dropped the line
// that reports the status and returned to its input, as dash does after `kill -INT $$`.
const pingLate = 100 * time.Millisecond

// repair checks whether the private directory still exists. If a command has deleted it, repair
// makes it again. The status may be lost with the directory, so repair also sends a ping, which
// the shell answers when it is idle.
func (r *run) repair() {
	s := r.Shell
	if _, err := os.Lstat(s.dir.dumpFile()); err == nil {
		return
	}
	if s.makeDir() == nil {
		r.sendPing()
	}
}

// sendPing sends a ping whose answer means that the command has ended.
func (r *run) sendPing() {
	token := r.token()
	if file := r.Shell.sendPing(token); file != "" {
		r.ping, r.pingFile = token, file
	}
}

// earliest returns the earliest of the times that are not zero, or zero.
func earliest(times ...time.Time) time.Time {
	var e time.Time
	for _, t := range times {
		if !t.IsZero() && (e.IsZero() || t.Before(e)) {
			e = t
		}
	}
	return e
}

// shellDied sets the outcome of a command that has ended the shell, and starts a new shell.
func (r *run) shellDied() {
	s := r.Shell
	e := s.proc.Exit()
	r.oc.ExitCode, r.oc.Signal, r.oc.Restarted = e.Code(), e.Signal, true
	r.oc.UserMS, r.oc.SystemMS = e.UserMS-s.cpuUser, e.SystemMS-s.cpuSystem
	r.oc.MaxRSSBytes = max(r.oc.MaxRSSBytes, e.MaxRSSBytes)
	s.readState()
	// The output of a trap on EXIT arrives in the sink, because the shell has undone the
	// redirections of the command by then.
	for _, st := range r.streams {
		for st.read() {
		}
	}
	s.readSink(&s.sinkOut, &s.printedOut)
	s.readSink(&s.sinkErr, &s.printedErr)
	if !s.dialect.terminal() {
		r.cmd.Log.Append(output.Stdout, s.printedOut)
	}
	// The new shell prints a prompt, which is no error of the command: see appendShellErrors.
	printed := slices.Clone(s.printedErr)
	defer func() { s.printedErr = append(s.printedErr[:0], printed...) }()
	dumped := s.exitDump != nil
	r.cmd.live.Store(nil) // the new shell is not a process of the command
	if err := s.restart(s.bestState(r.cmd)); err != nil {
		r.oc.Died = err
		if dumped {
			s.deferredLeave = s.dialect.leave(r.req)
		}
		return
	}
	// A state that the exiting shell reported includes the directory and environment of the
	// command, which must be undone now and must not be restored later. A checkpoint is older
	// than the command and has neither.
	if dumped && r.leave() {
		s.Checkpoint()
	}
}

// finish reads the rest of the output, removes the command's files and completes the outcome.
func (r *run) finish() {
	s := r.Shell
	s.lastEnd = process.Now()
	if r.oc.TimedOut {
		r.oc.ExitCode = api.ExitTimedOut
	} else if r.oc.Cancelled {
		r.oc.ExitCode = api.ExitCancelled
	}
	r.cmd.live.Store(nil)
	s.detachInput()
	complete := r.settle()
	if r.oc.feeder != nil {
		r.oc.feeder.release()
	}
	s.commandFile.put("")
	s.wrapperFile.put("")
	if r.pingFile != "" {
		os.Remove(r.pingFile)
	}
	if r.oc.Died != nil {
		r.hold(complete)
		return
	}
	if s.proc == r.ranIn {
		r.account()
		r.leave()
	}
	r.hold(complete)
	if !complete && len(r.oc.LeftRunning) == 0 && !s.restored() {
		r.replaceShell() // the shell could not undo the redirections (ulimit -n)
	}
}

// appendShellErrors adds the shell's own error messages to the output of a command that failed
// without any output, if the reason may be that the shell refused to set the command's
// environment.
func (r *run) appendShellErrors() {
	log := r.cmd.Log
	if len(r.cmd.Env) > 0 && r.oc.ExitCode != 0 && !r.oc.TimedOut && !r.oc.Cancelled && !r.dialect.terminal() && log.Bytes(output.Stdout)+log.Bytes(output.Stderr) == 0 {
		to := output.Stderr
		if r.cmd.Merge {
			to = output.Stdout
		}
		log.Append(to, r.printedErr)
	}
}
