package trl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/session"
)

// record describes a place to a later daemon. It has the names of files with secrets, but no secret.
type record struct {
	target
	// Runtime is the word of a place of the other daemon; empty for its default.
	Runtime string `json:"runtime,omitempty"`
	// Daemon identifies the other daemon: another one at the same address does not have the session.
	Daemon string `json:"daemon"`
	OS     string `json:"os,omitempty"`
	Arch   string `json:"arch,omitempty"`
	// There is the place as the other daemon sees it; nil before the guest was started.
	There *api.PlaceInfo `json:"there,omitempty"`
	// Limits are the limits of the first session that its place there enforces.
	Limits []api.EnforcedLimit `json:"limits,omitempty"`
}

// site is another daemon, which has the runners of sessions. It does not change after Start has returned.
type site struct {
	driver *Driver
	peer   *peer
	rec    record
}

var _ remote.Keeper = (*site)(nil)

// ID identifies the other daemon: one daemon may have several addresses.
func (s *site) ID() string { return s.rec.Daemon }

// Record describes the place to a later daemon.
func (s *site) Record() json.RawMessage {
	text, _ := json.Marshal(s.rec) // strings and a number
	return text
}

// Info describes the place to callers: the other daemon, and there the container, machine or pod.
func (s *site) Info() api.PlaceInfo {
	info := api.PlaceInfo{OS: s.rec.OS, Arch: s.rec.Arch}
	if there := s.rec.There; there != nil {
		info = *there
		info.OS, info.Arch = cmp.Or(there.OS, s.rec.OS), cmp.Or(there.Arch, s.rec.Arch)
	}
	info.Kind, info.Address = api.PlaceTRL, s.rec.Address
	return info
}

// Remove does nothing: the other daemon is not removed.
func (s *site) Remove(context.Context) error { return nil }

// Limits returns the limits of the session that its place there enforces.
func (s *site) Limits() []api.EnforcedLimit { return s.rec.Limits }

// Start starts the guest. If the other daemon already has this guest, it reports that one.
func (s *site) Start(ctx context.Context, spec session.Spec) (remote.Report, error) {
	c, release, err := s.peer.client(ctx)
	if err != nil {
		return remote.Report{}, err
	}
	defer release()
	p := api.GuestStartParams{
		OwnerID: s.driver.id, Owner: s.driver.host, DaemonID: s.rec.Daemon, SessionID: spec.SessionID,
		Name: spec.Name, Kind: spec.Kind, Tags: spec.Tags,
	}
	if s.rec.OwnerLostS > 0 {
		p.OwnerLostS = &s.rec.OwnerLostS
	}
	if spec.Beside != nil {
		p.Beside = spec.Beside.About().SessionID
	} else {
		p.Runtime, p.Limits = s.rec.Runtime, spec.Params.Limits
	}
	if spec.Progress != nil && spec.Beside == nil { // beside another guest, no step is slow
		defer passSteps(ctx, c, spec.SessionID, spec.Progress)()
	}
	guest, err := c.GuestStart(ctx, p)
	if e := new(api.Error); p.Limits != nil && errors.As(err, &e) && e.Code == api.CodeInvalidParams && e.Details["field"] == "limits" {
		p.Limits = nil // an older daemon, which does not know limits: the runner reports what it enforces itself
		guest, err = c.GuestStart(ctx, p)
	}
	if err != nil {
		return remote.Report{}, s.refused(s.peer.explain(err))
	}
	if spec.Beside == nil {
		s.rec.There, s.rec.Limits = &guest.Place, guest.Limits
	}
	// The other daemon knows the process id; 1 only says that there is a process.
	return remote.Report{Dir: spec.SessionID, PID: 1}, nil
}

// refused turns an error about the place there into one about the option that names the place.
func (s *site) refused(err error) error {
	var e *api.Error
	if s.rec.Runtime == "" || !errors.As(err, &e) || e.Details["field"] != "runtime" {
		return err
	}
	refused := api.InvalidParam("place.runtime", "the daemon at %s: %s", s.rec.Address, strings.TrimPrefix(e.Message, "params.runtime: "))
	refused.Code = e.Code // FORBIDDEN, if its configuration forbids the place
	return refused
}

// passSteps passes the slow steps of a guest's start on, until the function that it returns is called.
func passSteps(ctx context.Context, c *client.Client, sessionID string, progress func(api.PlaceProgress)) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	events, err := c.EventSubscribe(ctx, api.EventSubscribeParams{Types: []string{api.EventSessionProgress}})
	if err != nil { // the start fails too, or works without
		cancel()
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer events.Close()
		for {
			e, err := events.Recv()
			if err != nil {
				return
			}
			if e.SessionID == sessionID && e.Progress != nil {
				progress(*e.Progress)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// Connect connects to the runner of a guest.
func (s *site) Connect(ctx context.Context, sessionID string) (io.ReadWriteCloser, error) {
	c, release, err := s.peer.client(ctx)
	if err != nil {
		return nil, s.peer.explain(err)
	}
	conn, err := connect(ctx, c, api.GuestConnectParams{OwnerID: s.driver.id, SessionID: sessionID, DaemonID: s.rec.Daemon}, release)
	if err != nil {
		release()
		return nil, s.ended(s.peer.explain(err))
	}
	return conn, nil
}

// ended turns the error of a guest that no longer exists into one of package remote.
func (s *site) ended(err error) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case api.CodeSessionNotFound:
		return &remote.GoneError{Cause: "the daemon at " + s.rec.Address + " no longer has it"}
	case api.CodeSessionTerminated:
		cause, _ := e.Details["cause"].(string)
		if cause == "" {
			cause = "it no longer exists"
		}
		if e.Details["by"] != nil {
			return &remote.EndedError{Cause: cause}
		}
		return &remote.GoneError{Cause: cause}
	}
	return err
}

// End ends a guest.
func (s *site) End(ctx context.Context, sessionID string) (link.Removed, error) {
	c, release, err := s.peer.client(ctx)
	if err != nil {
		return link.Removed{}, s.peer.explain(err)
	}
	defer release()
	r, err := c.GuestEnd(ctx, api.GuestEndParams{OwnerID: s.driver.id, SessionID: sessionID, DaemonID: s.rec.Daemon})
	if err != nil {
		return link.Removed{}, s.peer.explain(err)
	}
	return link.Removed{Cause: r.Cause, NoRoom: r.NoRoom, Killed: r.Killed}, nil
}
