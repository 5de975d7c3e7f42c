package trl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/session"
)

// Config configures a Driver.
type Config struct {
	// DaemonID identifies this daemon, also after its restart.
	DaemonID string
}

// Driver makes sessions on other daemons. It is safe for concurrent use.
//
// Goroutines: those of package client; Close ends them.
type Driver struct {
	id   string
	host string // the name of this machine, for people

	mu     sync.Mutex
	closed bool             // guarded by mu
	peers  map[target]*peer // guarded by mu; the other daemons that were asked since the start
}

var _ remote.Driver = (*Driver)(nil)

// New makes a Driver.
func New(c Config) *Driver {
	host, _ := os.Hostname()
	return &Driver{id: c.DaemonID, host: host, peers: map[target]*peer{}}
}

// target says how another daemon is reached. It is part of the records of sessions.
type target struct {
	Address    string  `json:"address"`
	TokenFile  string  `json:"token_file,omitempty"`
	CAFile     string  `json:"ca_file,omitempty"`
	CertFile   string  `json:"cert_file,omitempty"`
	KeyFile    string  `json:"key_file,omitempty"`
	ServerName string  `json:"server_name,omitempty"`
	OwnerLostS float64 `json:"owner_lost_s,omitempty"`
}

func targetOf(o api.PlaceOptions) target {
	return target{
		Address: o.Address, TokenFile: o.TokenFile, CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile, ServerName: o.ServerName,
		OwnerLostS: o.OwnerLostS,
	}
}

// Name returns "trl".
func (d *Driver) Name() string { return "trl" }

// Kinds returns the one kind of places on other daemons.
func (d *Driver) Kinds() []api.PlaceKind { return []api.PlaceKind{api.PlaceTRL} }

// peerOf returns the other daemon at a target.
func (d *Driver) peerOf(t target) *peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.peers[t]
	if p == nil {
		p = &peer{target: t}
		d.peers[t] = p
	}
	return p
}

// Close closes the connections.
func (d *Driver) Close() {
	d.mu.Lock()
	d.closed = true
	peers := d.peers
	d.mu.Unlock()
	for _, p := range peers {
		p.close()
	}
}

// look asks another daemon what it is, and whether it has guests of this one.
func (d *Driver) look(ctx context.Context, p *peer) (api.GuestListResult, error) {
	c, release, err := p.client(ctx)
	if err != nil {
		return api.GuestListResult{}, err
	}
	defer release()
	list, err := c.GuestList(ctx, api.GuestListParams{OwnerID: d.id})
	if err == nil && list.DaemonID == d.id {
		err = api.Errorf(api.CodeConflict, "daemon at %s: is this daemon itself; use the place host", p.target.Address)
	}
	return list, p.explain(err)
}

// Check asks the other daemon, also about the place there if one is named.
func (d *Driver) Check(ctx context.Context, t session.Target) api.RuntimeCheckResult {
	r := api.RuntimeCheckResult{Runtime: t.Word, Kind: api.PlaceTRL, Enforced: []string{}}
	p := d.peerOf(targetOf(t.Options))
	list, err := d.look(ctx, p)
	if err == nil { // the first question made the connection
		began := time.Now()
		list, err = d.look(ctx, p)
		r.LatencyMS = float64(time.Since(began).Microseconds()) / 1000
	}
	if err != nil {
		r.Why = err.Error()
		return r
	}
	r.Reachable, r.OS, r.Arch, r.Engine, r.Enforced = true, list.OS, list.Arch, "trl "+list.Version, list.Enforced
	if word := t.Options.Runtime; word != "" {
		there, err := p.checkPlace(ctx, word)
		if err != nil {
			there.Why = strings.TrimPrefix(err.Error(), "params.runtime: ")
		}
		if r.Reachable = there.Reachable; !r.Reachable {
			r.Why = fmt.Sprintf("the daemon at %s: %s", p.target.Address, there.Why)
			return r
		}
		r.OS, r.Arch, r.Enforced = there.OS, there.Arch, there.Enforced
		if there.Engine != "" {
			r.Engine += ", " + there.Engine
		}
	}
	return r
}

// checkPlace asks the other daemon whether sessions can be created in a place of its own.
func (p *peer) checkPlace(ctx context.Context, word string) (api.RuntimeCheckResult, error) {
	c, release, err := p.client(ctx)
	if err != nil {
		return api.RuntimeCheckResult{}, err
	}
	defer release()
	r, err := c.RuntimeCheck(ctx, api.RuntimeCheckParams{Runtime: word})
	return r, p.explain(err)
}

// Open asks the other daemon whether it takes guests. It makes nothing there.
func (d *Driver) Open(ctx context.Context, o remote.Opening) (remote.Site, error) {
	t := targetOf(o.Target.Options)
	p := d.peerOf(t)
	list, err := d.look(ctx, p)
	if err != nil {
		return nil, err
	}
	p.use()
	return &site{driver: d, peer: p, rec: record{target: t, Runtime: o.Target.Options.Runtime, Daemon: list.DaemonID, OS: list.OS, Arch: list.Arch}}, nil
}

// Restore returns the place of a record.
func (d *Driver) Restore(text json.RawMessage) (remote.Site, error) {
	s := &site{driver: d}
	if err := json.Unmarshal(text, &s.rec); err != nil {
		return nil, err
	}
	if s.rec.Address == "" || s.rec.Daemon == "" {
		return nil, errors.New("the record of the place names no daemon")
	}
	s.peer = d.peerOf(s.rec.target)
	s.peer.use()
	return s, nil
}

// Sweep ends the guests of this daemon that belong to no session, on the daemons that have or had sessions
// since the start.
func (d *Driver) Sweep(ctx context.Context, daemon string, keep func(sessionID string) bool) ([]string, error) {
	d.mu.Lock()
	var peers []*peer
	for _, p := range d.peers {
		if p.isUsed() {
			peers = append(peers, p)
		}
	}
	d.mu.Unlock()
	var removed []string
	var faults []error
	for _, p := range peers {
		list, err := d.look(ctx, p)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for _, g := range list.Guests {
			if keep(g.SessionID) {
				continue
			}
			s := &site{driver: d, peer: p, rec: record{target: p.target, Daemon: list.DaemonID}}
			if _, err := s.End(ctx, g.SessionID); err != nil {
				faults = append(faults, err)
				continue
			}
			removed = append(removed, fmt.Sprintf("session %s on %s", g.SessionID, p.target.Address))
		}
	}
	return removed, errors.Join(faults...)
}

// peer is another daemon. Its connection is shared by all sessions there.
type peer struct {
	target target

	mu      sync.Mutex
	current *shared // guarded by mu; nil before the first use and after a failure
	closed  bool    // guarded by mu
	used    bool    // guarded by mu; sessions of this daemon are or were there
}

func (p *peer) use() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = true
}

func (p *peer) isUsed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// shared is a client with its users.
type shared struct {
	client *client.Client
	token  string
	users  int  // guarded by peer.mu
	stale  bool // guarded by peer.mu; the last user closes it
}

// client returns a client of the other daemon. The caller must call release when it does not use it any
// more. The token is read each time, and the certificates after every failure.
func (p *peer) client(ctx context.Context) (c *client.Client, release func(), err error) {
	t := p.target
	o := client.GRPCOptions{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName}
	if t.TokenFile != "" {
		if o.Token, err = client.ReadToken(t.TokenFile); err != nil {
			return nil, nil, err
		}
	}
	p.mu.Lock()
	s, closed := p.current, p.closed
	renewed := s != nil && s.token != o.Token
	if s != nil && !renewed {
		s.users++
	}
	p.mu.Unlock()
	if closed {
		return nil, nil, api.ErrDaemonEnding
	}
	if renewed {
		p.drop()
		s = nil
	}
	if s == nil {
		if c, err = client.DialGRPC(ctx, t.Address, o); err != nil {
			return nil, nil, err
		}
		c.ReconnectFor = 0 // the session tries again itself
		s = &shared{client: c, token: o.Token, users: 1}
		p.mu.Lock()
		switch {
		case p.closed:
			s.stale = true
		case p.current == nil:
			p.current = s
		default: // another caller was faster, and its connection has users
			s.stale = true
		}
		p.mu.Unlock()
	}
	var once sync.Once
	return s.client, func() { once.Do(func() { p.release(s) }) }, nil
}

func (p *peer) release(s *shared) {
	p.mu.Lock()
	s.users--
	last := s.stale && s.users == 0
	p.mu.Unlock()
	if last {
		_ = s.client.Close()
	}
}

// drop makes the next caller connect again, with the credentials as they are then.
func (p *peer) drop() {
	p.mu.Lock()
	s := p.current
	p.current = nil
	last := false
	if s != nil {
		s.stale = true
		last = s.users == 0
	}
	p.mu.Unlock()
	if last {
		_ = s.client.Close()
	}
}

func (p *peer) close() {
	p.mu.Lock()
	p.closed = true
	s := p.current
	p.mu.Unlock()
	if s != nil {
		_ = s.client.Close() // also under its users: the daemon ends
	}
}

// explain completes an error of the other daemon, and forgets a connection that does not work.
func (p *peer) explain(err error) error {
	var e *api.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e):
		return err
	case e.Code == api.CodeMethodNotFound:
		return api.Errorf(api.CodeRuntimeUnavailable, "daemon at %s: its version is too old to run sessions of other daemons; upgrade it", p.target.Address)
	case e.Code == api.CodeRuntimeUnavailable, e.Code == api.CodeAuthFailed, e.Code == api.CodeForbidden:
		p.drop()
	}
	return err
}
