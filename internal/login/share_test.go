package login_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/login"
)

func TestShareHasViewers(t *testing.T) {
	s, c, config := open(t)
	share, code, err := s.Share(login.Sharing{Only: login.Only{SessionID: "s-1"}, Viewers: 2, Valid: time.Hour})
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
	_, code, _ = s.Share(login.Sharing{Only: login.Only{DialogueID: "d-1"}, Viewers: 1, Valid: time.Hour})
	g, err := s.Redeem(code, someone)
	if err != nil {
		t.Fatal(err)
	}
	c.add(time.Hour)
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
	_, code, err := s.Share(login.Sharing{Only: login.Only{SessionID: "s-1"}, Viewers: 1, Valid: 200 * time.Millisecond})
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
		_, code, err := s.Share(login.Sharing{Only: login.Only{SessionID: "s-1"}, Viewers: 2, Valid: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := s.Redeem(code, someone); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, err := s.Share(login.Sharing{Only: login.Only{SessionID: "s-1"}, Viewers: 1, Valid: time.Hour}); !errors.Is(err, login.ErrShares) {
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
	_, code, _ := s.Share(login.Sharing{Only: login.Only{SessionID: "s-1"}, Viewers: 1, Valid: time.Hour})
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

// TestShareEndsWithItsToken: a share ends with the token of its maker, and stays when its maker logs out.
func TestShareEndsWithItsToken(t *testing.T) {
	s, _, config := open(t)
	maker, err := s.Exchange("full", "good", someone)
	if err != nil {
		t.Fatal(err)
	}
	codes := []string{}
	for _, by := range []*api.Caller{{LoginID: maker.ID}, {Token: "good"}} {
		_, code, err := s.Share(login.Sharing{Only: login.Only{SessionID: "s-1"}, Viewers: 2, Valid: time.Hour, By: by})
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, code)
	}
	_, own, err := s.Share(login.Sharing{Only: login.Only{SessionID: "s-1"}, Viewers: 2, Valid: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revoke(maker.ID); err != nil {
		t.Fatal(err)
	}
	viewer, err := s.Redeem(codes[0], someone)
	if err != nil {
		t.Fatalf("after its maker has logged out: %v", err)
	}
	for _, id := range []string{maker.ID, viewer.ID, "w-none"} { // a login that is over, that of a viewer, none
		if _, _, err := s.Share(login.Sharing{Only: login.Only{SessionID: "s-1"}, Viewers: 1, Valid: time.Hour, By: &api.Caller{LoginID: id}}); !errors.Is(err, login.ErrOver) {
			t.Errorf("a share by %s: %v", id, err)
		}
	}

	config.Vouches = func(string) bool { return false }
	if s, err = login.Open(config); err != nil {
		t.Fatal(err)
	}
	if s.HasShare(viewer.ShareID) {
		t.Error("the share has not ended with its token")
	}
	for _, code := range codes {
		if _, err := s.Redeem(code, someone); !errors.Is(err, login.ErrCode) {
			t.Errorf("the code of a share whose token is removed: %v", err)
		}
	}
	if _, err := s.Check(viewer.Cookie, viewer.Key); !errors.Is(err, login.ErrOver) {
		t.Errorf("a viewer of it: %v", err)
	}
	if _, err := s.Redeem(own, someone); err != nil || len(s.Shares()) != 1 {
		t.Errorf("the share of the daemon's own user: %v, %v", err, s.Shares())
	}
}
