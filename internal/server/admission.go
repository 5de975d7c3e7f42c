package server

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/trl-dev/trl/api"
)

// admission decides for one connection whether a request may reach the Service: the scope of the
// caller's token must cover the method, and the daemon must not be about to exit. It is safe for
// concurrent use.
type admission struct {
	conn context.Context // the lifetime of the connection
	hold func() (release func(), err error)

	mu   sync.Mutex
	held bool // guarded by mu; the connection keeps the daemon alive
}

func (s *Server) newAdmission(conn context.Context) *admission {
	return &admission{conn: conn, hold: s.cfg.Hold}
}

// admit returns an error if a caller of this scope may not call the method with these parameters,
// or if the daemon is about to exit. The first admitted request keeps the daemon alive until the
// connection ends. The connection alone does not: a monitor that only connects must not keep an
// idle daemon from exiting.
//
// A caller that may see only one thing gets other parameters for some methods: see share.
func (a *admission) admit(scope Scope, only *share, m api.Method, params json.RawMessage) (json.RawMessage, *api.Error) {
	if cause := a.allow(scope, m, params); cause != nil {
		return nil, cause
	}
	if only != nil {
		var cause *api.Error
		if params, cause = only.pin(m, params); cause != nil {
			return nil, cause
		}
	}
	return params, a.holdDaemon()
}

func (a *admission) allow(scope Scope, m api.Method, params json.RawMessage) *api.Error {
	if m.Access == api.AccessLocal && !scope.covers(scopeLocal) {
		return api.Errorf(api.CodeForbidden, "method %q: only for callers on the daemon's socket or on stdio", m.Name)
	}
	if !scope.covers(ScopeFull) && m.Changes(params) {
		return api.Errorf(api.CodeForbidden, "method %q: needs a token of scope %s, this one has %s", m.Name, ScopeFull, scope)
	}
	return nil
}

func (a *admission) holdDaemon() *api.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held || a.hold == nil {
		return nil
	}
	release, err := a.hold()
	if err != nil {
		return api.AsError(err)
	}
	a.held = true
	context.AfterFunc(a.conn, release)
	return nil
}
