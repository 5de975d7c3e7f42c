package login

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
)

// MaxShares is how many shares there may be.
const MaxShares = 64

// Errors of Share and Redeem.
var (
	ErrShares  = errors.New("there are too many shares; revoke one")
	ErrViewers = errors.New("the share has as many viewers as it allows")
)

// Only is the one thing that the login of a share may see: a session or a dialogue.
type Only struct {
	SessionID  string `json:"session_id,omitempty"`
	DialogueID string `json:"dialogue_id,omitempty"`
}

// share is a code that is valid until it expires, for a bounded number of browsers at once.
type share struct {
	api.WebShare
	Code string `json:"code_sha256"`
	// Token is the digest of the token of the caller that made the share, or its beginning; empty for none.
	Token string `json:"token_sha256,omitempty"`
}

// stored is the content of the file.
type stored struct {
	Logins []*entry `json:"logins"`
	Shares []*share `json:"shares"`
}

// decode reads the content of the file. That of an earlier version is a list of logins.
func (s *Store) decode(text []byte) error {
	var all stored
	var err error
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		err = json.Unmarshal(text, &all.Logins)
	} else {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return err
	}
	s.shares = slices.DeleteFunc(all.Shares, func(h *share) bool {
		return h == nil || h.ShareID == "" || len(h.Code) != 2*len(digest{}) || (h.SessionID == "") == (h.DialogueID == "")
	})
	s.shares = s.shares[:min(len(s.shares), MaxShares)]
	// The login of a share that is not there must not become one of everything.
	s.logins = slices.DeleteFunc(all.Logins, func(e *entry) bool {
		return e == nil || e.LoginID == "" || (e.ShareID != "") != (e.Only != nil) || e.ShareID != "" && s.findShareLocked(e.ShareID) == nil
	})
	s.logins = s.logins[:min(len(s.logins), MaxLogins+MaxShares*api.MaxShareViewers)]
	for _, e := range s.logins {
		e.ctx, e.cancel = context.WithCancelCause(context.Background())
	}
	for _, h := range s.shares {
		s.sweepAt(h.ExpiresAt)
	}
	return nil
}

// sweepAt ends what has expired at a time, so that open pages lose their connections then. It looks
// at the clock every minute, because a timer stands still while the machine sleeps.
func (s *Store) sweepAt(at time.Time) {
	wait := max(0, at.Sub(s.cfg.Now())) + time.Millisecond
	time.AfterFunc(min(wait, time.Minute), func() {
		if s.cfg.Now().Before(at) {
			s.sweepAt(at)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sweepLocked(s.cfg.Now())
	})
}

// Sharing says what a new share shows, to whom, and for how long.
type Sharing struct {
	Only    Only
	Viewers int           // how many browsers may be logged in at once
	Valid   time.Duration // until it expires
	// By is the caller that makes the share; nil for the daemon's own user. If the caller has a token,
	// or a login for which a token was exchanged, the share ends when that token is removed. It does
	// not end when the caller logs out.
	By *api.Caller
}

// Share makes a code with which several browsers can watch one thing.
func (s *Store) Share(n Sharing) (api.WebShare, string, error) {
	text, d := secret(16)
	_, id := secret(16)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	s.sweepLocked(now)
	token, err := s.tokenLocked(n.By)
	if err != nil {
		return api.WebShare{}, "", err
	}
	if len(s.shares) >= MaxShares {
		return api.WebShare{}, "", ErrShares
	}
	h := &share{WebShare: api.WebShare{
		ShareID: "h-" + id.String()[:10], SessionID: n.Only.SessionID, DialogueID: n.Only.DialogueID, Viewers: n.Viewers,
		CreatedAt: now.UTC().Truncate(time.Second), ExpiresAt: now.Add(n.Valid).UTC(),
	}, Code: d.String(), Token: token}
	s.shares = append(s.shares, h)
	if err := s.saveLocked(); err != nil {
		s.shares = s.shares[:len(s.shares)-1]
		return api.WebShare{}, "", err
	}
	s.sweepAt(h.ExpiresAt)
	return h.WebShare, text, nil
}

// tokenLocked returns the digest of the token with which a caller calls, or its beginning; empty for
// none. The login of a share cannot make another one.
func (s *Store) tokenLocked(by *api.Caller) (string, error) {
	if by == nil {
		return "", nil
	}
	if by.LoginID == "" {
		return by.Token, nil
	}
	for _, e := range s.logins {
		if e.LoginID == by.LoginID && e.ShareID == "" {
			return e.Token, nil
		}
	}
	return "", ErrOver
}

// validLocked reports whether a share has not ended yet.
func (s *Store) validLocked(h *share, now time.Time) bool {
	return now.Before(h.ExpiresAt) && s.vouches(h.Token)
}

// shareLocked returns the share with this code, nil for none.
func (s *Store) shareLocked(d digest, now time.Time) *share {
	var found *share
	text := []byte(d.String())
	for _, h := range s.shares { // all of them, so that the time says nothing
		if subtle.ConstantTimeCompare(text, []byte(h.Code)) == 1 && s.validLocked(h, now) {
			found = h
		}
	}
	return found
}

func (s *Store) findShareLocked(id string) *share {
	for _, h := range s.shares {
		if h.ShareID == id {
			return h
		}
	}
	return nil
}

// joinLocked logs a viewer in.
func (s *Store) joinLocked(h *share, by Browser, now time.Time) (Granted, error) {
	s.sweepLocked(now)
	viewers := 0
	for _, e := range s.logins {
		if e.ShareID == h.ShareID {
			viewers++
		}
	}
	if viewers >= h.Viewers {
		return Granted{}, ErrViewers
	}
	return s.grantLocked(string(api.AccessRead), h.Token, h, by, now)
}

// Joins reports whether a code is that of a share which the login needs not join: the login may see
// everything, or has joined it already.
func (s *Store) Joins(l Login, text string) bool {
	d := digestOf(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.shareLocked(d, s.cfg.Now())
	return h != nil && (l.Only == nil || l.ShareID == h.ShareID)
}

// Shares returns the valid shares, the oldest first.
func (s *Store) Shares() []api.WebShare {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(s.cfg.Now())
	list := make([]api.WebShare, len(s.shares))
	for i, h := range s.shares {
		list[i] = h.WebShare
	}
	return list
}

// HasShare reports whether a share is valid.
func (s *Store) HasShare(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.findShareLocked(id)
	return h != nil && s.validLocked(h, s.cfg.Now())
}

// sweepSharesLocked ends the shares that are no longer valid, and the logins of shares that have ended.
func (s *Store) sweepSharesLocked(now time.Time) {
	s.endSharesLocked(func(h *share) bool { return !s.validLocked(h, now) })
	s.endLocked(func(e *entry) bool { return e.ShareID != "" && s.findShareLocked(e.ShareID) == nil })
}

// endSharesLocked ends the shares for which over is true, and returns their ids.
func (s *Store) endSharesLocked(over func(*share) bool) []string {
	ended := []string{}
	s.shares = slices.DeleteFunc(s.shares, func(h *share) bool {
		if !over(h) {
			return false
		}
		ended = append(ended, h.ShareID)
		return true
	})
	return ended
}
