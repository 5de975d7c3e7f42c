package remote_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runner"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/remote/remotetest"
	"github.com/trl-dev/trl/internal/runtimes/runtimetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestMain also acts as the runner: the test program is copied into the places.
func TestMain(m *testing.M) {
	if runner.Called() {
		os.Exit(runner.Main())
	}
	goleak.VerifyTestMain(m)
}

// site is a world, and the directory of the daemons that use it.
type site struct {
	t     *testing.T
	world *remotetest.World
	state string
	log   *testkit.Buffer
}

func newSite(t *testing.T) *site {
	dir := testkit.Dir(t)
	s := &site{t: t, world: remotetest.New(t, filepath.Join(dir, "w")), state: filepath.Join(dir, "state"), log: &testkit.Buffer{}}
	if err := os.Mkdir(filepath.Join(dir, "w"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", s.log.String())
		}
	})
	return s
}

func (s *site) open() (*remote.Runtime, *slog.Logger, func()) {
	s.t.Helper()
	logger := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	dir, err := state.Open(state.Config{Path: s.state, Logger: logger})
	if err != nil {
		s.t.Fatal(err)
	}
	rt, err := remote.New(remote.Config{Driver: s.world.Driver(), State: dir, Logger: logger})
	if err != nil {
		s.t.Fatal(err)
	}
	return rt, logger, func() {
		rt.Close()
		dir.Close()
	}
}

// wantEmpty checks that nothing of any session is left, there and here.
func (s *site) wantEmpty() {
	s.t.Helper()
	s.world.WantEmpty()
	left, err := os.ReadDir(filepath.Join(s.state, "sessions"))
	if err != nil {
		s.t.Error(err)
	}
	for _, e := range left {
		s.t.Errorf("record %s is left", e.Name())
	}
}

func (s *site) place(kind api.PlaceKind) runtimetest.Place {
	return runtimetest.Place{
		Open: func(*testing.T) (session.Runtime, func()) {
			rt, _, leave := s.open()
			return rt, leave
		},
		WantEmpty: func(*testing.T) { s.wantEmpty() },
		Target:    session.Target{Word: string(kind) + ":test", Kind: kind},
		Cut:       func() { s.world.Cut() },
		Lose:      s.world.Lose,
		End: func(r session.Runner) string {
			const cause = "the place was switched off"
			s.world.End(r.Place().Info.Host, cause)
			return cause
		},
		Stray: func(t *testing.T) {
			id, err := os.ReadFile(filepath.Join(s.state, "id"))
			if err != nil {
				t.Fatal(err)
			}
			s.world.Stray(string(id[:len(id)-1]), "s-00000000ee")
		},
		Listing: s.world.Listing,
	}
}

func TestRuntime(t *testing.T) {
	for _, kind := range []api.PlaceKind{api.PlaceDocker, api.PlaceSSH} {
		t.Run(string(kind), func(t *testing.T) {
			runtimetest.Run(t, func(t *testing.T) runtimetest.Place { return newSite(t).place(kind) })
		})
	}
}

func TestSessions(t *testing.T) {
	testkit.Long(t)
	for _, kind := range []api.PlaceKind{api.PlaceDocker, api.PlaceSSH} {
		t.Run(string(kind), func(t *testing.T) {
			runtimetest.RunSessions(t, func(t *testing.T) runtimetest.Place { return newSite(t).place(kind) })
		})
	}
}
