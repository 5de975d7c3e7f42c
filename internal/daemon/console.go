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
		Vouches: func(digest string) bool { return d.tokens != nil && d.tokens.Holds(digest) },
	})
	return err
}

// Open turns HTTP on if it is off, and makes a code. If the usual port is taken, another one does:
// the caller gets the whole address.
func (c console) Open(ctx context.Context, p api.WebOpenParams) (api.WebOpenResult, error) {
	on := true
	r, err := c.d.switchHTTP(ctx, api.SystemHTTPParams{On: &on})
	if errors.Is(err, api.ErrConflict) && c.d.configured(httpFront) == "" {
		r, err = c.d.switchHTTP(ctx, api.SystemHTTPParams{On: &on, Address: "127.0.0.1:0"})
	}
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
	return api.WebOpenResult{URL: c.d.browserURL(r.URL) + "/#/login/" + code, ExpiresAt: expires.UTC()}, nil
}

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
