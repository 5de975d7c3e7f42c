package shell

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// Config says what to start and where.
type Config struct {
	Program    Program
	Dir        string   // private directory; its path needs no quoting in any shell
	Env        []string // complete
	WorkingDir string
	Login, RC  bool
	// StartTimeout is how long a shell may take until it answers.
	StartTimeout time.Duration
	// Start starts a process. It must fork on the thread whose children
	// process.WatchChildren sees.
	Start    func(process.Spec) (*process.Process, error)
	CgroupFD int
	// Strays finds what was started in the session since then (an Info.StartTime) and is
	// not below this process any more; nil where orphans come to this process.
	Strays func(since uint64) []process.Info
}

// Shell is a living shell. One goroutine at a time uses it (its methods say
// where others may); it has one goroutine per shell process, which reports the
// end of that process, and those of the feeders. Close waits for the former.
type Shell struct {
	cfg     Config
	dialect dialect
	dir     dir

	mu   sync.Mutex
	proc *process.Process // guarded by mu for PID; replaced by the owner only

	watchers  sync.WaitGroup
	poller    *poller
	control   int // the shell's stdin, or the master of its terminal
	sinkOut   int // the shell's own stdout; the same terminal
	sinkErr   int // the shell's own stderr; -1 with a terminal
	status    *channel
	state     *channel
	wakeMu    sync.Mutex
	wakeR     int // closed with wakeMu
	wakeW     int // guarded by wakeMu
	shellKids *process.ChildWatch
	ourKids   *process.ChildWatch
	watched   map[int]bool // children of the shell whose end is awaited; see Children

	buf         []byte // for reading; on the stack it would make every goroutine's grow
	pending     []byte // control text that the shell has not taken yet
	statusBuf   []byte
	statuses    []status
	stateBuf    []byte
	saidOut     []byte // what the shell printed itself since the command began
	saidErr     []byte
	commandFile script
	wrapperFile script
	lastFile    int // what dir.last() returns
	out, err    fifo
	outputs     int
	pings       int
	tokens      *rand.ChaCha8
	input       *Input // of the running command, when its stdin is open

	name       string // of the process, as the kernel knows it
	args       string // its command line
	stdio      string // where its stdout and stderr go when it is idle
	last       int    // $? of the last command
	cwd        string // as the shell said last
	restarts   int64
	checkpoint *State // the state at some moment; see Checkpoint
	dirty      bool   // checkpoint may be out of date
	exitDump   *State // what the dying shell told
	owed       string // script that takes back the environment of the command that ended the last shell; "" for none
	patient    bool   // a dump is under way, and nobody waits for its parts
	cpuUser    int64  // of the shell and what it waited for, as far as it is accounted to a command
	cpuSystem  int64
	budget     checkpointBudget
}

// Start starts a shell and waits until it answers.
func Start(cfg Config) (*Shell, error) {
	s := &Shell{
		cfg: cfg, dialect: dialectOf(cfg.Program), dir: dir{path: cfg.Dir}, cwd: cfg.WorkingDir,
		control: -1, sinkOut: -1, sinkErr: -1, wakeR: -1, wakeW: -1,
		tokens: newTokens(), budget: newCheckpointBudget(), buf: make([]byte, 16<<10),
		dirty: true, // nothing is known of a new shell either: startup files may have set anything
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

// token names one status so that nobody who has not seen it can send it.
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

// Done is closed when the present shell process has ended.
func (s *Shell) Done() <-chan struct{} { return s.proc.Done() }

// WorkingDir is the shell's directory as it said last.
func (s *Shell) WorkingDir() string { return s.cwd }

// Restarts counts the shell processes that replaced a dead one.
func (s *Shell) Restarts() int64 { return s.restarts }

// Wake makes a running Run look at its Abort channel. Safe for concurrent use, also
// with Close.
func (s *Shell) Wake() {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	if s.wakeW >= 0 {
		unix.Write(s.wakeW, []byte{0}) // does not block
	}
}

// spawn starts the shell process and brings it into state st, if there is one.
func (s *Shell) spawn(st *State) error {
	stdin, files, err := s.connect()
	if err != nil {
		return err
	}
	spec := process.Spec{
		Path: s.cfg.Program.Path, Args: append([]string{s.cfg.Program.Argv0}, s.dialect.argv(s.cfg.Login, s.cfg.RC)...),
		Env: append(s.cfg.Env[:len(s.cfg.Env):len(s.cfg.Env)], "PWD="+s.cwd), Dir: existing(s.cwd),
		Files: []*os.File{stdin, files[0], files[1]}, Setsid: true, Setctty: s.dialect.terminal(), CgroupFD: s.cfg.CgroupFD,
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
	s.pending, s.statuses, s.statusBuf, s.stateBuf, s.exitDump, s.saidOut, s.saidErr = nil, nil, nil, nil, nil, nil, nil
	s.cpuUser, s.cpuSystem, s.last = 0, 0, 0
	s.shellKids = process.WatchChildren(p.PID)
	s.watchers.Go(func() {
		<-p.Done()
		s.Wake()
	})
	return s.prepare(st)
}

// prepare sends the bootstrap and, for a restart, the state.
func (s *Shell) prepare(st *State) error {
	deadline := time.Now().Add(s.cfg.StartTimeout)
	text := s.dialect.bootstrap(s.dir)
	if st != nil {
		restore := s.dialect.restore(st)
		for _, name := range st.unset(s.cfg.Env) {
			restore = s.dialect.unset(name) + "\n" + restore
		}
		f, err := newFeeder(s.dir.script(), []byte(restore))
		if err != nil {
			return err
		}
		defer f.release()
		text += s.dialect.sourcePipe(f.path) + "\n"
	}
	if err := s.bookkeep(text, deadline); err != nil {
		said := strings.TrimSpace(string(s.saidErr))
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

// bookkeep sends control text and waits until the shell has done it.
func (s *Shell) bookkeep(text string, deadline time.Time) error {
	_, err := s.ask(text, deadline)
	return err
}

func (s *Shell) ask(text string, deadline time.Time) (status, error) {
	token := s.token()
	text += s.dialect.status(s.dir, token) + "\n"
	if s.dialect.terminal() {
		if err := os.WriteFile(s.dir.typed(), []byte(text), 0o600); err != nil {
			return status{}, err
		}
		text = s.dialect.source(s.dir.typed()) + "\n"
	}
	s.send(text)
	return s.await(token, deadline)
}

// await waits for a status of the shell's bookkeeping.
func (s *Shell) await(token string, deadline time.Time) (status, error) {
	for {
		if st, ok := s.takeStatus(token); ok {
			if st.cwd != "" {
				s.cwd = st.cwd
			}
			return st, nil
		}
		if s.dead() {
			s.wait(time.Now()) // what it said last
			return status{}, errShellDied
		}
		if !time.Now().Before(deadline) {
			return status{}, errNoAnswer
		}
		s.wait(deadline)
	}
}

// runScript has the shell read a bookkeeping script through a pipe: it may contain
// values that must touch no disk and must not be cut by a signal.
func (s *Shell) runScript(text string, deadline time.Time) (status, error) {
	f, err := newFeeder(s.dir.script(), []byte(text))
	if err != nil {
		return status{}, err
	}
	defer f.release()
	return s.ask(s.dialect.sourcePipe(f.path)+"\n", deadline)
}

// takeStatus returns the first status that has one of the tokens, and drops
// those before it: answers to pings that nobody waits for any more.
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

// restored reports whether the shell's own stdout and stderr are where they were. A shell
// that has just reported a status may still be about to take back that redirection.
func (s *Shell) restored() bool {
	for deadline := time.Now().Add(busyTime); stdioOf(s.proc.PID) != s.stdio; {
		if !time.Now().Before(deadline) {
			return false
		}
		s.wait(time.Now().Add(settleEvery))
	}
	return true
}

// restart replaces a dead shell by one in the given state (nil: only the
// directory is kept).
func (s *Shell) restart(st *State) error {
	s.disconnect()
	if st != nil && filepath.IsAbs(st.cwd) {
		s.cwd = st.cwd
	}
	if _, err := os.Stat(s.dir.path); err != nil {
		if err := s.makeDir(); err != nil {
			return err
		}
	}
	err := s.spawn(st)
	if err != nil && st != nil && !errors.Is(err, api.ErrResourcePressure) {
		// A state that the shell itself cannot digest must not cost the session.
		s.disconnect()
		err = s.spawn(nil)
	}
	switch {
	case err == nil:
		s.restarts++
		s.checkpoint, s.dirty = st, true
	case errors.Is(err, api.ErrResourcePressure):
		s.checkpoint, s.exitDump = st, nil // for the next attempt
	}
	return err
}

// Revive starts a new shell when the present one has ended between two commands.
func (s *Shell) Revive() error {
	if !s.dead() {
		return nil
	}
	s.wait(time.Now())
	err := s.restart(s.bestState(nil))
	if err == nil && s.owed != "" {
		s.runScript(s.owed, time.Now().Add(bookkeepTime))
		s.owed = ""
	}
	return err
}

// bestState is what is known of a shell that has died while running c.
func (s *Shell) bestState(c *Command) *State {
	st := s.exitDump
	if st == nil {
		return s.checkpoint
	}
	if c != nil && len(c.Env) > 0 && !s.dialect.scopesEnv() {
		keys := map[string]bool{}
		for k := range c.Env {
			keys[k] = true
		}
		before := s.checkpoint
		if before == nil { // the shell could not be asked
			before = environState(s.cfg.Env)
		}
		return st.withDefinitions(keys, before)
	}
	return st
}

// existing is dir, or the nearest parent that exists.
func existing(dir string) string {
	for {
		if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "/"
		}
		dir = parent
	}
}

// HangUp tells the shell to end by itself: end of input, SIGHUP, SIGTERM.
func (s *Shell) HangUp() {
	if s.proc == nil {
		return
	}
	s.closeFD(&s.control)
	s.proc.Signal(syscall.SIGHUP)
	s.proc.Signal(syscall.SIGTERM)
	s.proc.Signal(syscall.SIGCONT)
}

// Close ends the shell process, if it lives, and releases everything.
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

// disconnect closes what belongs to one shell process.
func (s *Shell) disconnect() {
	if s.sinkOut != s.control {
		s.closeFD(&s.sinkOut)
	}
	s.sinkOut = -1 // a terminal is closed as the control channel
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
