package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/trl-dev/trl/api"
)

// switchHTTP turns HTTP on or off while the daemon runs, or only reports. The choice stays over an
// upgrade, not over a restart, at which the configuration counts again.
func (d *daemon) switchHTTP(_ context.Context, p api.SystemHTTPParams) (api.SystemHTTPResult, error) {
	d.switching.Lock()
	defer d.switching.Unlock()
	var err error
	switch {
	case p.On == nil:
	case *p.On:
		err = d.turnHTTPOn(p.Address)
	default:
		err = d.turnHTTPOff()
	}
	if err != nil {
		return api.SystemHTTPResult{}, err
	}
	r := api.SystemHTTPResult{Configured: d.configured(httpFront)}
	r.URL, _ = d.frontURLs()
	if r.On = r.URL != ""; r.On {
		r.TokenFile = d.tokenFile()
	}
	return r, nil
}

// turnHTTPOn makes the front and serves it, unless the daemon has it at that address already.
// switching is held.
func (d *daemon) turnHTTPOn(address string) error {
	if f := d.httpNow(); f != nil {
		if address == "" || fits(f.listener.Addr(), address) {
			return nil
		}
		return api.Errorf(api.CodeConflict, "http: is already on at %s; turn it off first", f.url())
	}
	release, err := d.registry.Hold() // a daemon that others can call does not exit on its own
	if err != nil {
		return err
	}
	f, err := d.listenFront(httpFront, cmp.Or(address, d.configured(httpFront), api.DefaultHTTP), 0)
	if err != nil {
		release()
		code := api.CodeInvalidParams
		if errors.Is(err, syscall.EADDRINUSE) {
			code = api.CodeConflict
		}
		return api.Errorf(code, "%s", err)
	}
	f.release = release
	if err = d.openTokens(); err == nil {
		err = d.startFront(f)
	}
	if err != nil {
		release()
		f.listener.Close()
		return api.Errorf(api.CodeConflict, "http: %s", err)
	}
	d.frontsMu.Lock()
	final := d.frontsFinal
	if !final {
		d.fronts = append(d.fronts, f)
		d.chosen[f.name] = f.listener.Addr().String()
		if address == "" && d.configured(httpFront) != "" {
			delete(d.chosen, f.name) // as the configuration says
		}
	}
	d.frontsMu.Unlock()
	if final {
		d.endHTTP(f)
		return api.ErrDaemonEnding
	}
	f.server.Ready()
	d.log.Info("http turned on", "http", f.url())
	return nil
}

// turnHTTPOff ends the front and its connections, if the daemon has it. switching is held.
func (d *daemon) turnHTTPOff() error {
	f := d.httpNow()
	d.frontsMu.Lock()
	if d.frontsFinal {
		d.frontsMu.Unlock()
		return api.ErrDaemonEnding
	}
	d.fronts = slices.DeleteFunc(d.fronts, func(other *front) bool { return other == f })
	delete(d.chosen, httpFront.name)
	if d.configured(httpFront) != "" {
		d.chosen[httpFront.name] = ""
	}
	d.frontsMu.Unlock()
	if f != nil {
		d.endHTTP(f)
		d.log.Info("http turned off", "http", f.url())
	}
	return nil
}

// httpNow returns the front that serves HTTP, nil for none.
func (d *daemon) httpNow() *front {
	d.frontsMu.Lock()
	defer d.frontsMu.Unlock()
	if i := d.findFront(httpFront.name); i >= 0 {
		return d.fronts[i]
	}
	return nil
}

// endHTTP ends the front while the daemon goes on. The caller's time does not limit it: a front is
// on or off, not something between.
func (d *daemon) endHTTP(f *front) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	f.server.Stop()
	if err := f.server.(httpServer).Close(ctx); err != nil {
		d.log.Warn("clients did not read their last answers", "error", err)
	}
	<-f.ended
	if f.release != nil {
		f.release()
	}
}
