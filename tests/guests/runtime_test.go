// Package guests has the tests of sessions on other daemons: the checks of every runtime, and what only
// two daemons can do.
package guests

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/runtimetest"
	"github.com/trl-dev/trl/internal/runtimes/trl"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// far is a real daemon that has guests, behind a proxy.
type far struct {
	daemon    *trltest.Daemon
	there     *client.Client // by its socket
	proxy     *testkit.Proxy
	tokenFile string
}

func startFar(t *testing.T, args ...string) *far {
	t.Helper()
	daemon := trltest.Start(t, trltest.Args(append([]string{"--grpc", "127.0.0.1:0", "--max-sessions", "100"}, args...)...))
	f := &far{daemon: daemon, there: daemon.Client(t), tokenFile: filepath.Join(t.TempDir(), "token")}
	f.proxy = testkit.NewProxy(t, strings.TrimPrefix(daemon.GRPC(t), "grpc://"))
	if !slices.Contains(args, "--token-file") { // otherwise the test writes the token itself
		if err := os.WriteFile(f.tokenFile, []byte(daemon.Token(t)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *far) target() session.Target {
	address := "grpc://" + f.proxy.Address()
	return session.Target{Word: "trl:" + address, Kind: api.PlaceTRL, Options: api.PlaceOptions{Address: address, TokenFile: f.tokenFile}}
}

// guests are those that live on the other daemon.
func (f *far) guests(t *testing.T) []api.GuestInfo {
	t.Helper()
	return testkit.Must(f.there.GuestList(t.Context(), api.GuestListParams{}))(t).Guests
}

// place is the other daemon as a place of sessions. Each has a daemon of its own as owner.
func (f *far) place(t *testing.T) runtimetest.Place {
	dir, log := filepath.Join(testkit.Dir(t), "state"), &testkit.Buffer{}
	var id string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the owner:\n%s\nlog of the other daemon:\n%s", log, f.daemon.Stderr())
		}
	})
	return runtimetest.Place{
		Open: func(t *testing.T) (session.Runtime, func()) {
			logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			own, err := state.Open(state.Config{Path: dir, Logger: logger})
			if err != nil {
				t.Fatal(err)
			}
			if id, err = own.ID(); err != nil {
				t.Fatal(err)
			}
			rt, err := remote.New(remote.Config{Driver: trl.New(trl.Config{DaemonID: id}), State: own, Logger: logger})
			if err != nil {
				t.Fatal(err)
			}
			return rt, func() {
				rt.Close()
				own.Close()
			}
		},
		Target: f.target(),
		WantEmpty: func(t *testing.T) {
			t.Helper()
			for _, g := range f.guests(t) {
				t.Errorf("guest %+v is left", g)
			}
			for _, state := range []string{dir, f.daemon.StateDir} {
				left, _ := filepath.Glob(filepath.Join(state, "sessions", "*"))
				for _, file := range left {
					t.Errorf("%s is left", file)
				}
			}
		},
		Cut: f.proxy.Cut,
		Lose: func() func() {
			f.proxy.Refuse()
			f.proxy.Cut()
			return f.proxy.Listen
		},
		End: func(r session.Runner) string {
			if _, err := f.there.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: r.About().SessionID}); err != nil {
				t.Error(err)
			}
			return "destroyed on the daemon of its place"
		},
		Stray: func(t *testing.T) {
			if _, err := f.there.GuestStart(t.Context(), api.GuestStartParams{OwnerID: id, SessionID: "s-00000000ee"}); err != nil {
				t.Fatal(err)
			}
		},
		Listing: func() string {
			list, err := f.there.Call(t.Context(), "session.list", nil)
			if err != nil {
				t.Error(err)
			}
			all, _ := f.there.Call(t.Context(), "guest.list", nil)
			return string(list) + string(all) + f.daemon.Stderr()
		},
	}
}

func TestRuntime(t *testing.T) {
	f := startFar(t)
	runtimetest.Run(t, f.place)
}

func TestSessions(t *testing.T) {
	f := startFar(t)
	runtimetest.RunSessions(t, f.place)
}
