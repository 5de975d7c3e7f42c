// Package shell drives one persistent shell and runs commands in it, one after another.
//
// The shell reads short bookkeeping lines, the control text, from a pipe: its stdin or, where
// commands could read that, its script. The text of a command is in a private file, and each
// command has its own FIFOs for stdout and stderr. The shell reports the end of a command, its exit
// status and the working directory on a private pipe, the status channel. Prompts and markers in
// the output play no part, so the output of a command cannot influence what TRL believes about it.
//
// A Shell survives its process: when a command ends the shell (exit, exec, kill), the Shell
// starts a new process and restores the last state that the old one reported.
package shell

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// Config describes the shell to start and its surroundings.
type Config struct {
	Program    Program
	Dir        string   // private directory; its path must need no quoting in any shell
	Env        []string // the complete environment
	WorkingDir string
	Login, RC  bool
	// StartTimeout limits the time from the start of a shell to its first answer.
	StartTimeout time.Duration
	// Start starts a process. It must fork on the thread whose children
	// process.WatchChildren sees.
	Start    func(process.Spec) (*process.Process, error)
	CgroupFD int
	// Isolated says that the shell may not look into this process: what it opens by path is in Dir
	// then, and not in /proc.
	Isolated bool
	// Strays lists the processes that the session has started since the given
	// Info.StartTime and that are no longer descendants of this process. It is nil where
	// this process adopts orphans, because then there are none.
	Strays func(since uint64) []process.Info
	// Foreign reports whether a child of this process, other than the shell, was started beside
	// the shell or by such a process. nil: there are none.
	Foreign func(process.Info) bool
}

// Shell is a persistent shell. Only one goroutine at a time may use it, except for the
// methods that are documented as safe for concurrent use.
//
// It runs one goroutine per shell process, which reports the end of the process, and one
// per feeder. Close waits for the first kind; a feeder ends with its reader.
type Shell struct {
	cfg     Config
	dialect dialect
	dir     dir

	mu   sync.Mutex
	proc *process.Process // guarded by mu for PID; replaced by the owner only

	watchers  sync.WaitGroup
	poller    *poller
	control   int  // writes to the shell's stdin or script, or the master of its terminal
	packets   bool // one read of control returns one line; see dialect.byLine
	sinkOut   int  // reads the shell's own stdout; equals control with a terminal
	sinkErr   int  // reads the shell's own stderr; -1 with a terminal
	status    *channel
	state     *channel
	wakeMu    sync.Mutex
	wakeR     int // closed with wakeMu held
	wakeW     int // guarded by wakeMu
	shellKids *process.ChildWatch
	ourKids   *process.ChildWatch
	watched   map[int]bool // children of the shell that Children has already returned

	buf         []byte // for reading; on the stack, it would make every goroutine's stack grow
	pending     []byte // control text that is not in the pipe yet
	statusBuf   []byte
	statuses    []status
	stateBuf    []byte
	printedOut  []byte // printed by the shell itself, not by the command, since the command began
	printedErr  []byte
	commandFile script
	wrapperFile script
	lastFile    int // the status that the script dir.last() sets; 0 when it has to be written
	out, err    fifo
	outputs     int
	pings       int
	tokens      *rand.ChaCha8
	input       *Input // of the running command, while its stdin is open

	name       string // of the shell's process, as the kernel reports it
	args       string // command line of the shell's process
	stdio      string // names the files behind the shell's stdout and stderr when it is idle
	last       int    // $? of the last command
	cwd        string // as last reported by the shell
	restarts   int64
	checkpoint *State // the state that was last reported between commands; see Checkpoint
	dirty      bool   // checkpoint may be out of date
	exitDump   *State // the state that the shell reported when it exited
	dumping    bool   // a checkpoint's dump is arriving; see wait
	lastEnd    uint64 // process.Now at the end of the last command
	cpuUser    int64  // ms of the shell and of its reaped children that were already charged to commands
	cpuSystem  int64
	budget     checkpointBudget

	// deferredLeave is a script for the next shell process. It undoes the environment of
	// the command that ended the last one. "" for none.
	deferredLeave string
}

// Start starts a shell and waits until it answers.
func Start(cfg Config) (*Shell, error) {
	s := &Shell{
		cfg: cfg, dialect: dialectOf(cfg.Program), dir: dir{path: cfg.Dir}, cwd: cfg.WorkingDir,
		control: -1, sinkOut: -1, sinkErr: -1, wakeR: -1, wakeW: -1,
		tokens: newTokens(), budget: newCheckpointBudget(), buf: make([]byte, 16<<10),
		dirty: true, // startup files may have set anything
	}
	var err error
	if s.poller, err = newPoller(); err != nil {
		return nil, err
	}
	if s.wakeR, s.wakeW, err = pipe(true, true); err != nil {
		s.poller.close()
		return nil, err
	}
	s.ourKids = process.WatchChildren(os.Getpid())
	err = s.makeDir()
	if err == nil {
		err = s.spawn(nil)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func newTokens() *rand.ChaCha8 {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32()) // the global source is seeded by the system
	}
	return rand.NewChaCha8(seed)
}

// token returns a random name for one status, so that a process that has not seen the name
// cannot forge the status.
func (s *Shell) token() string { return strconv.FormatUint(s.tokens.Uint64()|1<<63, 16) }

// PID is the process id of the shell. Safe for concurrent use.
func (s *Shell) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.PID
}

// Done is closed when the current shell process has ended.
func (s *Shell) Done() <-chan struct{} { return s.proc.Done() }

// WorkingDir is the shell's directory as it last reported it.
func (s *Shell) WorkingDir() string { return s.cwd }

// Restarts counts the shell processes that replaced a dead one.
func (s *Shell) Restarts() int64 { return s.restarts }

// Wake makes a running Run check its Abort channel and Full. Safe for concurrent use, also
// with Close.
func (s *Shell) Wake() {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	if s.wakeW >= 0 {
		unix.Write(s.wakeW, []byte{0}) // does not block
	}
}

// spawn starts a shell process and restores st in it, unless st is nil.
func (s *Shell) spawn(st *State) error {
	stdin, files, err := s.connect()
	if err != nil {
		return err
	}
	spec := process.Spec{
		Path: s.cfg.Program.Path, Args: append([]string{s.cfg.Program.Argv0}, s.dialect.argv(s.cfg.Login, s.cfg.RC)...),
		Env: append(s.cfg.Env[:len(s.cfg.Env):len(s.cfg.Env)], "PWD="+s.cwd), Dir: s.cwd, NearDir: true,
		Files: []*os.File{stdin, files[0], files[1]}, Setsid: true, Setctty: s.dialect.terminal(), CgroupFD: s.cfg.CgroupFD,
	}
	var begin beginning
	switch {
	case s.dialect.script():
		spec.Dir, spec.Args = s.dir.path, append(spec.Args, s.scriptName())
		begin = beginning{cwd: s.cwd, login: s.cfg.Login, rc: s.cfg.RC}
		spec.Env = slices.DeleteFunc(spec.Env, func(e string) bool {
			value, found := strings.CutPrefix(e, "ENV=")
			if !found || value == "" {
				return false
			}
			begin.env = value
			return true
		})
	case !s.cfg.Isolated:
		spec.Dir = existing(s.cwd)
	}
	p, err := s.cfg.Start(spec)
	stdin.Close()
	files[0].Close()
	if files[1] != files[0] {
		files[1].Close()
	}
	if err != nil {
		code := api.CodeShellFailed
		if process.NoRoom(err) {
			code = api.CodeResourcePressure
		}
		return api.Errorf(code, "shell %q: start: %s", s.cfg.Program.Path, err)
	}
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	s.pending, s.statuses, s.statusBuf, s.stateBuf, s.exitDump, s.printedOut, s.printedErr = nil, nil, nil, nil, nil, nil, nil
	s.cpuUser, s.cpuSystem = 0, 0
	s.shellKids = process.WatchChildren(p.PID)
	s.watchers.Go(func() {
		<-p.Done()
		s.Wake()
	})
	return s.prepare(begin, st)
}

// prepare sends the bootstrap text and, for a restart, a script that restores st.
func (s *Shell) prepare(begin beginning, st *State) error {
	defer s.closeScript()
	deadline := time.Now().Add(s.cfg.StartTimeout)
	text := s.dialect.bootstrap(s.dir, begin)
	if st != nil {
		restore := s.dialect.restore(st)
		for _, name := range st.unset(s.cfg.Env) {
			restore = s.dialect.unset(name) + "\n" + restore
		}
		f, err := newFeeder(s.dir.script(), []byte(restore), s.cfg.Isolated)
		if err != nil {
			return err
		}
		defer f.release()
		text += s.dialect.sourcePipe(f.path) + "\n"
	}
	if err := s.bookkeep(text, deadline); err != nil {
		said := strings.Trim(string(s.printedErr), "#$ \n") // without prompts
		if said != "" {
			said = ": " + said
		}
		return api.Errorf(api.CodeShellFailed, "shell %q: %s%s", s.cfg.Program.Path, err, said)
	}
	if in, ok := process.Stat(s.proc.PID); ok {
		s.name = in.Name
	}
	s.args = process.CommandLine(s.proc.PID)
	return nil
}

var (
	errShellDied = errors.New("it ended at once")
	errNoAnswer  = errors.New("it did not answer in time")
)

// bookkeep sends control text and waits until the shell has executed it.
func (s *Shell) bookkeep(text string, deadline time.Time) error {
	_, err := s.ask(text, deadline)
	return err
}

// ask sends control text and returns the status that the shell reports after it.
func (s *Shell) ask(text string, deadline time.Time) (status, error) {
	token := s.token()
	text += s.dialect.status(s.dir, token) + "\n"
	if s.dialect.terminal() {
		if err := writeFile(s.dir.typed(), []byte(text)); err != nil {
			return status{}, err
		}
		text = s.dialect.source(s.dir.typed()) + "\n"
	}
	s.send(text)
	return s.await(token, deadline)
}

// await waits for the status with this token, which the shell reports after control text.
func (s *Shell) await(token string, deadline time.Time) (status, error) {
	for {
		if st, ok := s.takeStatus(token); ok {
			if st.cwd != "" {
				s.cwd = st.cwd
			}
			return st, nil
		}
		if s.dead() {
			s.wait(time.Now()) // reads the shell's last messages
			return status{}, errShellDied
		}
		if !time.Now().Before(deadline) {
			return status{}, errNoAnswer
		}
		s.wait(deadline)
	}
}

// runScript makes the shell source a script from a pipe. The script may contain values that
// must not be written to a disk, and it cannot be cut off by a signal as control text can.
func (s *Shell) runScript(text string, deadline time.Time) (status, error) {
	f, err := newFeeder(s.dir.script(), []byte(text), s.cfg.Isolated)
	if err != nil {
		return status{}, err
	}
	defer f.release()
	return s.ask(s.dialect.sourcePipe(f.path)+"\n", deadline)
}

// takeStatus returns the first status that has one of the tokens. It drops the statuses before
// it, or all if there is none: they are late answers to pings.
func (s *Shell) takeStatus(tokens ...string) (status, bool) {
	for i, st := range s.statuses {
		for _, token := range tokens {
			if st.token == token {
				s.statuses = append(s.statuses[:0], s.statuses[i+1:]...)
				return st, true
			}
		}
	}
	s.statuses = s.statuses[:0]
	return status{}, false
}

func (s *Shell) dead() bool {
	select {
	case <-s.proc.Done():
		return true
	default:
		return false
	}
}

// HangUp asks the shell to exit by itself: end of input, SIGHUP, SIGTERM.
func (s *Shell) HangUp() {
	if s.proc == nil {
		return
	}
	s.closeFD(&s.control)
	s.proc.Signal(syscall.SIGHUP)
	s.proc.Signal(syscall.SIGTERM)
	s.proc.Signal(syscall.SIGCONT)
}

// Close kills the shell process, if it is alive, and releases all resources.
func (s *Shell) Close() {
	if s.proc != nil {
		s.proc.Signal(syscall.SIGKILL)
		<-s.proc.Done()
	}
	s.disconnect()
	s.watchers.Wait()
	s.status.close()
	s.state.close()
	s.wakeMu.Lock()
	s.closeFD(&s.wakeR)
	s.closeFD(&s.wakeW)
	s.wakeMu.Unlock()
	if s.ourKids != nil {
		s.ourKids.Close()
	}
	s.commandFile.close()
	s.wrapperFile.close()
	s.discardOutputs()
	s.poller.close()
}

// disconnect closes the descriptors of the current shell process.
func (s *Shell) disconnect() {
	if s.sinkOut != s.control {
		s.closeFD(&s.sinkOut)
	}
	s.sinkOut = -1 // with a terminal, it is the control descriptor, which is closed below
	s.closeFD(&s.sinkErr)
	s.closeFD(&s.control)
	if s.shellKids != nil {
		s.shellKids.Close()
		s.shellKids = nil
	}
}

func (s *Shell) closeFD(fd *int) {
	if *fd >= 0 {
		s.poller.forget(*fd)
		unix.Close(*fd)
	}
	*fd = -1
}
