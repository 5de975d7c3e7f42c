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
	end    func()
}

// while calls end, in its own goroutine, when the token is no longer valid. The returned function stops
// that, and reports whether end was not called.
func (t *Tokens) while(token string, end func()) (stop func() bool) {
	digest := sha256.Sum256([]byte(token))
	return t.whileDigest(hex.EncodeToString(digest[:]), end)
}

// whileDigest is while for the token with this digest.
func (t *Tokens) whileDigest(digest string, end func()) (stop func() bool) {
	if t.path == "" { // the others are valid as long as the daemon runs
		return func() bool { return true }
	}
	u := &tokenUse{digest, end}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.uses[u] = struct{}{}; len(t.uses) == 1 {
		t.timer = time.AfterFunc(t.look, t.endUses)
	}
	return func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		_, open := t.uses[u]
		if delete(t.uses, u); open && len(t.uses) == 0 {
			t.timer.Stop()
		}
		return open
	}
}

// endUses ends what uses a token that is no longer valid.
func (t *Tokens) endUses() {
	t.mu.Lock()
	defer t.mu.Unlock()
	file := t.currentLocked()
	for u := range t.uses {
		if !holds(u.digest, t.given, file) {
			delete(t.uses, u)
			go u.end()
		}
	}
	if len(t.uses) > 0 {
		t.timer = time.AfterFunc(t.look, t.endUses)
	}
}
