package dialogue_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// away is a daemon with dialogues whose agents run on another one, behind a proxy.
type away struct {
	*world
	far       *trltest.Daemon
	there     *client.Client // by its socket
	proxy     *testkit.Proxy
	tokenFile string
}

func startAway(t *testing.T, args ...string) *away {
	t.Helper()
	t.Parallel() // they wait more than they work
	far := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0", "--retention-s", "60"))
	a := &away{world: start(t, trltest.Args(args...)), far: far, there: far.Client(t), tokenFile: filepath.Join(t.TempDir(), "token")}
	a.proxy = testkit.NewProxy(t, strings.TrimPrefix(far.GRPC(t), "grpc://"))
	t.Cleanup(func() { a.daemon.Stop(t) }) // before the proxy closes
	a.token(far.Token(t))
	return a
}

// token writes the one that is shown to the other daemon.
func (a *away) token(token string) {
	a.Helper()
	if err := os.WriteFile(a.tokenFile, []byte(token+"\n"), 0o600); err != nil {
		a.Fatal(err)
	}
}

// fake is a dialogue with a fake agent over there.
func (a *away) fake(flags ...string) api.DialogueCreateParams {
	p := fake(flags...)
	p.Runtime, p.Remote = "remote", &api.DialogueRemote{Address: "grpc://" + a.proxy.Address(), TokenFile: a.tokenFile}
	return p
}

// farRestarts kills the other daemon; its sessions go on.
func (a *away) farRestarts(between func()) {
	a.Helper()
	a.far.Kill9()
	if between != nil {
		between()
	}
	a.far.Restart(a.T)
	a.there = a.far.Client(a.T)
	a.proxy.Aim(strings.TrimPrefix(a.far.GRPC(a.T), "grpc://"))
}

// farSessions are those that live over there.
func (a *away) farSessions() []api.SessionInfo {
	a.Helper()
	return testkit.Must(a.there.SessionList(a.ctx, api.SessionListParams{}))(a.world).Sessions
}

// talk is the same conversation each time; at is called where it could be disturbed.
func (w *world) talk(p api.DialogueCreateParams, g gates, at func(where string)) tale {
	w.Helper()
	d := w.create(p)
	pass := func(gate string) {
		w.Helper()
		g.reached(gate)
		at(gate)
		g.open(gate)
	}
	at("idle")
	script := "say hello; split line something long enough to be cut; tool Bash ls; gate turn; lines 30; ask Bash rm; say between; ask Bash rmdir; " +
		"background-task task; line 20KiB; say end"
	testkit.Must(w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Text: script, MessageID: messageID}))(w)
	at("sent")
	pass("line")
	pass("turn")
	f := w.follow(d.DialogueID, 0)
	for _, decision := range []string{"allow", "deny"} {
		request := f.until(api.DialogueEventRequestOpened).Request
		at("request " + decision)
		if err := w.respond(d.DialogueID, request.RequestID, decision); err != nil {
			w.Error(err)
		}
	}
	at("answered")
	pass("task")
	f = w.follow(d.DialogueID, f.after)
	f.until(api.DialogueEventTurnEnded, func(ev *api.DialogueEvent) bool { return ev.Turn.TurnID == "t1.2" })
	f.state(api.DialogueIdle)
	got := w.tale(d.DialogueID)
	w.terminate(d.DialogueID)
	return got
}

// TestRemoteIsAsLocal: where an agent runs, and what is done to the connection, cannot be
// told from its record.
func TestRemoteIsAsLocal(t *testing.T) {
	a := startAway(t)
	run := func(what string, p api.DialogueCreateParams, g gates, at func(string)) tale {
		t.Helper()
		began := time.Now()
		got := a.talk(p, g, at)
		t.Logf("%s: %d events in %s", what, len(got.events), time.Since(began).Round(time.Millisecond))
		return got
	}
	g := newGates(t)
	want := run("local", fake("-seed", "far", "-gates", g.dir), g, func(string) {})
	if len(want.transcript.Turns) != 2 || len(want.transcript.Requests) != 2 || len(want.transcript.Items) < 40 {
		t.Fatalf("%d turns, %d requests, %d items", len(want.transcript.Turns), len(want.transcript.Requests), len(want.transcript.Items))
	}
	for _, c := range []struct {
		name string
		at   func(where string)
	}{
		{"undisturbed", func(string) {}},
		{"cut everywhere", func(string) { a.proxy.Cut() }},
		{"away for a while", func(string) {
			a.proxy.Refuse()
			a.proxy.Cut()
			time.Sleep(50 * time.Millisecond)
			a.proxy.Listen()
		}},
		{"this daemon dies", func(string) { a.restart(nil) }},
		{"the other daemon dies", func(string) { a.farRestarts(nil) }},
		{"chaos", func(where string) {
			if where == "idle" {
				// A push of up to 64 KiB needs a connection that carries all of it, so the limit grows.
				a.proxy.Chaos(testkit.Chaos{Faults: []testkit.Fault{testkit.FaultCut, testkit.FaultReset}, Within: 40_000, Grows: true})
				a.proxy.Cut()
			}
		}},
	} {
		g := newGates(t)
		run(c.name, a.fake("-seed", "far", "-gates", g.dir), g, c.at).equals(t, c.name, want)
		if c.name == "chaos" {
			a.proxy.Calm()
			t.Logf("broken connections: %v", a.proxy.Faults())
			if len(a.proxy.Faults()) == 0 {
				t.Error("there was no chaos")
			}
		}
		if left := a.farSessions(); len(left) != 0 {
			t.Errorf("%s: the session over there is still there: %+v", c.name, left)
		}
	}
}

// TestRemoteOwnership: over there it can be seen whose the session is, too.
func TestRemoteOwnership(t *testing.T) {
	a := startAway(t)
	d := a.create(a.fake())
	list := a.farSessions()
	if len(list) != 1 || list[0].SessionID != d.SessionID || strings.Join(list[0].Tags, " ") != api.TagDialogue+" "+d.DialogueID ||
		list[0].Guest == nil || !list[0].Guest.Connected {
		t.Fatalf("%+v", list)
	}
	here := testkit.Must(a.SessionList(a.ctx, api.SessionListParams{}))(a.world).Sessions
	if len(here) != 1 || here[0].SessionID != d.SessionID || here[0].Place == nil || here[0].Place.Address != "grpc://"+a.proxy.Address() || here[0].Guest != nil {
		t.Errorf("%+v", here)
	}
	_, err := a.there.SessionInput(a.ctx, api.SessionInputParams{SessionID: d.SessionID, Text: "x\n"})
	testkit.WantError(t, err, api.CodeConflict, d.DialogueID)
	_, err = a.there.SessionDestroy(a.ctx, api.SessionDestroyParams{SessionID: d.SessionID})
	testkit.WantError(t, err, api.CodeConflict, d.DialogueID)
	a.says(d.DialogueID, "spawn sleep 1000")
	pid := a.spawned(d.DialogueID)
	a.terminate(d.DialogueID)
	if left := a.farSessions(); len(left) != 0 || alive(pid) {
		t.Errorf("left over there: %+v; process %d is alive: %v", left, pid, alive(pid))
	}

	// One that ends by itself over there has ended here.
	d = a.create(a.fake())
	f := a.follow(d.DialogueID, 0)
	a.send(d.DialogueID, "say x; exit-mid-line 6")
	f.drain()
	if end := a.ended(d, "unexpected_exit"); end.ExitCode == nil || *end.ExitCode != 6 || end.Tail == "" {
		t.Errorf("%+v", end)
	}
}

// TestRemoteCreateIsAtomic: when it cannot be, nothing is left on either side.
func TestRemoteCreateIsAtomic(t *testing.T) {
	a := startAway(t, "--dialogue-start-timeout-s", "4") // in which the other daemon must answer
	for _, c := range []struct {
		name   string
		params api.DialogueCreateParams
		code   api.Code
	}{
		{"missing program", api.DialogueCreateParams{Argv: []string{"/no/such/program"}}, api.CodeAgentFailed},
		{"refuses", fake("-fail", "Invalid API key"), api.CodeAgentFailed},
		{"silent", fake("-silent"), api.CodeAgentFailed},
		{"wrong token", fake(), api.CodeAuthFailed},
		{"unreachable", fake(), ""},
	} {
		p := c.params
		p.Agent, p.Runtime, p.Remote, p.WorkingDir = "claude", "remote", a.fake().Remote, "/"
		if c.name == "wrong token" {
			a.token("not the token at all, but long enough")
		}
		if c.name == "unreachable" {
			a.proxy.Refuse()
		}
		_, err := a.DialogueCreate(a.ctx, p)
		switch {
		case err == nil:
			t.Errorf("%s: it begins", c.name)
		case c.code != "":
			testkit.WantError(t, err, c.code, "")
		}
		a.nothingLeft(c.name)
		testkit.Eventually(t, "nothing is left over there: "+c.name, func() bool { return len(a.farSessions()) == 0 })
	}
}

// failed waits until the dialogue cannot reach its agent.
func (a *away) failed(id string, after int64, reason string, retry bool) api.DialogueInfo {
	a.Helper()
	f := a.follow(id, after)
	defer f.close()
	f.state(api.DialogueError)
	info := a.info(id)
	if info.State != api.DialogueError || info.Error == nil || info.Error.Code != "reconnect_failed" || info.Error.Reason != reason || info.Error.Retry != retry || info.Error.Message == "" {
		a.Fatalf("%+v, %+v; want %s", info, info.Error, reason)
	}
	_, err := a.DialogueSend(a.ctx, api.DialogueSendParams{DialogueID: id, Text: "x"})
	testkit.WantError(a.T, err, api.CodeRuntimeUnavailable, "dialogue.retry")
	return info
}

// back checks that the dialogue goes on as if nothing had been.
func (a *away) back(id string, g gates, gate string) {
	a.Helper()
	info := testkit.Must(a.DialogueRetry(a.ctx, api.DialogueRetryParams{DialogueID: id}))(a.world)
	if info.State != api.DialogueRunning || info.Error != nil {
		a.Fatalf("%+v, %+v", info, info.Error)
	}
	f := a.follow(id, 0)
	g.open(gate)
	if end := f.until(api.DialogueEventTurnEnded, func(ev *api.DialogueEvent) bool { return ev.Turn.Text == "through "+gate }); end.Turn.Outcome != "completed" {
		a.Errorf("%+v", end.Turn)
	}
	f.state(api.DialogueIdle)
	f.close()
}

// TestUnreachable: the dialogue reports that the other daemon is away; retry finds it again.
func TestUnreachable(t *testing.T) {
	a := startAway(t, "--dialogue-reconnect-s", "0.5")
	g := newGates(t)
	d := a.create(a.fake("-gates", g.dir))
	r := a.send(d.DialogueID, "say hello; gate a; say in between; gate b; say through b")
	g.reached("a")
	a.proxy.Refuse()
	a.proxy.Cut()
	a.failed(d.DialogueID, r.Seq, "unreachable", true)
	g.open("a") // it goes on alone
	g.reached("b")
	info := testkit.Must(a.DialogueRetry(a.ctx, api.DialogueRetryParams{DialogueID: d.DialogueID}))(a.world)
	if info.State != api.DialogueError {
		t.Errorf("%+v", info)
	}
	a.restart(nil) // another daemon does not reach it either
	a.failed(d.DialogueID, info.Seq, "unreachable", true)
	a.proxy.Listen()
	a.back(d.DialogueID, g, "b")
	texts := map[string]int{}
	for _, item := range a.transcript(d.DialogueID).Items {
		if item.Kind == "agent" {
			texts[item.Parts[0].Text]++
		}
	}
	if len(texts) != 3 || texts["in between"] != 1 {
		t.Errorf("%v", texts)
	}

	// It can be terminated although the other daemon cannot be reached.
	r = a.send(d.DialogueID, "say again; hang")
	a.follow(d.DialogueID, r.Seq).until(api.DialogueEventTurnStarted)
	a.proxy.Refuse()
	a.proxy.Cut()
	a.failed(d.DialogueID, r.Seq, "unreachable", true)
	if info := a.terminate(d.DialogueID); info.State != api.DialogueEnded {
		t.Errorf("%+v", info)
	}
	if end := a.ended(d, "closed"); !strings.Contains(end.Text, "could not be reached") {
		t.Errorf("%+v", end)
	}

	// What could not be ended is not forgotten: there are never two of them.
	_, err := a.DialogueResume(a.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID})
	testkit.WantError(t, err, api.CodeRuntimeUnavailable, "may still run in its place")
	if list := a.farSessions(); len(list) != 1 {
		t.Errorf("over there are %+v", list)
	}
	a.proxy.Listen()
	info = testkit.Must(a.DialogueResume(a.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID}))(a.world)
	if list := a.farSessions(); len(list) != 1 || list[0].SessionID != info.SessionID {
		t.Errorf("over there are %+v, want %s", list, info.SessionID)
	}
	a.terminate(d.DialogueID)
}

// TestEndsWhenReached: what is terminated while it cannot be reached ends when it can be.
func TestEndsWhenReached(t *testing.T) {
	a := startAway(t, "--kill-grace-s", "0.2")
	d := a.create(a.fake())
	r := a.send(d.DialogueID, "say hello; hang")
	a.follow(d.DialogueID, r.Seq).until(api.DialogueEventTurnStarted)
	a.proxy.Refuse()
	a.proxy.Cut()
	if info := a.terminate(d.DialogueID); info.State != api.DialogueEnded {
		t.Errorf("%+v", info)
	}
	if list := a.farSessions(); len(list) != 1 {
		t.Errorf("over there are %+v", list)
	}
	a.proxy.Listen()
	testkit.Eventually(t, "nothing is left over there", func() bool { return len(a.farSessions()) == 0 })

	// The same when nothing is kept of it.
	d = a.create(a.fake())
	a.proxy.Refuse()
	a.proxy.Cut()
	testkit.Must(a.DialogueTerminate(a.ctx, api.DialogueTerminateParams{DialogueID: d.DialogueID, Forget: true}))(a.world)
	if _, err := a.DialogueInfo(a.ctx, api.DialogueInfoParams{DialogueID: d.DialogueID}); !errors.Is(err, api.ErrDialogueNotFound) {
		t.Errorf("what is forgotten: %v", err)
	}
	a.proxy.Listen()
	testkit.Eventually(t, "nothing is left over there", func() bool { return len(a.farSessions()) == 0 })
	testkit.Eventually(t, "nothing is left here", func() bool {
		left, _ := filepath.Glob(filepath.Join(a.daemon.StateDir, "dialogues", "*"+d.DialogueID))
		return len(left) == 0
	})
}

// TestCredentialsRejected: they are not tried again and again; other ones are, when asked for.
func TestCredentialsRejected(t *testing.T) {
	a := startAway(t)
	g := newGates(t)
	d := a.create(a.fake("-gates", g.dir))
	r := a.send(d.DialogueID, "say hello; gate a; say through a")
	g.reached("a")
	fresh := strings.Repeat("0123456789abcdef", 4)
	a.farRestarts(func() {
		if err := os.WriteFile(filepath.Join(a.far.StateDir, "token"), []byte(fresh+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	info := a.failed(d.DialogueID, r.Seq, "auth_rejected", false)
	if _, err := a.DialogueRetry(a.ctx, api.DialogueRetryParams{DialogueID: d.DialogueID}); err != nil && api.AsError(err).Code != api.CodeAuthFailed {
		t.Errorf("%v", err)
	}
	a.failed(d.DialogueID, info.Seq, "auth_rejected", false)
	if strings.Contains(a.daemon.Stderr(), fresh) {
		t.Error("the log has the token")
	}
	a.token(fresh)
	a.back(d.DialogueID, g, "a")
}

// TestRunnerGone: TRL does not look for a session that has ended; the conversation can be resumed.
func TestRunnerGone(t *testing.T) {
	a := startAway(t)
	d := a.create(a.fake())
	a.says(d.DialogueID, "say hello")
	r := a.send(d.DialogueID, "say x; hang")
	a.follow(d.DialogueID, r.Seq).until(api.DialogueEventTurnStarted)
	pid := testkit.Must(a.there.SessionInfo(a.ctx, api.SessionInfoParams{SessionID: d.SessionID}))(a.world).RunnerPID
	a.proxy.Refuse()
	a.farRestarts(func() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	})
	a.proxy.Listen()
	a.proxy.Cut()
	f := a.follow(d.DialogueID, r.Seq)
	var ended *api.DialogueEnd
	for ended == nil {
		ev := f.next()
		if ev == nil {
			t.Fatal("the stream ended without a word")
		}
		if ev.Type == api.DialogueEventState && ev.State == api.DialogueError {
			info := a.info(d.DialogueID)
			if info.Error == nil || info.Error.Reason != "session_gone" || info.Error.Retry {
				t.Fatalf("%+v", info.Error)
			}
			break
		}
		ended = ev.Ended
	}
	if ended != nil && ended.Cause != "unexpected_exit" {
		t.Errorf("%+v", ended)
	}
	info := testkit.Must(a.DialogueResume(a.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID}))(a.world)
	if info.Epoch != 2 || info.State != api.DialogueIdle || info.Error != nil {
		t.Errorf("%+v", info)
	}
	if end := a.says(d.DialogueID, "say here again").Turn; end.Text != "here again" {
		t.Errorf("%+v", end)
	}
	a.terminate(d.DialogueID)
	a.ended(info, "closed")
}
