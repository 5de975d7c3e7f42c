//go:build linux

package places

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// older makes a session with the daemon and the runner of the version before, and goes on with this one.
func (p *place) older(t *testing.T) {
	daemon := trltest.Start(t, trltest.Use(trltest.Older(t)), trltest.Args("--log-level", "warn"), trltest.Env(p.env...))
	params := api.SessionCreateParams{Runtime: p.at.Runtime, Place: p.at.Place}
	id := testkit.Must(daemon.Client(t).SessionCreate(p.ctx, params))(t).SessionID
	testkit.Must(daemon.Client(t).ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "x=kept"}))(t)
	daemon.Kill9()
	daemon.Use(testkit.Must(trltest.Static())(t))
	daemon.Restart(t)
	c := daemon.Client(t)
	if r := testkit.Must(c.ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "echo $x"}))(t); r.Stdout != "kept\n" {
		t.Errorf("%+v", r)
	}
	beside := testkit.Must(c.SessionCreate(p.ctx, api.SessionCreateParams{Beside: id}))(t).SessionID
	for _, id := range []string{id, beside} {
		testkit.Must(c.SessionDestroy(p.ctx, api.SessionDestroyParams{SessionID: id, Force: true}))(t)
	}
	r := testkit.Must(c.RuntimePrune(p.ctx, api.RuntimePruneParams{}))(t)
	r.Removed = slices.DeleteFunc(r.Removed, func(name string) bool { return strings.HasPrefix(name, "volume trl-runner-") }) // that of the version before
	if len(r.Removed)+len(r.Pending) > 0 {
		t.Errorf("the sessions left %+v", r)
	}
}

// fromAfar makes a session in the place as one of another daemon.
func (p *place) fromAfar(t *testing.T) {
	daemon := startDaemon(t)
	near := daemon.Client(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(p.daemon.Token(t)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	params := api.SessionCreateParams{Runtime: "trl:" + p.daemon.GRPC(t), Place: &api.PlaceOptions{TokenFile: token, Runtime: p.at.Runtime}}
	s := testkit.Must(near.SessionCreate(p.ctx, params))(t)
	if s.Place == nil || s.Place.Kind != api.PlaceTRL || s.Place.Address == "" || s.Place.Image == "" {
		t.Errorf("%+v", s.Place)
	}
	if r := testkit.Must(near.ExecRun(p.ctx, api.ExecParams{SessionID: s.SessionID, Command: "echo $IN_IMAGE $PWD"}))(t); r.Stdout != "busybox /work\n" {
		t.Errorf("%+v", r)
	}
	testkit.Must(near.SessionDestroy(p.ctx, api.SessionDestroyParams{SessionID: s.SessionID}))(t)
	if r := testkit.Must(p.RuntimePrune(p.ctx, api.RuntimePruneParams{}))(t); len(r.Removed)+len(r.Pending) > 0 {
		t.Errorf("the session left %+v", r)
	}
	// The engine there enforces the limits, and the session reports that, also to a later daemon.
	const most = 64 << 20
	params.Limits = &api.Limits{CPUs: new(0.5), MemoryBytes: new(int64(most)), Pids: new(int64(40))}
	s = testkit.Must(near.SessionCreate(p.ctx, params))(t)
	for range 2 {
		info := testkit.Must(near.SessionInfo(p.ctx, api.SessionInfoParams{SessionID: s.SessionID}))(t)
		if info.Limits == nil || len(info.Limits.Enforced) != 3 || len(info.Limits.NotEnforced) > 0 || info.Limits.Enforced[0].Mechanism != "docker" {
			t.Fatalf("%+v", info.Limits)
		}
		near = daemon.Crash(t, nil)
	}
	r := testkit.Must(near.ExecRun(p.ctx, api.ExecParams{SessionID: s.SessionID, Command: "dd if=/dev/zero of=/dev/null bs=200M count=1"}))(t)
	if !r.OOMKilled || r.OOM == nil || r.OOM.LimitBytes != most {
		t.Errorf("out of memory: %+v, %+v", r, r.OOM)
	}
	testkit.Must(near.SessionDestroy(p.ctx, api.SessionDestroyParams{SessionID: s.SessionID}))(t)
}
