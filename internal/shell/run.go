package shell

import (
	"os"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
)

// Command is one command to run.
type Command struct {
	Text       string
	Env        map[string]string // for this command only
	WorkingDir string            // for this command only
	Stdin      []byte
	HasStdin   bool
	Input      *Input        // instead of Stdin, when more may come
	Timeout    time.Duration // 0: none
	Grace      time.Duration // between the first signal and SIGKILL
	Log        *output.Log
	// Abort gives the command up: the value is the first signal. Send (it has room
	// for one), then Wake.
	Abort chan syscall.Signal
	// Full says that output must wait, as on a pipe that is not read; nil for
	// never. When it changes, Wake.
	Full func() bool

	live  atomic.Pointer[live]      // while it runs
	wrote atomic.Pointer[time.Time] // when it last wrote something; nil: never
}

// Outcome is how a command ended.
type Outcome struct {
	ExitCode  int
	Signal    syscall.Signal // that ended it, where it is certain
	TimedOut  bool
	Cancelled bool
	Restarted bool // the shell ended, and another one took its place
	// Died says that the shell ended and that none could be started. With
	// RESOURCE_PRESSURE the next Run tries again; otherwise the session cannot go on.
	Died        error
	LeftRunning []Holder
	Killed      []process.Killed
	UserMS      int64
	SystemMS    int64
	MaxRSSBytes int64
	feeder      *feeder

	// Held is output that somebody still holds open; nil when it is complete.
	Held *Held
}

const (
	// bookkeepTime bounds what the shell does for us between commands.
	bookkeepTime = 10 * time.Second
)

// run is one call of Run.
type run struct {
	*Shell
	cmd     *Command
	req     request
	start   time.Time
	streams [2]*stream
	earlier map[int]uint64        // processes that were there before: pid → start time
	strays  func() []process.Info // those of the command; nil where there are none
	oc      Outcome
	rssNext time.Duration // when the next sample of memory is due, after start
	// ping is the token of the ping behind this command, if there is one.
	ping, pingFile string
}

// Run runs one command to its end. An error means that it was not run at all.
func (s *Shell) Run(c *Command) (Outcome, error) {
	r := &run{Shell: s, cmd: c, rssNext: 5 * time.Millisecond}
	if err := r.prepare(); err != nil {
		return r.oc, err
	}
	control, err := r.control()
	if err != nil {
		r.withdraw()
		return r.oc, err
	}
	s.saidOut, s.saidErr = s.saidOut[:0], s.saidErr[:0]
	s.send(control)
	st, ended := r.await()
	switch {
	case ended:
		r.oc.ExitCode = st.code
		if st.cwd != "" {
			s.cwd = st.cwd
		}
		s.last = st.code
	case s.dead():
		r.shellDied()
	default:
		r.abort()
	}
	r.finish()
	return r.oc, nil
}

// replaceShell gives the session a new shell in the state that is known.
func (r *run) replaceShell() bool {
	s := r.Shell
	s.endMute()
	r.oc.Died = s.restart(s.bestState(nil))
	r.oc.Restarted = true
	return r.oc.Died == nil
}

// prepare gets everything ready that the control text refers to.
func (r *run) prepare() error {
	s, c := r.Shell, r.cmd
	if s.dead() {
		if err := s.Revive(); err != nil {
			r.oc.Died = err
			return err
		}
		r.oc.Restarted = true
	}
	r.req = request{text: c.Text, workingDir: c.WorkingDir, token: s.token(), lastStatus: s.last, stdin: os.DevNull}
	for k, v := range c.Env {
		r.req.env = append(r.req.env, envVar{k, v})
	}
	sort.Slice(r.req.env, func(i, j int) bool { return r.req.env[i].key < r.req.env[j].key })
	if err := CheckDir(c.WorkingDir); err != nil {
		return err
	}
	if s.dirty && (len(c.Env) > 0 || mayEndShell(c.Text)) {
		s.Checkpoint()
	}
	if err := r.openStreams(); err != nil {
		return err
	}
	if !r.usable() && !r.replaceShell() {
		r.closeOutputs()
		return r.oc.Died
	}
	if enter := s.dialect.enter(r.req); enter != "" {
		st, err := s.runScript(enter, time.Now().Add(bookkeepTime))
		if err == nil && st.code != 0 {
			err = r.refused()
			s.runScript(s.dialect.leave(r.req), time.Now().Add(bookkeepTime))
		}
		if err != nil {
			r.closeOutputs()
			return err
		}
	}
	r.start = time.Now()
	r.earlier = s.present()
	if s.cfg.Strays != nil {
		since := process.Now()
		r.strays = func() []process.Info { return s.cfg.Strays(since) }
	}
	c.live.Store(&live{scope: r.scope(), input: c.Input, userMS: s.cpuUser, systemMS: s.cpuSystem})
	return nil
}

// CheckDir refuses a directory for a command that is none. "" is the shell's own.
func CheckDir(path string) error {
	if path == "" {
		return nil
	}
	if fi, err := os.Stat(path); err != nil || !fi.IsDir() {
		return api.Errorf(api.CodeInvalidParams, "params.working_dir: %q is not a directory", path)
	}
	return nil
}

// refused says what the shell would not do for the command.
func (r *run) refused() error {
	if r.cmd.WorkingDir != "" {
		return api.Errorf(api.CodeInvalidParams, "params.working_dir: the shell cannot go to %q", r.cmd.WorkingDir)
	}
	keys := make([]string, 0, len(r.req.env))
	for _, e := range r.req.env {
		keys = append(keys, e.key)
	}
	return api.Errorf(api.CodeInvalidParams, "params.env: the shell cannot set %s; is it readonly?", strings.Join(keys, ", "))
}

// mayEndShell reports whether a command looks as if it could replace or kill the
// shell without its EXIT trap. It decides only whether a checkpoint is taken at
// once; a command that hides it finds the last one.
func mayEndShell(text string) bool {
	for _, w := range []string{"exec", "kill", "exit", "logout", "trap", "limit"} {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

func (r *run) openStreams() error {
	s := r.Shell
	err := s.openOutputs()
	if err != nil {
		// A command has deleted the private directory.
		s.discardOutputs()
		if err = s.makeDir(); err == nil {
			err = s.openOutputs()
		}
	}
	if err != nil {
		return err
	}
	single := r.cmd.Full != nil
	r.streams = [2]*stream{
		{fd: s.out.read, which: output.Stdout, log: r.cmd.Log, single: single, wrote: &r.cmd.wrote},
		{fd: s.err.read, which: output.Stderr, log: r.cmd.Log, single: single, wrote: &r.cmd.wrote},
	}
	r.req.stdout, r.req.stderr = s.out.path, s.err.path
	return nil
}

func (s *Shell) openOutputs() error {
	s.outputs += 2
	if err := s.out.open(s.dir.output(s.outputs)); err != nil {
		return err
	}
	err := s.err.open(s.dir.output(s.outputs + 1))
	if err != nil {
		unix.Close(s.out.write)
	}
	return err
}

// closeOutputs closes our own writing ends.
func (s *Shell) closeOutputs() {
	unix.Close(s.out.write)
	unix.Close(s.err.write)
}

// control writes the scripts and returns the control text. A script that could not
// be written whole (no room) must not be run.
func (r *run) control() (string, error) {
	s := r.Shell
	if r.cmd.Input != nil {
		path, err := s.attach(r.cmd.Input)
		if err != nil {
			return "", err
		}
		r.req.stdin = path
	} else if r.cmd.HasStdin {
		f, err := newFeeder(s.dir.stdin(), r.cmd.Stdin)
		if err != nil {
			return "", err
		}
		r.req.stdin, r.oc.feeder = f.path, f
	}
	if s.last != 0 && s.lastFile != s.last {
		if err := os.WriteFile(s.dir.last(), []byte("return "+strconv.Itoa(s.last)+"\n"), 0o600); err != nil {
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

// withdraw takes back what was prepared for a command that is not run.
func (r *run) withdraw() {
	s := r.Shell
	s.closeOutputs()
	s.detach()
	r.cmd.live.Store(nil)
	if r.oc.feeder != nil {
		r.oc.feeder.release()
	}
	s.commandFile.put("")
	s.wrapperFile.put("")
	r.leave()
}

// await waits for the command's end, its time-out, or an abort.
func (r *run) await() (status, bool) {
	s := r.Shell
	var limit time.Time
	if r.cmd.Timeout > 0 {
		limit = r.start.Add(r.cmd.Timeout)
	}
	check, ask, look := r.start.Add(time.Second), r.start.Add(pingLate), r.start.Add(muteFirst)
	var silence mute
	for {
		if st, ok := s.takeStatus(r.req.token, r.ping); ok {
			if st.token != r.ping && r.ping != "" {
				s.await(r.ping, time.Now().Add(time.Second))
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
				s.endMute()
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

// pingLate is when a command has run so long that a ping is put behind it. It
// comes back after the status; or without one, when something made the shell
// drop our line and return to its input (in dash, `kill -INT $$` does).
const pingLate = 100 * time.Millisecond

// repair looks whether the private directory is still there. Where a command has
// deleted it, what the shell needs to go on is made again, and, where the status
// could be lost with it, another ping tells when the shell is idle.
func (r *run) repair() {
	s := r.Shell
	if _, err := os.Lstat(s.dir.dumpFile()); err == nil {
		return
	}
	if s.makeDir() == nil {
		r.sendPing()
	}
}

func (r *run) sendPing() {
	token := r.token()
	if file := r.Shell.sendPing(token); file != "" {
		r.ping, r.pingFile = token, file
	}
}

func earliest(times ...time.Time) time.Time {
	var e time.Time
	for _, t := range times {
		if !t.IsZero() && (e.IsZero() || t.Before(e)) {
			e = t
		}
	}
	return e
}

// shellDied takes the outcome from the death of the shell.
func (r *run) shellDied() {
	s := r.Shell
	e := s.proc.Exit()
	r.oc.ExitCode, r.oc.Signal, r.oc.Restarted = e.Code(), e.Signal, true
	r.oc.UserMS, r.oc.SystemMS = e.UserMS-s.cpuUser, e.SystemMS-s.cpuSystem
	r.oc.MaxRSSBytes = max(r.oc.MaxRSSBytes, e.MaxRSSBytes)
	s.readState()
	// What a trap on EXIT prints comes after the redirections were taken back.
	for _, st := range r.streams {
		for st.read() {
		}
	}
	s.readSink(&s.sinkOut, &s.saidOut)
	if !s.dialect.terminal() {
		r.cmd.Log.Append(output.Stdout, s.saidOut)
	}
	told := s.exitDump != nil
	if err := s.restart(s.bestState(r.cmd)); err != nil {
		r.oc.Died = err
		if told {
			s.owed = s.dialect.leave(r.req)
		}
		return
	}
	// A state from before the command knows nothing of its directory and environment.
	// One that the dying shell reported has both, and must not be restored again.
	if told && r.leave() {
		s.Checkpoint()
	}
}

// leave takes back the directory and environment of the command. It reports whether
// there was anything to take back.
func (r *run) leave() bool {
	s := r.Shell
	leave := s.dialect.leave(r.req)
	if leave == "" || r.oc.Died != nil {
		return false
	}
	if _, err := s.runScript(leave, time.Now().Add(bookkeepTime)); err != nil && !s.dead() {
		s.proc.Signal(syscall.SIGKILL)
		<-s.proc.Done()
	}
	return true
}

// finish collects what the command leaves behind.
func (r *run) finish() {
	s := r.Shell
	if r.oc.TimedOut {
		r.oc.ExitCode = api.ExitTimedOut
	} else if r.oc.Cancelled {
		r.oc.ExitCode = api.ExitCancelled
	}
	r.cmd.live.Store(nil)
	s.detach()
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
	if !r.oc.Restarted {
		r.account()
		r.leave()
	}
	r.hold(complete)
	if !complete && len(r.oc.LeftRunning) == 0 && !s.restored() {
		r.replaceShell() // it could not take back the redirections (ulimit -n)
	}
}

// complain adds what the shell itself said to the output of a command that failed
// without a word, when the shell may have refused to set its environment.
func (r *run) complain() {
	log := r.cmd.Log
	if len(r.cmd.Env) > 0 && r.oc.ExitCode != 0 && !r.oc.TimedOut && !r.oc.Cancelled && !r.dialect.terminal() && log.Bytes(output.Stdout)+log.Bytes(output.Stderr) == 0 {
		log.Append(output.Stderr, r.saidErr)
	}
}

// hold gives streams that are not at their end to the caller.
func (r *run) hold(complete bool) {
	if complete {
		return
	}
	s := r.Shell
	r.oc.Held = &Held{}
	for i, f := range []*fifo{&s.out, &s.err} {
		if st := r.streams[i]; !st.eof {
			r.oc.Held.streams = append(r.oc.Held.streams, st)
			s.poller.forget(st.fd)
			f.forget()
		}
	}
}
