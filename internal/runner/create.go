package runner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/shell"
	"github.com/trl-dev/trl/internal/terminal"
)

// place is the environment in which the program of a session starts.
type place struct {
	env  []string
	path string // value of PATH
	cwd  string
}

// createOnce is create.
func (r *Runner) createOnce(_ context.Context, q *link.Request[*link.CreateParams, *link.SessionDetails]) error {
	p := *q.Params
	r.mu.Lock()
	again := r.created
	r.mu.Unlock()
	if again || p.SessionID != r.cfg.SessionID {
		return api.Errorf(api.CodeInternal, "runner of %q: asked to create %q", r.cfg.SessionID, p.SessionID)
	}
	if err := r.create(p); err != nil {
		return err
	}
	if r.program == nil {
		r.scheduleQuiet()
		q.Answer(r.details(), nil)
		return nil
	}
	// However soon the program ends, the daemon first learns that it runs.
	q.Answer(r.details(), nil)
	r.report(false)
	go r.watch(r.program)
	return nil
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// firstDir returns the first of the paths that is a directory which this user may enter, else /.
func firstDir(paths ...string) string {
	for _, path := range paths {
		if path != "" && isDir(path) && unix.Access(path, unix.X_OK) == nil {
			return path
		}
	}
	return "/"
}

// create starts the session. It holds the shell's lock, so that an end of the session meanwhile
// waits and finds all processes.
func (r *Runner) create(p link.CreateParams) error {
	r.lockShell()
	defer r.unlockShell()
	var at place
	at.env, at.path = environment(p, r.cfg.BaseEnv)
	if at.cwd = p.Params.WorkingDir; at.cwd == "" {
		at.cwd = firstDir(r.cfg.StartDir, envValue(at.env, "HOME"))
	} else if !isDir(at.cwd) {
		return api.InvalidParam("working_dir", "%q is not a directory", at.cwd)
	} else if err := unix.Access(at.cwd, unix.X_OK); err != nil {
		return api.InvalidParam("working_dir", "%q: %s", at.cwd, err) // not a fault of the shell
	}
	if p.Params.PreferShell != "" && p.Params.Shell != api.NoShell {
		if _, err := shell.Find(p.Params.PreferShell, at.path, at.cwd); err == nil {
			p.Params.Shell = p.Params.PreferShell
		}
	}
	if p.Params.Kind == api.KindTerminal || p.Params.Kind == api.KindProgram {
		return r.createProgram(p, at)
	}
	if p.Params.Shell == api.NoShell {
		if err := r.isolate(p, &at, ""); err != nil {
			return err
		}
		r.at = at
		if _, err := r.newGroups(p); err != nil {
			return err
		}
		return r.createdShell(p, nil, shell.Program{Path: api.NoShell}, at.cwd)
	}
	return r.createShell(p, at)
}

func (r *Runner) createShell(p link.CreateParams, at place) error {
	found, err := shell.Find(p.Params.Shell, at.path, at.cwd)
	if err != nil {
		return err
	}
	if err = r.isolate(p, &at, found.Path); err != nil {
		return err
	}
	r.at = at
	fd, err := r.newGroups(p)
	if err != nil {
		return err
	}
	c := shell.Config{
		Program: found, Dir: r.cfg.Dir + "/sh", Env: at.env, WorkingDir: at.cwd, Login: p.Params.Login, RC: p.Params.RC,
		StartTimeout: seconds(p.Limits.ShellStartTimeout), Start: r.startProcess, CgroupFD: fd, Foreign: r.foreign,
		Isolated: r.isolation.Isolation != nil,
	}
	if r.strays != nil {
		c.Strays = r.shellStrays
	}
	sh, err := shell.Start(c)
	if err != nil {
		r.isolation.Forget()
		return err
	}
	return r.createdShell(p, sh, found, sh.WorkingDir())
}

// createdShell completes a session of kind shell; sh is nil for one without a shell.
func (r *Runner) createdShell(p link.CreateParams, sh *shell.Shell, found shell.Program, cwd string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store = r.newStore(p.Limits)
	r.shell, r.params, r.found, r.cwd, r.created = sh, p, found, cwd, true
	return r.toLocked(api.SessionIdle, "")
}

// createProgram starts a terminal or program, which is the session's one exec.
func (r *Runner) createProgram(p link.CreateParams, at place) error {
	spec, found, err := programOf(p.Params, at)
	if err != nil {
		return err
	}
	if err = r.isolate(p, &at, spec.Path); err != nil {
		return err
	}
	spec.Env = append(at.env, "PWD="+at.cwd)
	if spec.CgroupFD, err = r.newGroups(p); err != nil {
		return err
	}
	store := r.newStore(p.Limits)
	e := r.newExec(1, output.New(store, p.Limits.OutputBytes), p.Limits.MaxStdinBytes)
	pr := &program{
		exec: e, command: p.Params.Command, started: time.Now(),
		stopper: newStopper(), over: make(chan struct{}),
	}
	if pr.command == nil {
		pr.command = []string{spec.Path}
	}
	detached := true
	e.task, e.params = pr, api.ExecParams{SessionID: r.cfg.SessionID, Command: commandLine(pr.command), Detach: &detached}
	var rec *recording
	if p.Params.Kind == api.KindTerminal {
		pr.terminal, rec, err = r.startTerminal(p, spec, e)
		pr.vessel = pr.terminal
	} else {
		pr.pipes, err = startOnPipes(pipesConfig{spec: spec, start: r.startProcess, log: e.Log, in: shell.NewInput(p.Limits.MaxStdinBytes, nil)})
		pr.vessel = pr.pipes
	}
	if err != nil {
		r.isolation.Forget()
		return err
	}
	r.note(link.ExecEvent{ExecID: e.ID, State: e.state, At: e.queuedAt.UTC()})
	_ = e.to(api.ExecRunning)
	close(e.turn)
	defer r.boundOutput(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store, r.program, r.params, r.found, r.cwd, r.created = store, pr, p, found, at.cwd, true
	r.recording = rec
	r.commands, r.current, r.order = 1, e, []*Exec{e}
	r.execs[e.ID] = e
	if err := r.toLocked(api.SessionIdle, ""); err != nil {
		return err
	}
	return r.toLocked(api.SessionRunning, "")
}

// programOf returns what to start: the command, or for a terminal without a command an
// interactive shell.
func programOf(p api.SessionCreateParams, at place) (spec process.Spec, found shell.Program, err error) {
	spec = process.Spec{Env: append(at.env, "PWD="+at.cwd), Dir: at.cwd}
	if p.Command != nil {
		spec.Args = p.Command
		spec.Path, err = shell.FindProgram(p.Command[0], at.path, at.cwd)
		return spec, found, err
	}
	found, err = shell.Find(p.Shell, at.path, at.cwd)
	if e := api.AsError(err); e != nil && e.Code == api.CodeShellFailed { // a terminal also takes a shell that TRL cannot drive
		found = shell.Program{Argv0: filepath.Base(p.Shell)}
		found.Path, err = shell.FindProgram(p.Shell, at.path, at.cwd)
	}
	spec.Path, spec.Args = found.Path, []string{found.Argv0}
	if p.Login {
		spec.Args[0] = "-" + found.Argv0
	}
	return spec, found, err
}

func (r *Runner) startTerminal(p link.CreateParams, spec process.Spec, e *Exec) (*terminal.Terminal, *recording, error) {
	c := terminal.Config{
		Name: "session " + quoted(p), Path: spec.Path, Args: spec.Args, Env: spec.Env, Dir: spec.Dir,
		Scrollback: api.DefaultScrollback, Version: r.cfg.Version, Log: e.Log, Start: r.startProcess, CgroupFD: spec.CgroupFD,
		RecordInput: p.Params.RecordInput, RecordLimit: p.Limits.RecordingBytes, Title: e.params.Command,
		MaxInput: p.Limits.MaxStdinBytes, Changed: r.reportSoon, Warn: r.warn,
	}
	c.Cols, c.Rows = p.Params.Size()
	if p.Params.Scrollback != nil {
		c.Scrollback = *p.Params.Scrollback
	}
	if !p.Params.Record {
		t, err := terminal.Start(c)
		return t, nil, err
	}
	rec, err := r.newRecording(p)
	if err != nil {
		return nil, nil, err
	}
	c.Record = rec
	t, err := terminal.Start(c)
	if err != nil {
		rec.discard()
	}
	return t, rec, err
}

// commandLine returns a command as a person would type it.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = a
		if a == "" || strings.Trim(a, plainCharacters) != "" {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

const plainCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_"
