package trl

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/session"
)

// record describes a place to a later daemon. It has the names of files with secrets, but no secret.
type record struct {
	target
	// Daemon identifies the other daemon: another one at the same address does not have the session.
	Daemon string `json:"daemon"`
	OS     string `json:"os,omitempty"`
	Arch   string `json:"arch,omitempty"`
}

// site is another daemon, which has the runners of sessions.
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

// Info describes the place to callers.
func (s *site) Info() api.PlaceInfo {
	return api.PlaceInfo{Kind: api.PlaceTRL, Address: s.rec.Address, OS: s.rec.OS, Arch: s.rec.Arch}
}

// Remove does nothing: the other daemon is not removed.
func (s *site) Remove(context.Context) error { return nil }

// Start starts the guest. The other daemon reports the one that it already has.
func (s *site) Start(ctx context.Context, about session.About, beside string) (remote.Report, error) {
	c, release, err := s.peer.client(ctx)
	if err != nil {
		return remote.Report{}, err
	}
	defer release()
	p := api.GuestStartParams{
		OwnerID: s.driver.id, Owner: s.driver.host, DaemonID: s.rec.Daemon, SessionID: about.SessionID,
		Name: about.Name, Kind: about.Kind, Tags: about.Tags, Beside: beside,
	}
	if s.rec.OwnerLostS > 0 {
		p.OwnerLostS = &s.rec.OwnerLostS
	}
	if _, err := c.GuestStart(ctx, p); err != nil {
		return remote.Report{}, s.peer.explain(err)
	}
	// The other daemon knows the process; here it only says that there is one.
	return remote.Report{Dir: about.SessionID, PID: 1}, nil
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

// ended makes an error of a guest that does not exist any more one of package remote.
func (s *site) ended(err error) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case api.CodeSessionNotFound:
		return &remote.GoneError{Cause: "the daemon at " + s.rec.Address + " does not have it any more"}
	case api.CodeSessionTerminated:
		cause, _ := e.Details["cause"].(string)
		if cause == "" {
			cause = "it is gone"
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
