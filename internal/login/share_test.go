package login_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/internal/login"
)

func TestShareHasViewers(t *testing.T) {
	s, c, config := open(t)
	share, code, err := s.Share(login.Only{SessionID: "s-1"}, 2, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var viewers []login.Granted
	for range 2 { // the code is valid for each of them
		g, err := s.Redeem(code, someone)
		if err != nil || g.Scope != "read" || g.Only == nil || g.Only.SessionID != "s-1" || g.ShareID != share.ShareID || g.ExpiresAt.After(share.ExpiresAt) {
			t.Fatalf("%+v, %v", g, err)
		}
		viewers = append(viewers, g)
	}
	if _, err := s.Redeem(code, someone); !errors.Is(err, login.ErrViewers) {
		t.Errorf("a third viewer: %v", err)
	}
	if _, err := s.Revoke(viewers[0].ID); err != nil {
		t.Fatal(err)
	}
	third, err := s.Redeem(code, someone)
	if err != nil {
		t.Errorf("after one has left: %v", err)
	}
	if text, _ := os.ReadFile(config.Path); strings.Contains(string(text), code) || strings.Contains(string(text), third.Key) {
		t.Error("the file has a secret")
	}

	// A restart keeps the share, its viewers and its limit.
	if s, err = login.Open(config); err != nil {
		t.Fatal(err)
	}
	l, err := s.Check(third.Cookie, third.Key)
	if err != nil || l.Only == nil || l.Only.SessionID != "s-1" {
		t.Fatalf("%+v, %v", l, err)
	}
	if _, err := s.Redeem(code, someone); !errors.Is(err, login.ErrViewers) {
		t.Errorf("after a restart: %v", err)
	}
	if !s.Joins(l, code) || s.Joins(l, "other") || !s.Joins(login.Login{}, code) || s.Joins(login.Login{Only: &login.Only{}, ShareID: "h-2"}, code) {
		t.Error("Joins")
	}

	// The end of the share ends its viewers and its code.
	ended, err := s.Revoke(share.ShareID)
	if err != nil || len(ended) != 3 || l.Context.Err() == nil {
		t.Errorf("revoked %v, %v, context: %v", ended, err, l.Context.Err())
	}
	if _, err := s.Redeem(code, someone); !errors.Is(err, login.ErrCode) {
		t.Errorf("a revoked code: %v", err)
	}
	if _, err := s.Check(third.Cookie, third.Key); !errors.Is(err, login.ErrOver) {
		t.Errorf("a revoked viewer: %v", err)
	}

	// So does its time.
	_, code, _ = s.Share(login.Only{DialogueID: "d-1"}, 1, time.Hour)
	g, err := s.Redeem(code, someone)
	if err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(time.Hour)
	if _, err := s.Check(g.Cookie, g.Key); !errors.Is(err, login.ErrOver) || g.Context.Err() == nil || len(s.Shares()) != 0 {
		t.Errorf("an expired share: %v, %v", err, s.Shares())
	}
	if _, err := s.Redeem(code, someone); !errors.Is(err, login.ErrCode) {
		t.Errorf("an expired code: %v", err)
	}
}

func TestShareEndsByItself(t *testing.T) {
	s, err := login.Open(login.Config{Path: t.TempDir() + "/web.json"})
	if err != nil {
		t.Fatal(err)
	}
	_, code, err := s.Share(login.Only{SessionID: "s-1"}, 1, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Redeem(code, someone)
	if errors.Is(err, login.ErrCode) {
		t.Skip("the machine is too slow to log in within the time of the share")
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Context.Done():
	case <-time.After(2 * time.Minute):
		t.Error("the viewer keeps the connection")
	}
}

func TestSharesAreBounded(t *testing.T) {
	s, _, _ := open(t)
	full := grant(t, s)
	for range login.MaxShares {
		_, code, err := s.Share(login.Only{SessionID: "s-1"}, 2, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := s.Redeem(code, someone); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, err := s.Share(login.Only{SessionID: "s-1"}, 1, time.Hour); !errors.Is(err, login.ErrShares) {
		t.Errorf("one more: %v", err)
	}
	if _, err := s.Check(full.Cookie, full.Key); err != nil {
		t.Errorf("viewers have pushed another login out: %v", err)
	}
	if ended, err := s.Revoke(""); err != nil || len(ended) != 3*login.MaxShares+1 {
		t.Errorf("%d, %v", len(ended), err)
	}
}

// TestFileCannotWidenAShare: a login of a share without its limits is no login.
func TestFileCannotWidenAShare(t *testing.T) {
	s, _, config := open(t)
	_, code, _ := s.Share(login.Only{SessionID: "s-1"}, 1, time.Hour)
	g, err := s.Redeem(code, someone)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(config.Path)
	for _, change := range [][2]string{{`,"only":{"session_id":"s-1"}`, ``}, {`"shares":[`, `"shares":[null],"x":[`}} {
		if err := os.WriteFile(config.Path, []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := login.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Check(g.Cookie, g.Key); !errors.Is(err, login.ErrOver) {
			t.Errorf("%s: %v", change[0], err)
		}
	}
	// The format of earlier versions.
	if err := os.WriteFile(config.Path, []byte(`[{"login_id":"w-1"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := login.Open(config); err != nil || s.Shares() == nil {
		t.Error(err)
	}
}
