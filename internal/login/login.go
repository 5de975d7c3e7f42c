// Package login knows which browsers may use the console. A one-time code becomes a login: a secret
// in a cookie and a key in the page's storage, of which every request needs both. The cookie of a
// local address reaches every other port of the machine, and the key does not; a script that reads
// the key has no cookie. Both are kept as digests, in a file that outlives the daemon.
package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
)

// Bounds of the codes, logins and tickets.
const (
	MaxCodes   = 32
	MaxLogins  = 64
	MaxTickets = 256

	// Lifetime is how long a login is valid at most, Idle how long if it is not used.
	Lifetime = 30 * 24 * time.Hour
	Idle     = 7 * 24 * time.Hour
	// ticketTime is how long a ticket is valid.
	ticketTime = 30 * time.Second
	// noteEvery is how precisely the last use is kept.
	noteEvery = time.Minute
)

// Errors of Redeem and Check.
var (
	ErrCode    = errors.New("the code is wrong, was used before, or has expired")
	ErrTooMany = errors.New("too many wrong codes; try again in a minute")
	ErrOver    = errors.New("the login is over")
)

// Config configures a Store.
type Config struct {
	Path   string           // of the file
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil discards
	// Vouches reports whether the token with this digest, or whose digest begins so, is still valid. Nil: no token is.
	Vouches func(digest string) bool
}

// Store keeps codes, logins and tickets. It is safe for concurrent use.
type Store struct {
	cfg Config

	mu      sync.Mutex
	shares  []*share // guarded by mu; the oldest first
	codes   []code   // guarded by mu; the oldest first
	logins  []*entry // guarded by mu; the oldest first
	tickets []ticket // guarded by mu; the oldest first
	wrong   wrong    // guarded by mu
}

type digest [sha256.Size]byte

type code struct {
	digest  digest
	scope   string
	expires time.Time
}

type ticket struct {
	digest         digest
	login          string
	path, filename string
	expires        time.Time
}

// entry is a login, as the file keeps it.
type entry struct {
	api.WebLogin
	Cookie string `json:"cookie_sha256"`
	Key    string `json:"key_sha256"`
	// Token is the digest of the token that was exchanged for the login, or that of its share; empty for a code.
	Token string `json:"token_sha256,omitempty"`

	// Only is what the login may see, if it is one of a share.
	Only *Only `json:"only,omitempty"`

	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Login is what a request with a valid cookie and key may do.
type Login struct {
	ID        string
	ShareID   string // the share that it is of; empty for none
	Scope     string
	ExpiresAt time.Time
	// Token is the digest of the token that was exchanged for the login, or that of its share; empty for a code.
	Token string
	// Only is what the login may see; nil for everything.
	Only *Only
	// Context ends when the login is revoked, or with its share.
	Context context.Context
}

// Granted is a new login and its two secrets, which are known only here and to the browser.
type Granted struct {
	Login
	Cookie, Key string
}

// Open reads the file, if there is one. A file that cannot be read means that no browser is logged in.
func Open(c Config) (*Store, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{cfg: c, wrong: wrong{}}
	text, err := os.ReadFile(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("logins: %w", err)
	}
	if err := s.decode(text); err != nil {
		c.Logger.Error("file of the logins cannot be used: all browsers are logged out", "path", c.Path, "error", err)
		s.logins, s.shares = nil, nil
	}
	return s, nil
}

// secret makes a secret of 256 bits, and its digest.
func secret(bytes int) (string, digest) {
	random := make([]byte, bytes)
	_, _ = rand.Read(random) // never fails
	text := base64.RawURLEncoding.EncodeToString(random)
	return text, sha256.Sum256([]byte(text))
}

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// same compares in constant time.
func same(a string, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Mint makes a code that is valid once.
func (s *Store) Mint(scope string, valid time.Duration) (string, time.Time) {
	text, d := secret(16)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	s.codes = slices.DeleteFunc(s.codes, func(c code) bool { return !now.Before(c.expires) })
	if len(s.codes) >= MaxCodes {
		s.codes = slices.Delete(s.codes, 0, 1)
	}
	expires := now.Add(valid)
	s.codes = append(s.codes, code{d, scope, expires})
	return text, expires
}

// Browser says who logs in.
type Browser struct{ Name, Address string }

// Redeem spends a code.
func (s *Store) Redeem(text string, by Browser) (Granted, error) {
	d := digestOf(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	if !s.wrong.mayTry(by.Address, now) {
		return Granted{}, ErrTooMany
	}
	if h := s.shareLocked(d, now); h != nil {
		return s.joinLocked(h, by, now)
	}
	found := -1
	for i, c := range s.codes { // all of them, so that the time says nothing
		if subtle.ConstantTimeCompare(d[:], c.digest[:]) == 1 && now.Before(c.expires) {
			found = i
		}
	}
	if found < 0 {
		s.wrong.note(by.Address, now)
		return Granted{}, ErrCode
	}
	scope := s.codes[found].scope
	s.codes = slices.Delete(s.codes, found, found+1)
	return s.grantLocked(scope, "", nil, by, now)
}

// Exchange makes a login for a caller that has shown a valid token.
func (s *Store) Exchange(scope, tokenDigest string, by Browser) (Granted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grantLocked(scope, tokenDigest, nil, by, s.cfg.Now())
}

func (s *Store) grantLocked(scope, token string, of *share, by Browser, now time.Time) (Granted, error) {
	cookie, cookieDigest := secret(32)
	key, keyDigest := secret(32)
	_, id := secret(16)
	e := &entry{
		WebLogin: api.WebLogin{
			LoginID: "w-" + id.String()[:10], Scope: scope, Browser: clean(by.Name), Address: by.Address,
			CreatedAt: now.UTC().Truncate(time.Second), LastUsedAt: now.UTC().Truncate(time.Second), ExpiresAt: now.Add(Lifetime).UTC().Truncate(time.Second),
		},
		Cookie: cookieDigest.String(), Key: keyDigest.String(), Token: token,
	}
	if of != nil {
		e.ShareID, e.ExpiresAt, e.Only = of.ShareID, of.ExpiresAt, &Only{of.SessionID, of.DialogueID}
	}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	s.sweepLocked(now)
	// The one that was not used for longest makes room. Viewers of shares take no room of others.
	own := slices.DeleteFunc(slices.Clone(s.logins), func(e *entry) bool { return e.ShareID != "" })
	if of == nil && len(own) >= MaxLogins {
		oldest := slices.MinFunc(own, func(a, b *entry) int { return a.LastUsedAt.Compare(b.LastUsedAt) })
		s.endLocked(func(e *entry) bool { return e == oldest })
	}
	s.logins = append(s.logins, e)
	if err := s.saveLocked(); err != nil {
		s.logins = s.logins[:len(s.logins)-1]
		return Granted{}, err
	}
	return Granted{e.login(), cookie, key}, nil
}

func (e *entry) login() Login {
	return Login{ID: e.LoginID, ShareID: e.ShareID, Scope: e.Scope, ExpiresAt: e.ExpiresAt, Token: e.Token, Only: e.Only, Context: e.ctx}
}

// clean makes the name of a browser fit for a list, because a browser can send any text.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, name)
	return name[:min(len(name), 200)]
}

// sweepLocked ends the logins whose time is over.
func (s *Store) sweepLocked(now time.Time) {
	s.sweepSharesLocked(now)
	s.endLocked(func(e *entry) bool {
		return !now.Before(e.ExpiresAt) || now.Sub(e.LastUsedAt) >= Idle || !s.vouches(e.Token)
	})
}

// vouches reports whether a token is still valid, or there is none.
func (s *Store) vouches(token string) bool {
	return token == "" || s.cfg.Vouches != nil && s.cfg.Vouches(token)
}

// endLocked ends the logins for which over is true, and returns their ids.
func (s *Store) endLocked(over func(*entry) bool) []string {
	ended := []string{}
	s.logins = slices.DeleteFunc(s.logins, func(e *entry) bool {
		if !over(e) {
			return false
		}
		e.cancel(ErrOver)
		ended = append(ended, e.LoginID)
		return true
	})
	return ended
}

// Check returns the login that has this cookie and this key.
func (s *Store) Check(cookie, key string) (Login, error) {
	e, err := s.check(cookie, key, true)
	if err != nil {
		return Login{}, err
	}
	return e.login(), nil
}

func (s *Store) check(cookie, key string, needKey bool) (*entry, error) {
	c, k := digest(sha256.Sum256([]byte(cookie))).String(), digest(sha256.Sum256([]byte(key))).String()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	before := len(s.logins)
	s.sweepLocked(now)
	var found *entry
	for _, e := range s.logins { // all of them, so that the time says nothing
		if cookieFits, keyFits := same(c, e.Cookie), same(k, e.Key); cookieFits && (keyFits || !needKey) {
			found = e
		}
	}
	noted := found != nil && now.Sub(found.LastUsedAt) >= noteEvery
	if noted {
		found.LastUsedAt = now.UTC().Truncate(time.Second)
	}
	if noted || len(s.logins) != before {
		if err := s.saveLocked(); err != nil {
			s.cfg.Logger.Warn("logins not saved", "error", err)
		}
	}
	if found == nil {
		return nil, ErrOver
	}
	return found, nil
}

// Ticket makes an address part with which the browser of a login can download a path once.
func (s *Store) Ticket(login, path, filename string) string {
	text, d := secret(32)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	s.tickets = slices.DeleteFunc(s.tickets, func(t ticket) bool { return !now.Before(t.expires) })
	if len(s.tickets) >= MaxTickets {
		s.tickets = slices.Delete(s.tickets, 0, 1)
	}
	s.tickets = append(s.tickets, ticket{d, login, path, filename, now.Add(ticketTime)})
	return text
}

// Download spends a ticket. The cookie must be that of the login that got it.
func (s *Store) Download(text, cookie string) (login Login, path, filename string, err error) {
	e, err := s.check(cookie, "", false)
	if err != nil {
		return Login{}, "", "", err
	}
	d := digestOf(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	for i, t := range s.tickets {
		if subtle.ConstantTimeCompare(d[:], t.digest[:]) == 1 && t.login == e.LoginID && now.Before(t.expires) {
			s.tickets = slices.Delete(s.tickets, i, i+1)
			return e.login(), t.path, t.filename, nil
		}
	}
	return Login{}, "", "", ErrCode
}

// List returns the valid logins, the last used first.
func (s *Store) List() []api.WebLogin {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(s.cfg.Now())
	list := make([]api.WebLogin, len(s.logins))
	for i, e := range s.logins {
		list[i] = e.WebLogin
	}
	slices.SortStableFunc(list, func(a, b api.WebLogin) int { return b.LastUsedAt.Compare(a.LastUsedAt) })
	return list
}

// Revoke ends one login, or one share with its logins; or, with an empty id, all of them and every
// code. It returns the ids of those that it ended.
func (s *Store) Revoke(id string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" {
		s.codes = nil
	}
	s.tickets = slices.DeleteFunc(s.tickets, func(t ticket) bool { return id == "" || t.login == id })
	ended := s.endSharesLocked(func(h *share) bool { return id == "" || h.ShareID == id })
	ended = append(ended, s.endLocked(func(e *entry) bool { return id == "" || e.LoginID == id || e.ShareID == id })...)
	return ended, s.saveLocked()
}

// saveLocked replaces the file. A reader finds the old file or the new one.
func (s *Store) saveLocked() error {
	text, err := json.Marshal(stored{s.logins, s.shares})
	if err != nil {
		return fmt.Errorf("logins: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(s.cfg.Path), ".web-") // with mode 0600
	if err != nil {
		return fmt.Errorf("logins: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), s.cfg.Path)
	}
	if err != nil {
		return fmt.Errorf("logins: %w", err)
	}
	return nil
}
