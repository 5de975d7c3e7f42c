package guests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// world is two real daemons: this one has sessions on the far one.
type world struct {
	*testing.T
	*far
	near *trltest.Daemon
	*client.Client
	ctx context.Context
}

func startWorld(t *testing.T, nearArgs, farArgs []string) *world {
	t.Helper()
	t.Parallel() // they wait more than they work
	f := startFar(t, farArgs...)
	near := trltest.Start(t, trltest.Args(nearArgs...))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	t.Cleanup(func() { near.Stop(t) }) // before the proxy closes
	return &world{T: t, far: f, near: near, Client: near.Client(t), ctx: ctx}
}

// on completes the parameters of a session on the far daemon.
func (w *world) on(p api.SessionCreateParams) api.SessionCreateParams {
	o := w.target().Options
	o.OwnerLostS = 0
	if p.Place != nil {
		o.OwnerLostS = p.Place.OwnerLostS
	}
	p.Runtime, p.Place = "trl", &o
	return p
}

func (w *world) create(p api.SessionCreateParams) api.SessionInfo {
	w.Helper()
	return testkit.Must(w.SessionCreate(w.ctx, w.on(p)))(w)
}

func (w *world) run(session, command string) string {
	w.Helper()
	return testkit.Must(w.ExecRun(w.ctx, api.ExecParams{SessionID: session, Command: command}))(w).Stdout
}

// farRestarts kills the far daemon; its guests go on.
func (w *world) farRestarts(between func()) {
	w.Helper()
	w.far.daemon.Kill9()
	if between != nil {
		between()
	}
	w.far.daemon.Restart(w.T)
	w.there = w.far.daemon.Client(w.T)
	w.proxy.Aim(strings.TrimPrefix(w.far.daemon.GRPC(w.T), "grpc://"))
}

// ended waits for the end of a session and returns its cause.
func (w *world) ended(session string) string {
	w.Helper()
	var info api.SessionDetails
	testkit.Eventually(w, "session "+session+" has ended", func() bool {
		info = testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: session}))(w)
		return info.State == api.SessionTerminated
	})
	return info.Cause
}

// TestOwnership: the far daemon shows whose a guest is, and lets only its owner use it.
func TestOwnership(t *testing.T) {
	w := startWorld(t, nil, nil)
	here := w.create(api.SessionCreateParams{Name: "build", Tags: []string{"ci"}})
	if here.Runtime != "trl" || here.Place == nil || here.Place.Kind != api.PlaceTRL || here.Place.Address == "" || here.Guest != nil {
		t.Errorf("here: %+v", here)
	}
	id := here.SessionID
	list := testkit.Must(w.there.SessionList(w.ctx, api.SessionListParams{}))(t).Sessions
	if len(list) != 1 || list[0].SessionID != id || list[0].Guest == nil || !list[0].Guest.Connected || list[0].Guest.Owner == "" || list[0].Guest.OwnerLostS != 86400 ||
		list[0].Name != "build" || list[0].Tags[0] != "ci" || list[0].State != api.SessionRunning {
		t.Fatalf("there: %+v", list)
	}
	if info := testkit.Must(w.there.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: id}))(t); info.RunnerPID == 0 || info.Guest == nil {
		t.Errorf("info: %+v", info)
	}
	if stats := testkit.Must(w.there.SystemStats(w.ctx, api.SystemStatsParams{}))(t); stats.ActiveSessions != 1 {
		t.Errorf("stats: %+v", stats)
	}
	_, err := w.there.ExecRun(w.ctx, api.ExecParams{SessionID: id, Command: "true"})
	testkit.WantError(t, err, api.CodeConflict, "belongs to another daemon")
	_, err = w.there.SessionSet(w.ctx, api.SessionSetParams{SessionID: id, Name: new("mine")})
	testkit.WantError(t, err, api.CodeConflict, "belongs to another daemon")
	_, err = w.there.ExecList(w.ctx, api.ExecListParams{SessionID: id})
	testkit.WantError(t, err, api.CodeConflict, "belongs to another daemon")
	// Another owner cannot reach it, nor end it, nor take its id.
	_, err = w.there.GuestConnect(w.ctx, api.GuestConnectParams{OwnerID: "other", SessionID: id})
	testkit.WantError(t, err, api.CodeSessionNotFound, id)
	testkit.Must(w.there.GuestEnd(w.ctx, api.GuestEndParams{OwnerID: "other", SessionID: id}))(t)
	_, err = w.there.GuestStart(w.ctx, api.GuestStartParams{OwnerID: "other", SessionID: id})
	testkit.WantError(t, err, api.CodeConflict, "already has a session with this id")
	_, err = w.there.GuestConnect(w.ctx, api.GuestConnectParams{OwnerID: "other", SessionID: id, DaemonID: "another"})
	testkit.WantError(t, err, api.CodeConflict, "is not the one that runs the session")
	if got := w.run("build", "echo still here"); got != "still here\n" {
		t.Errorf("printed %q", got)
	}
	// A guest that was given up cannot come to be later.
	const late = "s-00000000ff"
	testkit.Must(w.there.GuestEnd(w.ctx, api.GuestEndParams{OwnerID: "other", SessionID: late}))(t)
	_, err = w.there.GuestStart(w.ctx, api.GuestStartParams{OwnerID: "other", SessionID: late})
	testkit.WantError(t, err, api.CodeSessionTerminated, "cannot be started again")

	testkit.Must(w.there.SessionDestroy(w.ctx, api.SessionDestroyParams{SessionID: id}))(t)
	if cause := w.ended(id); !strings.Contains(cause, "destroyed on the daemon of its place") {
		t.Errorf("cause %q", cause)
	}
	if left := w.guests(t); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestEnvironment: a session begins with the environment of the far daemon, not with that of its owner.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	daemon := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0"), trltest.Env("OF_FAR=yes", "TRL_SECRET=no"))
	near := trltest.Start(t, trltest.Env("OF_NEAR=yes"))
	c := near.Client(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(daemon.Token(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := testkit.Must(c.SessionCreate(t.Context(), api.SessionCreateParams{
		Runtime: "trl:" + daemon.GRPC(t), Place: &api.PlaceOptions{TokenFile: token}, Env: map[string]string{"OF_SESSION": "yes"},
	}))(t)
	r := testkit.Must(c.ExecRun(t.Context(), api.ExecParams{SessionID: s.SessionID, Command: `echo "far=$OF_FAR near=$OF_NEAR session=$OF_SESSION secret=$TRL_SECRET procs=$GOMAXPROCS"`}))(t)
	if r.Stdout != "far=yes near= session=yes secret= procs=\n" {
		t.Errorf("printed %q", r.Stdout)
	}
	testkit.Must(c.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: s.SessionID}))(t)
}

// ownerLost is how long a guest here lives without its owner: longer than a busy machine takes to
// connect the two, and short enough to wait for.
const ownerLost = 10

// TestOwnerLost: a guest ends when its owner does not come back in time.
func TestOwnerLost(t *testing.T) {
	w := startWorld(t, nil, []string{"--owner-lost-s", "60"})
	_, err := w.SessionCreate(w.ctx, w.on(api.SessionCreateParams{Place: &api.PlaceOptions{OwnerLostS: 61}}))
	testkit.WantError(t, err, api.CodeInvalidParams, "61 is above the owner_lost_s of the other daemon, which is 60")
	s := w.create(api.SessionCreateParams{Place: &api.PlaceOptions{OwnerLostS: ownerLost}})
	w.proxy.Refuse()
	w.proxy.Cut()
	testkit.Eventually(t, "the guest has ended", func() bool { return len(w.guests(t)) == 0 })
	w.proxy.Listen()
	if cause := w.ended(s.SessionID); !strings.Contains(cause, "did not connect to it for owner_lost_s") {
		t.Errorf("cause %q", cause)
	}
}

// TestOwnerLostAfterRestart: the far daemon counts again after its own restart.
func TestOwnerLostAfterRestart(t *testing.T) {
	w := startWorld(t, nil, nil)
	s := w.create(api.SessionCreateParams{Place: &api.PlaceOptions{OwnerLostS: ownerLost}})
	w.proxy.Refuse()
	w.proxy.Cut()
	w.farRestarts(nil)
	testkit.Eventually(t, "the guest has ended", func() bool { return len(w.guests(t)) == 0 })
	w.proxy.Listen()
	if cause := w.ended(s.SessionID); !strings.Contains(cause, "did not connect to it for owner_lost_s") {
		t.Errorf("cause %q", cause)
	}
}

// TestEitherDaemonDies: a command goes on when either daemon is killed, and nothing of it is lost.
func TestEitherDaemonDies(t *testing.T) {
	w := startWorld(t, nil, nil)
	s := w.create(api.SessionCreateParams{Name: "build"})
	x := testkit.Must(w.ExecStart(w.ctx, api.ExecParams{SessionID: "build", Command: "v=kept; i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); sleep 0.01; done; exit 7"}))(t)
	w.farRestarts(nil)
	w.Client = w.near.Crash(t, nil)
	w.farRestarts(nil)
	testkit.Must(w.ExecWait(w.ctx, api.ExecWaitParams{ExecIDs: []string{x.ExecID}, Until: []string{api.UntilExit}}))(t)
	info := testkit.Must(w.ExecInfo(w.ctx, api.ExecInfoParams{ExecID: x.ExecID}))(t)
	if info.Outcome == nil || info.Outcome.ExitCode != 7 || info.StdoutBytes != 10*7+90*8+200*9 {
		t.Errorf("%+v", info)
	}
	if got := w.run("build", "echo $v"); got != "kept\n" {
		t.Errorf("printed %q", got)
	}
	testkit.Must(w.SessionDestroy(w.ctx, api.SessionDestroyParams{SessionID: s.SessionID}))(t)
	if left := w.guests(t); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestFarStops: a daemon that stops ends its guests.
func TestFarStops(t *testing.T) {
	w := startWorld(t, nil, nil)
	s := w.create(api.SessionCreateParams{})
	w.run(s.SessionID, "(setsid sleep 4005 >/dev/null 2>&1 &); sleep 4006 &")
	w.far.daemon.Stop(t) // which checks that no process is left
	w.far.daemon.Restart(t)
	w.there = w.far.daemon.Client(t)
	w.proxy.Aim(strings.TrimPrefix(w.far.daemon.GRPC(t), "grpc://"))
	if cause := w.ended(s.SessionID); !strings.Contains(cause, "no longer has it") {
		t.Errorf("cause %q", cause)
	}
}

// TestNearStops: sessions on other daemons end with the daemon that owns them.
func TestNearStops(t *testing.T) {
	w := startWorld(t, nil, nil)
	w.create(api.SessionCreateParams{})
	w.near.Stop(t)
	if left := w.guests(t); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestReadToken: a token that only reads can do nothing with guests.
func TestReadToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("full full-token-0123456789\nread read-token-0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := startWorld(t, nil, []string{"--token-file", file})
	if err := os.WriteFile(w.tokenFile, []byte("read-token-0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := w.SessionCreate(w.ctx, w.on(api.SessionCreateParams{}))
	testkit.WantError(t, err, api.CodeForbidden, "scope full")
	o := w.target().Options
	if check := testkit.Must(w.RuntimeCheck(w.ctx, api.RuntimeCheckParams{Runtime: "trl", Place: &o}))(t); check.Reachable || !strings.Contains(check.Why, "scope full") {
		t.Errorf("%+v", check)
	}
	c := testkit.Must(client.DialGRPC(w.ctx, "grpc://"+w.proxy.Address(), client.GRPCOptions{Token: "read-token-0123456789"}))(t)
	defer c.Close()
	for _, m := range api.Methods() {
		if strings.HasPrefix(m.Name, "guest.") {
			_, err := c.Call(w.ctx, m.Name, []byte(`{}`))
			testkit.WantError(t, err, api.CodeForbidden, "scope full")
		}
	}
	if err := os.WriteFile(w.tokenFile, []byte("full-token-0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if check := testkit.Must(w.RuntimeCheck(w.ctx, api.RuntimeCheckParams{Runtime: "trl", Place: &o}))(t); !check.Reachable || !strings.HasPrefix(check.Engine, "trl ") || check.OS == "" {
		t.Errorf("%+v", check)
	}
}

// TestTerminal: a terminal on the far daemon is typed into and read, over connections that break.
func TestTerminal(t *testing.T) {
	w := startWorld(t, nil, nil)
	s := w.create(api.SessionCreateParams{Kind: api.KindTerminal, Command: []string{"/bin/sh"}, Record: true})
	for i := range 3 {
		testkit.Must(w.SessionInput(w.ctx, api.SessionInputParams{SessionID: s.SessionID, Text: "echo a''b\n", WriteID: fmt.Sprint(i)}))(t)
		w.proxy.Cut()
	}
	testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: s.SessionID, Text: "ab"}))(t)
	testkit.Must(w.SessionInput(w.ctx, api.SessionInputParams{SessionID: s.SessionID, Text: "exit 3\n", WriteID: "exit"}))(t)
	w.ended(s.SessionID)
	if info := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: s.SessionID}))(t); info.ExitCode == nil || *info.ExitCode != 3 {
		t.Errorf("%+v", info)
	}
	testkit.Eventually(t, "the guest has ended", func() bool { return len(w.guests(t)) == 0 })
}

// TestMaxSessions: guests count as sessions of the far daemon.
func TestMaxSessions(t *testing.T) {
	w := startWorld(t, nil, []string{"--max-sessions", "1"})
	w.create(api.SessionCreateParams{})
	_, err := w.SessionCreate(w.ctx, w.on(api.SessionCreateParams{}))
	testkit.WantError(t, err, api.CodeMaxSessionsReached, "max_sessions")
	_, err = w.there.SessionCreate(w.ctx, api.SessionCreateParams{})
	testkit.WantError(t, err, api.CodeMaxSessionsReached, "max_sessions")
}

// TestUnreachable: while the far daemon cannot be reached, calls say so with advice, events tell when that
// began and ended, and a session that is destroyed meanwhile is removed there by a later daemon.
func TestUnreachable(t *testing.T) {
	w := startWorld(t, nil, nil)
	id := w.create(api.SessionCreateParams{Name: "build"}).SessionID
	x := testkit.Must(w.ExecStart(w.ctx, api.ExecParams{SessionID: id, Command: "i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); sleep 0.01; done; exit 7"}))(t)
	lose := func() {
		w.proxy.Refuse()
		w.proxy.Cut()
	}
	lose()
	_, err := w.ExecRun(w.ctx, api.ExecParams{SessionID: id, Argv: []string{"true"}})
	testkit.WantError(t, err, api.CodeRuntimeUnavailable, "end it with session.destroy and force")
	info := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: id}))(t)
	if info.Reachable || info.UnreachableSince == nil || info.UnreachableWhy == "" {
		t.Errorf("while it is unreachable: %+v", info.SessionInfo)
	}
	w.proxy.Listen()
	testkit.Must(w.ExecWait(w.ctx, api.ExecWaitParams{ExecIDs: []string{x.ExecID}, Until: []string{api.UntilExit}}))(t)
	if info := testkit.Must(w.ExecInfo(w.ctx, api.ExecInfoParams{ExecID: x.ExecID}))(t); info.Outcome == nil || info.Outcome.ExitCode != 7 || info.StdoutBytes != 10*7+90*8+100*9 {
		t.Errorf("the command: %+v", info)
	}
	info = testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: id}))(t)
	if !info.Reachable || info.UnreachableSince != nil || info.UnreachableWhy != "" {
		t.Errorf("when it is reachable again: %+v", info.SessionInfo)
	}
	events := testkit.Must(w.EventSubscribe(w.ctx, api.EventSubscribeParams{AfterSeq: new(int64(0))}))(t)
	defer events.Close()
	for _, want := range []string{api.EventSessionUnreachable, api.EventSessionReachable} {
		for got := ""; got != want; {
			e := testkit.Must(events.Recv())(t)
			if got = e.Type; got == want && (e.SessionID != id || want == api.EventSessionUnreachable && e.Cause == "") {
				t.Errorf("%+v", e)
			}
		}
	}

	lose()
	testkit.Must(w.SessionDestroy(w.ctx, api.SessionDestroyParams{SessionID: id, Force: true}))(t)
	if list := w.guests(t); len(list) != 1 {
		t.Errorf("guests of the far daemon: %+v", list)
	}
	w.Client = w.near.Crash(t, nil)
	w.proxy.Listen()
	r := testkit.Must(w.RuntimePrune(w.ctx, api.RuntimePruneParams{}))(t)
	testkit.Eventually(t, "the far daemon has no guest", func() bool { return len(w.guests(t)) == 0 })
	if len(r.Pending) > 0 {
		t.Errorf("pending: %+v", r)
	}
}
