package daemon

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/login"
)

// console is the page for browsers.
type console struct{ d *daemon }

// openLogins reads which browsers are logged in.
func (d *daemon) openLogins() (err error) {
	d.logins, err = login.Open(login.Config{
		Path: filepath.Join(d.state.Path(), "web.json"), Logger: d.log,
		Vouches: func(digest string) bool {
			tokens := d.tokens.Load()
			return tokens == nil || tokens.Holds(digest) // without tokens nothing is served that a share could reach
		},
	})
	return err
}

// Open turns HTTP on if it is off, and makes a code. If the usual port is taken, another one does:
// the caller gets the whole address.
func (c console) Open(ctx context.Context, p api.WebOpenParams) (api.WebOpenResult, error) {
	base, err := c.base(ctx)
	if err != nil {
		return api.WebOpenResult{}, err
	}
	scope, valid := p.Scope, api.DefaultWebExpiryS*time.Second
	if scope == "" {
		scope = string(api.AccessFull)
	}
	if p.ExpiresS != nil {
		valid = time.Duration(*p.ExpiresS * float64(time.Second))
	}
	code, expires := c.d.logins.Mint(scope, valid)
	return api.WebOpenResult{URL: base + "/#/login/" + code, ExpiresAt: expires.UTC()}, nil
}

// base turns HTTP on if it is off, and returns the base of URLs for a browser on this machine.
func (c console) base(ctx context.Context) (string, error) {
	on := true
	r, err := c.d.switchHTTP(ctx, api.SystemHTTPParams{On: &on})
	if errors.Is(err, api.ErrConflict) && c.d.configured(httpFront) == "" {
		r, err = c.d.switchHTTP(ctx, api.SystemHTTPParams{On: &on, Address: "127.0.0.1:0"})
	}
	return c.d.browserURL(r.URL), err
}

// shareBase is base for a caller on the socket or on stdio. Other callers cannot turn HTTP on.
func (c console) shareBase(ctx context.Context) (string, error) {
	by := api.CallerOf(ctx)
	if by == nil || by.Transport == "socket" || by.Transport == "stdio" {
		return c.base(ctx)
	}
	f := c.d.httpNow()
	if f == nil {
		return "", api.Errorf(api.CodeConflict, "share: HTTP is off, and only a caller on the daemon's socket or on stdio can turn it on")
	}
	return c.d.browserURL(f.url()), nil
}

// Share makes a code for viewers.
func (c console) Share(ctx context.Context, p api.WebShareParams) (api.WebShareResult, error) {
	base, err := c.shareBase(ctx)
	if err != nil {
		return api.WebShareResult{}, err
	}
	valid, viewers, to := api.DefaultShareExpiryS*time.Second, api.DefaultShareViewers, "/s/"+p.SessionID
	if p.ExpiresS != nil {
		valid = time.Duration(*p.ExpiresS * float64(time.Second))
	}
	if p.Viewers > 0 {
		viewers = p.Viewers
	}
	if p.DialogueID != "" {
		to = "/d/" + p.DialogueID
	}
	share, code, err := c.d.logins.Share(login.Sharing{Only: login.Only{SessionID: p.SessionID, DialogueID: p.DialogueID}, Viewers: viewers, Valid: valid, By: api.CallerOf(ctx)})
	switch {
	case errors.Is(err, login.ErrShares):
		err = api.Errorf(api.CodeResourcePressure, "share: %s", err)
	case errors.Is(err, login.ErrOver):
		err = api.Errorf(api.CodeForbidden, "share: %s", err)
	}
	return api.WebShareResult{WebShare: share, URL: base + "/#/login/" + code + "?to=" + to}, err
}

// Shares returns the valid shares.
func (c console) Shares() []api.WebShare { return c.d.logins.Shares() }

// browserURL returns the base of URLs for a browser on this machine: a front on all interfaces is
// also on the loopback.
func (d *daemon) browserURL(base string) string {
	f := d.httpNow()
	if f == nil {
		return base
	}
	at, ok := f.listener.Addr().(*net.TCPAddr)
	if !ok || !at.IP.IsUnspecified() {
		return base
	}
	scheme := "http://"
	if f.secure {
		scheme = "https://"
	}
	return scheme + (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at.Port}).String()
}

// Logins returns the browsers that are logged in.
func (c console) Logins() []api.WebLogin { return c.d.logins.List() }

// Revoke logs one browser out, or all.
func (c console) Revoke(id string) ([]string, error) { return c.d.logins.Revoke(id) }
