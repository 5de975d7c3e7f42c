package shell_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/confine"
	"github.com/trl-dev/trl/internal/isolation"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/shell"
)

// The test binary starts itself again as the host of one shell, because a Shell takes every
// descendant of its process for one of its own. The value is the shell's private directory.
const envHost = "TRL_TEST_SHELL_HOST"

// killGrace is the time between the first signal and SIGKILL.
const killGrace = 2 * time.Second

// envIsolate makes the host isolate its shell: the value is the directory for its temporary files.
const envIsolate = "TRL_TEST_SHELL_ISOLATE"

// envMemo is where the host remembers that namespaces work.
const envMemo = "TRL_TEST_SHELL_MEMO"

func init() {
	if len(os.Args) > 1 && os.Args[1] == confine.Verb {
		os.Exit(confine.Enter(os.Args[2:]))
	}
	if dir := os.Getenv(envHost); dir != "" {
		// A Shell watches the children of the main thread. Only init can pin the main goroutine to it.
		runtime.LockOSThread()
		os.Unsetenv(envHost)
		serveHost(dir)
		os.Exit(0)
	}
}

// serveHost serves one host on stdin and stdout until the input ends.
func serveHost(dir string) {
	process.Sanitize()
	h := &host{dir: dir, onMain: make(chan func()), commands: map[string]*shell.Command{}}
	subreaper := process.BecomeSubreaper()
	reaper := process.NewReaper()
	h.start = func(spec process.Spec) (p *process.Process, err error) {
		done := make(chan struct{})
		h.onMain <- func() {
			p, err = reaper.Start(spec)
			close(done)
		}
		<-done
		return p, err
	}
	if !subreaper {
		h.strays = func(since uint64) []process.Info { return process.Strays(api.SessionMarker, h.id(), since) }
	}
	var err error
	if h.drainer, err = shell.NewDrainer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s := server.New(server.Config{Service: h, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
		if err := s.ServeConn(context.Background(), stdio{os.Stdin, os.Stdout}, "test"); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	for {
		select {
		case f := <-h.onMain:
			f()
		case <-served:
			return
		}
	}
}

type stdio struct {
	io.ReadCloser
	io.WriteCloser
}

func (s stdio) Close() error {
	s.ReadCloser.Close()
	return s.WriteCloser.Close()
}

// host runs the commands of one session in a shell.Shell, without a runner and a daemon. It
// implements the methods that cases use.
type host struct {
	api.Service // nil; the other methods are not called
	dir         string
	onMain      chan func()
	start       func(process.Spec) (*process.Process, error)
	strays      func(since uint64) []process.Info
	drainer     *shell.Drainer
	timeout     float64 // of commands that have none of their own

	running sync.Mutex // held while the shell is in use
	shell   *shell.Shell

	mu       sync.Mutex
	last     int                       // guarded by mu; the number of the last command
	commands map[string]*shell.Command // guarded by mu
}

func (h *host) id() string { return "s-" + filepath.Base(filepath.Dir(h.dir)) }

func (h *host) SessionCreate(_ context.Context, p api.SessionCreateParams) (api.SessionInfo, error) {
	env := map[string]string{"TERM": "dumb"}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	for name, value := range p.Env {
		env[name] = value
	}
	for _, name := range []string{"PWD", "OLDPWD", "TMOUT", "ENV", "BASH_ENV"} { // as the runner does
		delete(env, name)
	}
	env[api.SessionMarker] = h.id()
	dir := p.WorkingDir
	if dir == "" {
		dir = env["HOME"]
	}
	found, err := shell.Find(p.Shell, env["PATH"], dir)
	if err != nil {
		return api.SessionInfo{}, err
	}
	c := shell.Config{Program: found, Dir: h.dir, WorkingDir: dir, StartTimeout: 30 * time.Second, Start: h.start, Strays: h.strays}
	for name, value := range env {
		c.Env = append(c.Env, name+"="+value)
	}
	if p.TimeoutS != nil {
		h.timeout = *p.TimeoutS
	}
	if private := os.Getenv(envIsolate); private != "" {
		if err := isolate(&c, private); err != nil {
			return api.SessionInfo{}, err
		}
	}
	h.shell, err = shell.Start(c)
	return api.SessionInfo{SessionID: h.id()}, err
}

// isolate isolates the shell as a session with files workspace and processes own.
func isolate(c *shell.Config, private string) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	work := private + "/work"
	if c.WorkingDir == os.Getenv("HOME") {
		c.WorkingDir = work
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	start := c.Start
	plan, err := isolation.NewPlan(isolation.Request{
		Isolation:  api.Isolation{Files: api.FilesWorkspace, Processes: api.ProcessesOwn},
		WorkingDir: c.WorkingDir, Home: os.Getenv("HOME"), Channel: c.Dir, Private: private, Programs: []string{c.Program.Path}, Start: start, Memo: os.Getenv(envMemo),
	})
	if err != nil {
		return err
	}
	c.Isolated = true
	c.Start = func(spec process.Spec) (*process.Process, error) {
		return confine.Start(start, spec, &confine.Confinement{Isolation: plan.Isolation})
	}
	return nil
}

func (h *host) SessionInfo(context.Context, api.SessionInfoParams) (api.SessionDetails, error) {
	h.running.Lock()
	defer h.running.Unlock()
	info := api.SessionDetails{ShellRestarts: h.shell.Restarts()}
	info.SessionID, info.State = h.id(), api.SessionIdle
	return info, nil
}

func (h *host) SessionDestroy(context.Context, api.SessionDestroyParams) (api.SessionDestroyResult, error) {
	h.running.Lock()
	defer h.running.Unlock()
	h.shell.HangUp()
	process.KillTree(os.Getpid(), syscall.SIGKILL, 0, nil)
	h.drainer.Close()
	h.shell.Close()
	return api.SessionDestroyResult{SessionID: h.id(), State: api.SessionTerminated, Killed: []api.KilledProcess{}}, os.RemoveAll(h.dir)
}

func (h *host) ExecRun(_ context.Context, p api.ExecParams) (api.ExecResult, error) {
	id, c, err := h.newCommand(p)
	if err != nil {
		return api.ExecResult{}, err
	}
	result, held, err := h.run(c)
	if err != nil {
		return api.ExecResult{}, err
	}
	limit := int64(api.DefaultMaxOutputBytes)
	if p.MaxOutputBytes != nil {
		limit = *p.MaxOutputBytes
	}
	stdout, cutOut := c.Log.Result(output.Stdout, limit)
	stderr, cutErr := c.Log.Result(output.Stderr, limit)
	h.drain(c, held)
	result.ExecID, result.SessionID, result.StdoutTruncated, result.StderrTruncated = id, h.id(), cutOut, cutErr
	result.Stdout, result.StdoutBase64 = api.Text(stdout)
	result.Stderr, result.StderrBase64 = api.Text(stderr)
	return result, nil
}

func (h *host) newCommand(p api.ExecParams) (id string, c *shell.Command, err error) {
	if err := p.Check(); err != nil {
		return "", nil, err
	}
	stdin, has := p.StdinData()
	timeout := h.timeout
	if p.TimeoutS != nil {
		timeout = *p.TimeoutS
	}
	c = &shell.Command{
		Text: p.Command, Env: p.Env, WorkingDir: p.WorkingDir, Stdin: stdin, HasStdin: has, Grace: killGrace,
		Timeout: time.Duration(timeout * float64(time.Second)), Abort: make(chan syscall.Signal, 1),
		Log: output.New(output.NewStore(output.StoreConfig{Dir: os.TempDir()}), 256<<20),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	id = fmt.Sprintf("x-%d", h.last)
	h.commands[id] = c
	return id, c, nil
}

// run runs a command to its end. The caller passes held to drain when it has read the output.
func (h *host) run(c *shell.Command) (r api.ExecResult, held *shell.Held, err error) {
	h.running.Lock()
	defer h.running.Unlock()
	oc, err := h.shell.Run(c)
	if err != nil {
		return r, nil, err
	}
	c.Log.Mark() // the log has held back the beginning of a character whose rest never came
	if h.shell.CheckpointDue() {
		h.shell.Checkpoint()
	}
	r.ExitCode, r.TimedOut, r.Cancelled, r.ShellRestarted, r.WorkingDir = oc.ExitCode, oc.TimedOut, oc.Cancelled, oc.Restarted, h.shell.WorkingDir()
	r.StdoutBytes, r.StderrBytes = c.Log.Bytes(output.Stdout), c.Log.Bytes(output.Stderr)
	r.LeftRunning, r.Killed = []api.Process{}, []api.KilledProcess{}
	if oc.Signal != 0 {
		r.Signal = process.SignalName(oc.Signal)
	}
	for _, left := range oc.LeftRunning {
		r.LeftRunning = append(r.LeftRunning, api.Process{PID: left.PID, Command: left.Command})
	}
	for _, k := range oc.Killed {
		r.Killed = append(r.Killed, api.KilledProcess{PID: k.PID, Command: k.Command, Signal: process.SignalName(k.Signal)})
	}
	return r, oc.Held, nil
}

// drain lets the output of processes that were left running go on.
func (h *host) drain(c *shell.Command, held *shell.Held) {
	if held == nil {
		c.Log.Close()
		return
	}
	h.drainer.Add(held, c.Log.Close)
}

func (h *host) ExecCancel(_ context.Context, p api.ExecCancelParams) (api.ExecInfo, error) {
	h.mu.Lock()
	c := h.commands[p.ExecID]
	h.mu.Unlock()
	signal := syscall.SIGTERM
	if p.Signal != "" {
		var known bool
		if signal, known = process.ParseSignal(p.Signal); !known {
			return api.ExecInfo{}, api.InvalidParam("signal", "%q is unknown", p.Signal)
		}
	}
	c.Abort <- signal
	h.shell.Wake()
	return api.ExecInfo{ExecID: p.ExecID}, nil
}

func (h *host) ExecStream(ctx context.Context, p api.ExecStreamParams) (api.Stream, error) {
	id, c, err := h.newCommand(p.ExecParams)
	if err != nil {
		return nil, err
	}
	st := &commandStream{ctx: ctx, id: id, log: c.Log, ended: make(chan struct{})}
	go func() {
		defer close(st.ended)
		var held *shell.Held
		st.result, held, st.err = h.run(c)
		c.Log.Mark() // wakes Recv, which may have missed the end
		h.drain(c, held)
	}()
	return st, nil
}

// commandStream pushes the output of a command and its exit.
type commandStream struct {
	ctx    context.Context
	id     string
	log    *output.Log
	ended  chan struct{} // closed when result and err are set
	result api.ExecResult
	err    error
	after  int64 // the number of the last record that was read
	ready  []api.StreamEvent
	over   bool
}

func (st *commandStream) Start() api.StreamStart {
	return api.StreamStart{StreamID: st.id, ExecID: st.id}
}
func (st *commandStream) Close() error { return nil }

func (st *commandStream) Recv() (api.StreamEvent, error) {
	for len(st.ready) == 0 {
		if st.over {
			return api.StreamEvent{}, io.EOF
		}
		ended := false
		select {
		case <-st.ended:
			ended = true
		default:
		}
		records, data, next := st.log.Read(st.after, 64<<10, nil)
		st.after = next
		for _, r := range records {
			ev := api.StreamEvent{StreamID: st.id, Seq: r.Seq, Type: r.Stream.String()}
			ev.Data, ev.DataBase64 = api.Text(data[:r.Len])
			data = data[r.Len:]
			st.ready = append(st.ready, ev)
		}
		switch {
		case len(records) > 0:
		case ended && st.err != nil:
			return api.StreamEvent{}, st.err
		case ended:
			st.over = true
			st.ready = append(st.ready, api.StreamEvent{StreamID: st.id, Type: api.EventExit, ExecOutcome: &st.result.ExecOutcome})
		default:
			if err := st.log.Wait(st.ctx, st.after); err != nil {
				return api.StreamEvent{}, err
			}
		}
	}
	ev := st.ready[0]
	st.ready = st.ready[1:]
	return ev, nil
}
