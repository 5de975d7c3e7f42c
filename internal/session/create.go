package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Create creates a session and returns when its shell is idle, or its program runs. If that
// fails, or ctx ends first, nothing is left of the session. An ephemeral session ends with the
// connection that ctx carries.
func (r *Registry) Create(ctx context.Context, p api.SessionCreateParams) (api.SessionInfo, error) {
	h, beside, err := r.findHome(p)
	if err != nil {
		return api.SessionInfo{}, err
	}
	required, err := r.limit(&p)
	if err != nil {
		return api.SessionInfo{}, err
	}
	if err := r.isolate(&p); err != nil {
		return api.SessionInfo{}, err
	}
	if r.config.Pressure != nil {
		if err := r.config.Pressure(); err != nil {
			return api.SessionInfo{}, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := r.reserve(p, h, cancel)
	if err != nil {
		return api.SessionInfo{}, err
	}
	api.Named(ctx)
	defer r.creating.Done()
	if limit := r.createTimeout(p, h); limit > 0 {
		timer := time.AfterFunc(limit, func() { cancel(s.tooSlow(limit)) })
		defer timer.Stop()
	}
	if err := s.start(ctx, p, required, beside); err != nil {
		r.release(s, p.Name)
		err = startError(ctx, s, err)
		if s.mayHaveRun && errors.Is(err, api.ErrDaemonEnding) {
			err = errBegun
		}
		return api.SessionInfo{}, err
	}
	if !r.admit(s) {
		return api.SessionInfo{}, s.endedError()
	}
	if p.Ephemeral {
		s.setOwner(api.Conn(ctx))
	}
	info := s.Info()
	s.log.Info("session created", "name", info.Name, "kind", info.Kind, "shell", info.Shell)
	return info, nil
}

// reserve reserves a place and the name for a new session, or returns why it cannot. The caller
// must call creating.Done.
func (r *Registry) reserve(p api.SessionCreateParams, h home, cancel context.CancelCauseFunc) (*Session, error) {
	name := p.Name
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing != nil {
		return nil, r.closing
	}
	if err := r.fullLocked(); err != nil {
		return nil, err
	}
	if id, taken := r.names[name]; taken {
		return nil, api.Errorf(api.CodeConflict, "session name %q is taken by %s", name, id)
	}
	id := newID()
	for r.isKnownLocked(id) {
		id = newID()
	}
	if name != "" {
		r.names[name] = id
	}
	s := newSession(r, id, name, h)
	s.describeRequest(p)
	r.starting[id] = starting{s, cancel, make(chan struct{})}
	r.noteFreeLocked()
	r.creating.Add(1) // under mu and before closing is set, so that stopCreating waits for it
	return s, nil
}

// fullLocked is the error of a session beyond max_sessions, else nil.
func (r *Registry) fullLocked() error {
	n := r.countLocked()
	if n < r.config.MaxSessions {
		return nil
	}
	e := api.Errorf(api.CodeMaxSessionsReached, "%d sessions are live, which is the limit (max_sessions); end one, or raise the setting", n)
	e.Details = map[string]any{"max_sessions": r.config.MaxSessions}
	return e
}

// countLocked counts the sessions that live or are being created.
func (r *Registry) countLocked() int { return len(r.starting) + len(r.living) + len(r.guests) }

// starting is a session that is being created, and how to cancel that.
type starting struct {
	session *Session
	cancel  context.CancelCauseFunc
	over    chan struct{} // closed when the session was created, or was not
}

// describeRequest describes a session by its request until its runner reports.
func (s *Session) describeRequest(p api.SessionCreateParams) {
	now := time.Now().UTC()
	s.details.Kind, s.details.Command, s.details.Shell, s.details.WorkingDir, s.details.Tags = p.Kind, p.Command, p.Shell, p.WorkingDir, p.Tags
	s.details.CreatedAt, s.details.LastActivity = now, now
	if p.Kind == "" {
		s.details.Kind = api.KindShell
	}
}

func (r *Registry) isKnownLocked(id string) bool {
	_, begun := r.starting[id]
	return begun || r.living[id] != nil || r.past[id] != nil || r.guests[id] != nil
}

// startedLocked ends the creation of a session and wakes the callers of AwaitCreated.
func (r *Registry) startedLocked(s *Session) {
	if begun, ok := r.starting[s.id]; ok {
		delete(r.starting, s.id)
		close(begun.over)
	}
}

// AwaitCreated waits while the session with this id or name is being created.
func (r *Registry) AwaitCreated(ctx context.Context, ref string) error {
	for {
		r.mu.Lock()
		id, named := r.names[ref]
		if !named {
			id = ref
		}
		begun, ok := r.starting[id]
		r.mu.Unlock()
		if !ok {
			return nil
		}
		select {
		case <-begun.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// release releases the place and the name that reserve took.
func (r *Registry) release(s *Session, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startedLocked(s)
	if r.names[name] == s.id {
		delete(r.names, name)
	}
	r.noteFreeLocked()
}

// admit publishes a session that has started. It reports false if the session has ended
// meanwhile.
func (r *Registry) admit(s *Session) bool {
	r.mu.Lock()
	_, ok := r.starting[s.id]
	if ok {
		r.living[s.id] = s
		r.startedLocked(s)
	}
	r.mu.Unlock()
	if ok {
		s.mu.Lock()
		r.journal.PublishCreated(s.infoLocked(), s.settingsLocked(), s.firstExecs)
		s.firstExecs = nil
		s.requestExportLocked() // its program may already have ended
		s.mu.Unlock()
		at, _ := s.deadline()
		r.wakeBefore(at)
	}
	return ok
}

// start starts the runner and in it the session, in the place of another runner if beside is one.
func (s *Session) start(ctx context.Context, p api.SessionCreateParams, required []string, beside Runner) error {
	if p.Kind == "" {
		p.Kind = api.KindShell
	}
	s.chooseShell(&p)
	spec := Spec{
		About:  About{SessionID: s.id, Word: s.home.target.Word, Name: p.Name, Kind: p.Kind, Tags: p.Tags, CreatedAt: time.Now().UTC()},
		Target: s.home.target, Beside: beside, Progress: s.progress(p.CreateID),
	}
	p.Runtime, p.Place, p.Beside, p.CreateTimeoutS, p.CreateID = "", nil, "", nil, "" // the rest is for the runner
	spec.Params = p
	create := link.CreateParams{
		SessionID: s.id, Runtime: spec.Word, Params: p, CreatedAt: spec.CreatedAt, Limits: s.registry.config.Limits, Required: required,
	}
	if slices.Contains(p.Tags, api.TagDialogue) {
		create.Limits.OutputBytes = max(create.Limits.OutputBytes, s.registry.config.DialogueOutput)
		create.Limits.SessionOutput = max(create.Limits.SessionOutput, s.registry.config.DialogueOutput)
	}
	if p.Record {
		if err := s.registry.recordings.prepare(); err != nil {
			return err
		}
	}
	runner, err := s.home.runtime.Start(ctx, spec)
	if err != nil {
		return err
	}
	s.runner = runner
	place := runner.Place()
	s.mu.Lock()
	s.details.Place = placeOf(runner)
	s.mu.Unlock()
	create.BaseEnv, create.Limits.SpillDir, create.RecordDir = place.Env, place.SpillDir, place.RecordDir
	if beside == nil {
		create.Enforced = place.Enforces(p.Limits)
	}
	patience := helloTimeout
	if place.Info.Kind != api.PlaceHost {
		patience = farHelloTimeout
	} else if p.Isolation != nil {
		create.Secrets = s.registry.config.Secrets
	}
	hello, cancel := context.WithTimeout(ctx, patience)
	c, err := s.open(hello)
	cancel()
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			happens(s.runner.Done(), exitTimeout) // it broke the connection because it died
		}
		switch crash := s.giveUpCreation("could not be created"); {
		case crash.NoRoom:
			return api.Errorf(api.CodeResourcePressure, "its runner could not start: %s", crash.Cause)
		case crash.Cause != "":
			return api.Errorf(api.CodeRuntimeUnavailable, "its runner died: %s", crash.Cause)
		}
		return err
	}
	c.catchUp(s.publishExecEvent) // the runner has no command yet
	s.startWatching(c)
	if err := s.create(ctx, c, create); err != nil {
		s.giveUpCreation("could not be created")
		s.registry.recordings.discard(s.id)
		return err
	}
	return nil
}

// chooseShell completes the shell of a request. A place other than the host may not have the
// default_shell of the configuration, which is then only preferred.
func (s *Session) chooseShell(p *api.SessionCreateParams) {
	configured := s.registry.config.DefaultShell
	switch {
	case p.Shell != "" || p.Command != nil:
		p.PreferShell = ""
	case configured == "":
		p.Shell = api.DefaultShell
	case s.home.target.Kind == api.PlaceHost:
		p.Shell, p.PreferShell = configured, ""
	default:
		p.Shell, p.PreferShell = api.DefaultShell, configured
	}
}

func (s *Session) create(ctx context.Context, c *runnerConn, create link.CreateParams) error {
	// The runner enforces the timeout; this is for a runner that hangs.
	patience := time.Duration(create.Limits.ShellStartTimeout*float64(time.Second)) + helloTimeout
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer stop()
	shell := create.Params.Kind == api.KindShell
	// An agent has done nothing before its first message.
	s.mayHaveRun = !shell && !slices.Contains(create.Params.Tags, api.TagDialogue)
	var d link.SessionDetails
	if _, err := s.callWithin(ctx, forever, link.Create.With(&create, nil, &d)); err != nil {
		return err
	}
	var execs api.ExecListResult
	if !shell { // its command began before the session could be published
		if _, err := s.call(ctx, link.ExecList.With(&struct{}{}, nil, &execs)); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.described, s.firstExecs = true, execs.Execs
	s.applyDetailsLocked(d, s.reports)
	if s.details.CreatedAt.IsZero() {
		s.details.CreatedAt = create.CreatedAt
	}
	if s.details.LastActivity.IsZero() {
		s.details.LastActivity = s.details.CreatedAt
	}
	return s.beginLocked(!shell)
}

// errBegun is the error of a creation that the end of the daemon cancelled when the program may have
// begun. It is no ErrDaemonEnding: after that one, a client asks the next daemon, and the program would
// run twice.
var errBegun error = api.Errorf(api.CodeRuntimeUnavailable, "%s; the program may have begun", api.ErrDaemonEnding.Message)

// startError returns the error of a creation that failed: why it was cancelled, or the error of
// the runner or the runtime.
func startError(ctx context.Context, s *Session, err error) error {
	var given *api.Error
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &given) {
		return given // the daemon is shutting down
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return api.Errorf(api.CodeShellFailed, "session %q: the runner does not answer", s.Label())
	}
	e := api.AsError(err)
	prefix := "session "
	if e.Code == api.CodeInvalidParams || strings.HasPrefix(e.Message, prefix) {
		return e
	}
	code := e.Code
	if code == api.CodeInternal || code == api.CodeSessionTerminated {
		code = api.CodeRuntimeUnavailable // its runner could not be started, or died
	}
	return &api.Error{Code: code, Message: prefix + `"` + s.Label() + `": ` + e.Message, Details: e.Details}
}
