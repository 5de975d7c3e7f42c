package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/early"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/cli/words"
	"github.com/trl-dev/trl/internal/wire"
)

// run is one `trl run`, until the end of its temporary session. One goroutine does the work,
// while the goroutine that calls start handles signals; mu guards the fields that both use.
type run struct {
	app   *app
	cmd   *cobra.Command
	flags runFlags
	args  []string // the command: shell text, or words

	mu      sync.Mutex
	client  *client.Client
	target  api.ExecCancelParams // names the command for a cancel; empty until the command may run
	session string               // id of the temporary session; "" for none
	ended   bool                 // the command has ended, but not the temporary session
	// found are the sessions with the name that the user gave, if looking for them was the first
	// request; nil otherwise. Only the goroutine that does the work uses it.
	found *api.SessionListResult
	// begun is the command itself, if package early has sent it; nil otherwise.
	begun   *early.Handover
	settled func() // ends the wait of interrupt for the target of a command that was begun
	known   <-chan struct{}
}

// sameSignal is the time within which a second signal counts as the first one sent again:
// timeout(1) signals its child and then the whole group.
const sameSignal = 100 * time.Millisecond

// start does the work and handles signals: the first cancels the command with that signal, the
// second kills the command, the third exits at once. If the command has ended and only its
// background processes remain, the first signal kills those.
func (r *run) start() error {
	signals := r.takeOver()
	defer signal.Stop(signals)
	// A write to a closed pipe must fail, not kill trl.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)

	ctx, giveUp := context.WithCancel(r.cmd.Context())
	defer giveUp()
	done := make(chan error, 1)
	go func() { done <- r.work(ctx) }()
	count, last := 0, time.Time{}
	var first os.Signal
	for {
		select {
		case err := <-done:
			var f *ui.Failure
			if count > 0 && err != nil && !(errors.As(err, &f) && f.Err == nil && f.Status != api.ExitCancelled) {
				// The error is only a consequence of the interrupt.
				return ui.ExitBySignal(first)
			}
			return err
		case s := <-signals:
			if time.Since(last) < sameSignal {
				continue
			}
			if count == 0 {
				first = s
			}
			count++
			if count > 2 || !r.interrupt(ctx, s, count > 1) {
				return ui.ExitBySignal(first)
			}
			last = time.Now() // interrupt may have waited, and a copy of the signal with it
		}
	}
}

// beginWait limits the wait of interrupt for the target of a command that was begun.
const beginWait = 2 * time.Second

// takeOver continues with what package early has begun, and returns the signals that end a program.
func (r *run) takeOver() chan os.Signal {
	known := make(chan struct{})
	r.known, r.settled = known, sync.OnceFunc(func() { close(known) })
	r.begun = early.Take()
	if r.begun == nil {
		r.settled()
		return early.Catch()
	}
	if r.begun.Stream == nil {
		r.settled()
	}
	return r.begun.Signals
}

// interrupt cancels the command. It returns false if no command runs yet: then trl may simply
// exit, because the daemon ends everything that belongs to a closed connection.
func (r *run) interrupt(ctx context.Context, s os.Signal, force bool) bool {
	select {
	case <-r.known:
	case <-time.After(beginWait): // the daemon does not answer
	}
	r.mu.Lock()
	c, target, session := r.client, r.target, r.session
	force = force || r.ended
	r.mu.Unlock()
	if c == nil || target == (api.ExecCancelParams{}) {
		return false
	}
	target.Signal = strings.TrimPrefix(unix.SignalName(s.(unix.Signal)), "SIG")
	if force {
		target.Signal = "KILL"
	}
	// The goroutine that does the work gets the outcome.
	go func() {
		if force && session != "" {
			_, _ = c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: session, Force: true})
			return
		}
		_, _ = c.ExecCancel(ctx, target)
	}()
	return true
}

// work connects, runs the command and ends the temporary session.
func (r *run) work(ctx context.Context) error {
	defer r.settled()
	if r.begun != nil && r.begun.Stream != nil {
		ctx = wire.WithBegun(ctx, r.begun.Stream)
		r.found = &api.SessionListResult{Sessions: []api.SessionInfo{r.begun.Session}}
	}
	// One request less before the command, unless reading stdin comes between.
	if r.flags.session != "" && !r.flags.stdin && r.found == nil {
		r.app.first = func(ctx context.Context, c *client.Client) error {
			found, err := r.list(ctx, c)
			r.found = &found
			return err
		}
	}
	return r.app.withClient(r.cmd, func(_ context.Context, c *client.Client) error {
		r.app.first = nil // for a daemon that has to be started again
		r.mu.Lock()
		r.client = c
		r.mu.Unlock()

		params, err := r.params(ctx, c)
		if err != nil {
			return err
		}
		if r.flags.session != "" {
			return r.inNamed(ctx, c, params)
		}
		return r.inThrowAway(ctx, c, params)
	})
}

// params returns the request without the session and the command: the command is quoted for the
// shell of the session.
func (r *run) params(ctx context.Context, c *client.Client) (api.ExecParams, error) {
	detach := false
	p := api.ExecParams{
		TimeoutS: r.flags.timeout.Value,
		Env:      r.flags.env,
		Wait:     r.flags.wait,
		Merge:    r.flags.merge,
		Detach:   &detach,
	}
	if r.flags.session != "" {
		if p.Limits = r.flags.resources.commandLimits(); p.Limits != nil {
			p.LimitsMode = r.flags.resources.limitsMode()
		}
	}
	if p.WorkingDir = r.flags.cwd; p.WorkingDir != "" && r.app.samePlace() && !(r.flags.session != "" && filepath.IsAbs(p.WorkingDir)) { // an existing session may be elsewhere
		absolute := directory
		if r.flags.wait { // an earlier command may create the directory
			absolute = filepath.Abs
		}
		var err error
		if p.WorkingDir, err = absolute(p.WorkingDir); err != nil {
			return p, err
		}
	}
	if err := checkText("directory", p.WorkingDir); err != nil {
		return p, err
	}
	switch {
	case !r.flags.stdin:
	case r.flags.json:
		return p, r.allStdin(ctx, c, &p)
	default:
		p.StdinOpen = true
	}
	return p, nil
}

// say sets the command: text for the shell of the session, or the words of a program.
func (r *run) say(p *api.ExecParams, in api.SessionInfo) {
	if r.flags.direct {
		p.Argv = r.args
		return
	}
	words.Fill(p, r.args, in)
}

// shell returns the shell of a session for this command alone: none for a program.
func (r *run) shell() string {
	if r.flags.direct && r.flags.shell == "" {
		return api.NoShell
	}
	return r.flags.shell
}

// inThrowAway runs the command in a temporary session.
func (r *run) inThrowAway(ctx context.Context, c *client.Client, p api.ExecParams) error {
	create, err := r.app.likeOurs(p.WorkingDir, r.shell())
	if err != nil {
		return err
	}
	create.Ephemeral = r.app.url == "" // over HTTP, there is no connection to end with
	p.WorkingDir = ""
	r.flags.resources.fill(&create)
	info, err := r.app.createSession(ctx, c, create)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.session = info.SessionID
	r.mu.Unlock()
	p.SessionID = info.SessionID
	r.say(&p, info)
	err = r.exec(ctx, c, p)
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	// Ended now, so that nothing is left when trl exits. After the end of the connection, the
	// daemon would end it a little later.
	if _, destroyErr := c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: info.SessionID}); err == nil && !(create.Ephemeral && endsAnyway(destroyErr)) {
		err = destroyErr
	}
	return err
}

// endsAnyway reports whether an ephemeral session that was not destroyed has ended, or ends because it
// has no owner. Its command has succeeded, even if the daemon has not.
func endsAnyway(err error) bool {
	return errors.Is(err, api.ErrSessionNotFound) || errors.Is(err, api.ErrSessionTerminated) || errors.Is(err, api.ErrRuntimeUnavailable)
}

// inNamed runs the command in the session that the user named.
func (r *run) inNamed(ctx context.Context, c *client.Client, p api.ExecParams) error {
	info, err := r.findNamed(ctx, c)
	if err != nil {
		return err
	}
	p.SessionID = string(r.flags.session)
	r.say(&p, info)
	return r.exec(ctx, c, p)
}

// findNamed returns the session that the user named, and creates it if it does not exist. It
// checks first instead of reacting to an error of the command: a command must never run twice.
func (r *run) findNamed(ctx context.Context, c *client.Client) (api.SessionInfo, error) {
	name := string(r.flags.session)
	if r.found == nil {
		found, err := r.list(ctx, c)
		if err != nil {
			return api.SessionInfo{}, err
		}
		r.found = &found
	}
	found := *r.found
	if len(found.Sessions) == 0 || found.Sessions[0].State == api.SessionCreating {
		if !strings.HasPrefix(name, "s-") {
			return r.makeNamed(ctx, c)
		}
		details, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: name}) // how it ended
		return details.SessionInfo, err
	}
	info := found.Sessions[0]
	for _, check := range []func(api.SessionInfo) error{r.checkShell, r.checkLimits, r.checkPlace} {
		if err := check(info); err != nil {
			return info, err
		}
	}
	return info, nil
}

// list looks for the session that the user named. The list is answered by the daemon alone. The
// details of a session come from its runner, which may not answer in time.
func (r *run) list(ctx context.Context, c *client.Client) (api.SessionListResult, error) {
	return listSessions(ctx, c, api.SessionListParams{SessionIDs: []string{string(r.flags.session)}})
}

// makeNamed creates the named session, unless another trl was faster. A session cannot be used
// while it is being created, so the other trl wait for a lock.
func (r *run) makeNamed(ctx context.Context, c *client.Client) (api.SessionInfo, error) {
	create, err := r.app.likeOurs("", r.flags.shell)
	if err != nil {
		return api.SessionInfo{}, err
	}
	create.Name = string(r.flags.session)
	r.flags.limits.fill(&create)
	if r.app.url == "" {
		lock, err := lockDir(ctx, r.app.stateDir)
		switch {
		case err == nil:
			defer lock.Close()
		case ctx.Err() != nil:
			return api.SessionInfo{}, err
		} // The daemon may have another state directory; the loop below waits as well.
	}
	var pause ui.Backoff
	for {
		info, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: create.Name})
		if err == nil && info.State != api.SessionTerminated {
			return info.SessionInfo, nil
		}
		if !errors.Is(err, api.ErrConflict) {
			// A session for a command that cannot run would stay. No earlier command can create
			// the directory, so --wait makes no difference.
			if r.app.samePlace() {
				if _, err := directory(r.flags.cwd); err != nil {
					return api.SessionInfo{}, err
				}
			}
			if made, err := r.app.createSession(ctx, c, create); !errors.Is(err, api.ErrConflict) {
				return made, err
			}
		}
		// Another client, or one on another machine, is creating the session.
		if err := pause.Wait(ctx); err != nil {
			return api.SessionInfo{}, err
		}
	}
}

// checkLimits rejects limits for a session that already exists: it has its own.
func (r *run) checkLimits(api.SessionInfo) error {
	name := r.flags.limits.given()
	if name == "" {
		return nil
	}
	return ui.WithHint(fmt.Errorf("session %q: already exists; %s is only for a new one", r.flags.session, name),
		"leave out %s; `trl set` changes the limits of a session", name)
}

// checkPlace rejects a place that is not that of the existing session.
func (r *run) checkPlace(info api.SessionInfo) error {
	flag := ""
	for _, name := range []string{"on", "beside", "place", "isolate"} {
		if r.cmd.Flags().Changed(name) && flag == "" {
			flag = "--" + name
		}
	}
	if flag == "" || flag == "--on" && r.app.place.on == info.Runtime {
		return nil
	}
	return ui.WithHint(fmt.Errorf("session %q: already exists, in %s; %s is only for a new one", r.flags.session, info.Runtime, flag),
		"leave out %s, or take another session", flag)
}

// checkShell rejects a --shell that is not the shell of the existing session.
func (r *run) checkShell(info api.SessionInfo) error {
	if r.flags.shell == "" || filepath.Base(info.Shell) == filepath.Base(r.flags.shell) {
		return nil
	}
	return ui.WithHint(fmt.Errorf("session %q: has the shell %s, not %s", r.flags.session, info.Shell, r.flags.shell),
		"leave out --shell, or take another session")
}

// exec runs the command and returns its exit status as an error.
func (r *run) exec(ctx context.Context, c *client.Client, p api.ExecParams) error {
	run := r.stream
	if r.flags.json {
		run = r.result
	}
	err := run(ctx, c, p)
	if errors.Is(err, api.ErrSessionBusy) {
		return busyHint(err, p.SessionID)
	}
	return err
}

// suggest prints a hint for a command that probably needs a terminal or input. It does so when
// the command starts: without a terminal, some programs never end.
func (r *run) suggest() {
	if !r.app.Stderr.TTY {
		return
	}
	typed := term.IsTerminal(int(r.app.Stdin.Fd()))
	switch program, flag := words.Wanted(r.args); {
	case flag == "-t" && (typed || !r.flags.stdin): // with piped input, the program may not need a terminal
		r.app.Stderr.Line(r.app.Stderr.Paint(ui.Dim, "hint: "+program+" is made for a terminal: `trl run -t` gives it one"))
	case flag == "-i" && typed && !r.flags.stdin:
		r.app.Stderr.Line(r.app.Stderr.Paint(ui.Dim, "hint: "+program+" reads its input: `trl run -i` gives it yours"))
	}
}

func busyHint(err error, session string) error {
	return ui.WithHint(err, "`trl ps -s %s` shows what runs there; --wait waits for its end", session)
}

func (r *run) setTarget(t api.ExecCancelParams) {
	r.mu.Lock()
	r.target = t
	r.mu.Unlock()
	r.settled()
}
