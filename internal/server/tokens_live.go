package server

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/trl-dev/trl/api"
)

// errTokenOver ends the connections of a token that is no longer valid.
var errTokenOver = api.Errorf(api.CodeAuthFailed, "token: is no longer valid")

// tokenLook is how often the tokens of open connections are looked at.
const tokenLook = 5 * time.Second

// tokenUse is a connection or a request of a token.
type tokenUse struct {
	digest string
	scope  Scope
	missed bool // the last look did not find the token
	end    func()
}

// while calls end, in its own goroutine, when the token no longer has this scope. The returned function
// stops that, and reports whether end was not called.
func (t *Tokens) while(token string, scope Scope, end func()) (stop func() bool) {
	digest := sha256.Sum256([]byte(token))
	return t.whileDigest(hex.EncodeToString(digest[:]), scope, end)
}

// whileDigest is while for the token with this digest.
func (t *Tokens) whileDigest(digest string, scope Scope, end func()) (stop func() bool) {
	if t.path == "" { // the others are valid as long as the daemon runs
		return func() bool { return true }
	}
	u := &tokenUse{digest: digest, scope: scope, end: end}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.uses[u] = struct{}{}; t.timer == nil {
		t.timer = time.AfterFunc(t.look, t.endUses)
	}
	return func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		_, open := t.uses[u]
		delete(t.uses, u)
		return open
	}
}

// endUses ends the uses of tokens that two looks did not find: an editor may empty the file before it
// writes it.
func (t *Tokens) endUses() {
	t.mu.Lock()
	defer t.mu.Unlock()
	file := t.currentLocked()
	for u := range t.uses {
		switch holds := scopeIn(u.digest, t.given, file).covers(u.scope); {
		case holds:
			u.missed = false
		case u.missed:
			delete(t.uses, u)
			go u.end()
		default:
			u.missed = true
		}
	}
	if t.timer = nil; len(t.uses) > 0 {
		t.timer = time.AfterFunc(t.look, t.endUses)
	}
}
