//go:build linux

package places

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/runtimes/docker/dockertest"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// older makes a session with the daemon and the runner of the version before, and goes on with this one.
func (p *place) older(t *testing.T) {
	daemon := trltest.Start(t, trltest.Use(trltest.Older(t)), trltest.Args("--log-level", "warn"), trltest.Env(p.env...))
	params := api.SessionCreateParams{Runtime: p.at.Runtime, Place: p.at.Place}
	if p.name == "docker" {
		params.Limits = &api.Limits{MemoryBytes: new(int64(256 << 20))}
	}
	s := testkit.Must(daemon.Client(t).SessionCreate(p.ctx, params))(t)
	id := s.SessionID
	testkit.Must(daemon.Client(t).ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "x=kept"}))(t)
	daemon.Kill9()
	daemon.Use(testkit.Must(trltest.Static())(t))
	daemon.Restart(t)
	c := daemon.Client(t)
	if r := testkit.Must(c.ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "echo $x"}))(t); r.Stdout != "kept\n" {
		t.Errorf("%+v", r)
	}
	if p.name == "docker" {
		// The engine has changed the limits when the runner refuses them, and gets the old ones back.
		old := changing{T: t, Client: c, ctx: p.ctx, id: id, container: s.Place.Container}
		old.refused(api.Limits{CPUs: new(0.5), MemoryBytes: new(int64(512 << 20))}, api.CodeLimitUnavailable, "cannot change while the session lives")
		old.want(0, 256<<20, 0)
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
	testkit.Must(p.RuntimePrune(p.ctx, api.RuntimePruneParams{}))(t) // the runners with another clock
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
	p.pulledThere(t, near, params)
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

// pulledThere creates a session for which the other daemon pulls an image. The slow steps there are events here.
func (p *place) pulledThere(t *testing.T, near *client.Client, params api.SessionCreateParams) {
	registry := dockertest.Shared(t).NewRegistry(t, "", "", runtime.GOARCH)
	options := *params.Place
	options.Runtime = "docker:" + registry.Image
	params.Place, params.CreateID = &options, "from afar"
	events := testkit.Must(near.EventSubscribe(p.ctx, api.EventSubscribeParams{Types: []string{api.EventSessionProgress, api.EventSessionCreated}}))(t)
	defer events.Close()
	s := testkit.Must(near.SessionCreate(p.ctx, params))(t)
	pulled := false
	for e := testkit.Must(events.Recv())(t); e.Type != api.EventSessionCreated; e = testkit.Must(events.Recv())(t) {
		if e.CreateID != "from afar" || e.SessionID != s.SessionID {
			t.Errorf("%+v", e)
		}
		pulled = pulled || e.Progress.Step == "pull" && e.Progress.Message == "pulling "+registry.Image
	}
	if !pulled {
		t.Error("no event about the image")
	}
	testkit.Must(near.SessionDestroy(p.ctx, api.SessionDestroyParams{SessionID: s.SessionID}))(t)
}
