package login_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/internal/login"
)

// clock is a time that the test moves. The timers of a store look at it, too.
type clock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(t *testing.T) (*login.Store, *clock, login.Config) {
	t.Helper()
	c := &clock{now: time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)}
	config := login.Config{Path: filepath.Join(t.TempDir(), "web.json"), Now: c.Now, Vouches: func(d string) bool { return d == "good" }}
	s, err := login.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return s, c, config
}

var someone = login.Browser{Name: "Browser", Address: "127.0.0.1"}

func grant(t *testing.T, s *login.Store) login.Granted {
	t.Helper()
	code, _ := s.Mint("full", time.Minute)
	g, err := s.Redeem(code, someone)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestCodeIsValidOnce(t *testing.T) {
	s, _, _ := open(t)
	code, _ := s.Mint("read", time.Minute)
	g, err := s.Redeem(code, someone)
	if err != nil || g.Scope != "read" {
		t.Fatal(g, err)
	}
	if _, err := s.Redeem(code, someone); !errors.Is(err, login.ErrCode) {
		t.Errorf("a second time: %v", err)
	}
	if l, err := s.Check(g.Cookie, g.Key); err != nil || l.ID != g.ID || l.Scope != "read" {
		t.Error(l, err)
	}
}

func TestCodeExpires(t *testing.T) {
	s, c, _ := open(t)
	code, expires := s.Mint("full", time.Minute)
	c.add(expires.Sub(c.Now()))
	if _, err := s.Redeem(code, someone); !errors.Is(err, login.ErrCode) {
		t.Error(err)
	}
}

func TestCodesAreBounded(t *testing.T) {
	s, _, _ := open(t)
	first, _ := s.Mint("full", time.Minute)
	for range login.MaxCodes {
		s.Mint("full", time.Minute)
	}
	if _, err := s.Redeem(first, someone); !errors.Is(err, login.ErrCode) {
		t.Error("the oldest code is still valid")
	}
}

func TestBothSecretsAreNeeded(t *testing.T) {
	s, _, _ := open(t)
	g, other := grant(t, s), grant(t, s)
	for _, c := range []struct{ cookie, key string }{
		{g.Cookie, ""}, {"", g.Key}, {"", ""}, {g.Key, g.Cookie}, {g.Cookie, other.Key}, {other.Cookie, g.Key}, {g.Cookie + "x", g.Key}, {g.ID, g.ID},
	} {
		if _, err := s.Check(c.cookie, c.key); !errors.Is(err, login.ErrOver) {
			t.Errorf("%q, %q: %v", c.cookie, c.key, err)
		}
	}
}

func TestWrongCodesAreLimited(t *testing.T) {
	s, c, _ := open(t)
	code, _ := s.Mint("full", time.Hour)
	for i := range 10 {
		if _, err := s.Redeem(fmt.Sprint(i), someone); !errors.Is(err, login.ErrCode) {
			t.Fatal(i, err)
		}
	}
	if _, err := s.Redeem(code, someone); !errors.Is(err, login.ErrTooMany) {
		t.Error(err)
	}
	if _, err := s.Redeem("wrong", login.Browser{Address: "127.0.0.2"}); !errors.Is(err, login.ErrCode) {
		t.Error("another address:", err)
	}
	c.add(time.Minute)
	if _, err := s.Redeem(code, someone); err != nil {
		t.Error("a minute later:", err)
	}
}

// TestWrongCodesLockNobodyOut: neither many addresses nor one network of IPv6 keep others from
// logging in.
func TestWrongCodesLockNobodyOut(t *testing.T) {
	s, _, _ := open(t)
	code, _ := s.Mint("full", time.Hour)
	for i := range 1100 {
		by := login.Browser{Address: fmt.Sprintf("127.1.%d.%d", i/256, i%256)}
		if _, err := s.Redeem("wrong", by); !errors.Is(err, login.ErrCode) {
			t.Fatal(by, err)
		}
	}
	for i := range 11 {
		_, err := s.Redeem("wrong", login.Browser{Address: fmt.Sprintf("2001:db8::%d", i)})
		if errors.Is(err, login.ErrTooMany) != (i == 10) {
			t.Error(i, err)
		}
	}
	if !s.MayTry("2001:db8:0:1::1") {
		t.Error("another network is refused")
	}
	if _, err := s.Redeem(code, someone); err != nil {
		t.Error(err)
	}
}

// TestFile: a login outlives the daemon, and the file has neither of its secrets.
func TestFile(t *testing.T) {
	s, _, config := open(t)
	g := grant(t, s)
	text, err := os.ReadFile(config.Path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), g.Cookie) || strings.Contains(string(text), g.Key) {
		t.Error("the file has a secret")
	}
	if info, _ := os.Stat(config.Path); info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
	again, err := login.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Check(g.Cookie, g.Key); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(config.Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken, err := login.Open(config)
	if err != nil || len(broken.List()) != 0 {
		t.Error(err)
	}
}

func TestLoginEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(s *login.Store, c *clock, id string)
	}{
		{"revoked", func(s *login.Store, _ *clock, id string) { _, _ = s.Revoke(id) }},
		{"all revoked", func(s *login.Store, _ *clock, _ string) { _, _ = s.Revoke("") }},
		{"idle", func(_ *login.Store, c *clock, _ string) { c.add(login.Idle) }},
	} {
		s, now, _ := open(t)
		g := grant(t, s)
		c.end(s, now, g.ID)
		if _, err := s.Check(g.Cookie, g.Key); !errors.Is(err, login.ErrOver) {
			t.Errorf("%s: %v", c.name, err)
		}
		if g.Context.Err() == nil {
			t.Errorf("%s: the context has not ended", c.name)
		}
	}
}

func TestLifetime(t *testing.T) {
	s, c, _ := open(t)
	g := grant(t, s)
	for range 29 {
		c.add(24 * time.Hour)
		if _, err := s.Check(g.Cookie, g.Key); err != nil {
			t.Fatal(c.Now(), err)
		}
	}
	c.add(24 * time.Hour)
	if _, err := s.Check(g.Cookie, g.Key); !errors.Is(err, login.ErrOver) {
		t.Error("after 30 days:", err)
	}
}

// TestTokenVouches: a login that was made with a token ends with the token.
func TestTokenVouches(t *testing.T) {
	s, _, config := open(t)
	g, err := s.Exchange("full", "good", someone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(g.Cookie, g.Key); err != nil {
		t.Error(err)
	}
	config.Vouches = func(string) bool { return false }
	later, err := login.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := later.Check(g.Cookie, g.Key); !errors.Is(err, login.ErrOver) {
		t.Error(err)
	}
}

func TestLoginsAreBounded(t *testing.T) {
	s, c, _ := open(t)
	first := grant(t, s)
	for range login.MaxLogins {
		c.add(time.Second)
		grant(t, s)
	}
	if n := len(s.List()); n != login.MaxLogins {
		t.Errorf("%d logins", n)
	}
	if _, err := s.Check(first.Cookie, first.Key); !errors.Is(err, login.ErrOver) {
		t.Error("the oldest is still valid")
	}
}

func TestTicket(t *testing.T) {
	s, c, _ := open(t)
	g, other := grant(t, s), grant(t, s)
	ticket := s.Ticket(g.ID, "/v1/exec/x/stdout", "x.txt")
	if _, _, _, err := s.Download(ticket, other.Cookie); err == nil {
		t.Error("valid with the cookie of another login")
	}
	if _, _, _, err := s.Download("wrong", g.Cookie); err == nil {
		t.Error("a wrong ticket is valid")
	}
	if l, path, name, err := s.Download(ticket, g.Cookie); err != nil || l.ID != g.ID || path != "/v1/exec/x/stdout" || name != "x.txt" {
		t.Error(l, path, name, err)
	}
	if _, _, _, err := s.Download(ticket, g.Cookie); err == nil {
		t.Error("valid twice")
	}
	late := s.Ticket(g.ID, "/", "x")
	c.add(30 * time.Second)
	if _, _, _, err := s.Download(late, g.Cookie); err == nil {
		t.Error("valid too long")
	}
}

func TestBrowserNameIsClean(t *testing.T) {
	s, _, _ := open(t)
	code, _ := s.Mint("full", time.Minute)
	if _, err := s.Redeem(code, login.Browser{Name: "a\x1b[31m\u202eb" + strings.Repeat("x", 1000)}); err != nil {
		t.Fatal(err)
	}
	if name := s.List()[0].Browser; strings.ContainsAny(name, "\x1b\u202e") || len(name) > 200 {
		t.Errorf("%q", name)
	}
}
