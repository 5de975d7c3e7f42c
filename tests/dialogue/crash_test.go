package dialogue_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// everything is a script in which a lot happens, always in the same order.
const everything = "think about it; say hello, world; tool Bash ls; fail-tool Read /x; ask Bash rm; subagent; orphan-child; " +
	"garbage; blank; crlf with an end of its own; unknown-type; twice said; cut short; stderr oops; background-task; say nearly done"

// messageID makes runs comparable.
const messageID = "11111111-2222-4333-8444-555555555555"

// allowAll answers requests at once.
var allowAll = &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "*", Action: "allow"}}}

// untimed is an event without what differs from run to run.
func untimed(ev api.DialogueEvent) string {
	ev.At = time.Time{}
	text, _ := json.Marshal(ev)
	return string(text)
}

// same compares what two runs are to have in common.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if !bytes.Equal(g, w) {
		at := 0
		for at < min(len(g), len(w)) && g[at] == w[at] {
			at++
		}
		around := func(b []byte) []byte { return b[max(0, at-200):min(len(b), at+200)] }
		t.Errorf("%s differs at byte %d:\ngot  …%s…\nwant …%s…", what, at, around(g), around(w))
	}
}

// tale is what is left of a run that can be compared with that of another.
type tale struct {
	events     []string
	transcript api.DialogueTranscriptResult
	stdout     []byte
}

func (w *world) tale(id string) tale {
	w.Helper()
	r := tale{transcript: w.transcript(id), stdout: w.raw(id, 0, "")}
	r.transcript.DialogueID = ""
	for i := range r.transcript.Requests {
		r.transcript.Requests[i].OpenedAt, r.transcript.Requests[i].AnsweredAt = nil, nil
	}
	for _, ev := range w.events(id) {
		r.events = append(r.events, untimed(ev))
	}
	return r
}

func (got tale) equals(t *testing.T, what string, want tale) {
	t.Helper()
	same(t, what+": stdout", string(got.stdout), string(want.stdout))
	same(t, what+": transcript", got.transcript, want.transcript)
	for i := range min(len(got.events), len(want.events)) {
		if got.events[i] != want.events[i] {
			t.Errorf("%s: event %d:\ngot  %s\nwant %s", what, i+1, got.events[i], want.events[i])
			return
		}
	}
	if len(got.events) != len(want.events) {
		t.Errorf("%s: %d events, want %d", what, len(got.events), len(want.events))
	}
}

// TestExitEverywhere: wherever a program ends, in or between its lines, the record is that
// of a run which does not end there, up to the last whole line; then what was open is
// closed, and then comes the one end.
func TestExitEverywhere(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := fake("-seed", "everywhere")
	p.Policy = allowAll
	d := w.create(p)
	f := w.follow(d.DialogueID, 0)
	testkit.Must(w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Text: everything, MessageID: messageID}))(w)
	f.until(api.DialogueEventTurnEnded)
	f.until(api.DialogueEventTurnEnded) // that of the task in the background
	f.state(api.DialogueIdle)
	whole, events := w.raw(d.DialogueID, 1, ""), w.events(d.DialogueID)
	w.terminate(d.DialogueID)
	var cuts []int
	ready, begin, lines := bytes.IndexByte(whole, '\n')+1, 0, 0
	for line := range bytes.Lines(whole) {
		end := begin + len(line)
		if !bytes.Contains(line, []byte("_delta")) || lines%4 == 0 { // there are many of those
			cuts = append(cuts, end, []int{begin + len(line)/2, end - 1}[lines%2])
		}
		lines, begin = lines+1, end
	}
	t.Logf("%d bytes in %d lines, %d events, %d cuts", len(whole), lines, len(events), len(cuts))
	var running sync.WaitGroup
	jobs := make(chan int)
	for range 4 {
		running.Go(func() {
			for at := range jobs {
				w.exitAt(at, ready, whole, events)
			}
		})
	}
	for _, at := range cuts {
		jobs <- at
	}
	close(jobs)
	running.Wait()
}

// exitAt lets an agent end behind a byte, and compares the record with that of one which
// went on.
func (w *world) exitAt(at, ready int, whole []byte, events []api.DialogueEvent) {
	how, code, signal := "kill9", 137, "SIGKILL"
	if at%3 == 0 {
		how, code, signal = "5", 5, ""
	}
	p := fake("-seed", "everywhere", "-die-at", fmt.Sprint(at), "-die-how", how)
	p.Policy = allowAll
	d, err := w.DialogueCreate(w.ctx, p)
	if err != nil {
		if at > ready || api.AsError(err).Code != api.CodeAgentFailed {
			w.Errorf("exit at %d: %v", at, err)
		}
		return
	}
	send := api.DialogueSendParams{DialogueID: d.DialogueID, Text: everything, MessageID: messageID}
	if _, err := w.DialogueSend(w.ctx, send); err != nil {
		if api.AsError(err).Code != api.CodeDialogueEnded {
			w.Errorf("exit at %d: %v", at, err)
		}
		return
	}
	stream, err := w.DialogueEvents(w.ctx, api.DialogueEventsParams{DialogueID: d.DialogueID})
	if err != nil {
		w.Error(err)
		return
	}
	defer stream.Close()
	var got []api.DialogueEvent
	for {
		push, err := stream.Recv()
		if err != nil {
			w.Errorf("exit at %d: %v", at, err)
			return
		}
		if push.Type == api.EventEnd {
			break
		}
		got = append(got, *push.Event)
	}
	tail := whole[bytes.LastIndexByte(whole[:at], '\n')+1 : at]
	begun := at - len(tail) // of the line that it did not end
	n := 0
	for n < len(events) && (events[n].Offset == nil || *events[n].Offset < int64(begun)) {
		n++
	}
	if len(got) <= n {
		w.Errorf("exit at %d: %d events, want more than %d:\n%s", at, len(got), n, brief(got))
		return
	}
	for i := range n {
		if untimed(got[i]) != untimed(events[i]) {
			w.Errorf("exit at %d: event %d:\ngot  %s\nwant %s", at, i+1, untimed(got[i]), untimed(events[i]))
			return
		}
	}
	last := got[len(got)-1]
	for _, ev := range got[n : len(got)-1] {
		if ev.Type == api.DialogueEventEnded || ev.Offset != nil {
			w.Errorf("exit at %d: behind what was heard comes %s", at, untimed(ev))
		}
	}
	end := last.Ended
	cause := "unexpected_exit"
	if w.atRest(events[:n]) && len(got) == n+1 {
		cause = "exited"
	}
	if last.Type != api.DialogueEventEnded || end.Cause != cause || end.ExitCode == nil || *end.ExitCode != code || end.Signal != signal || end.Tail != strings.ToValidUTF8(string(tail), "\ufffd") {
		w.Errorf("exit at %d: %s, want %s %d %q", at, untimed(last), cause, code, tail)
	}
	if r, err := w.DialogueTranscript(w.ctx, api.DialogueTranscriptParams{DialogueID: d.DialogueID}); err != nil || len(openIn(r)) > 0 || r.State != api.DialogueEnded || r.Seq != last.Seq {
		w.Errorf("exit at %d: open: %q, %v", at, openIn(r), err)
	}
}

// atRest reports whether the last state of a record is idle, with nothing to come.
func (w *world) atRest(events []api.DialogueEvent) bool {
	rest := false
	for _, ev := range events {
		if ev.Type == api.DialogueEventState {
			rest = ev.State == api.DialogueIdle
		}
	}
	return rest
}

// gates is where a script waits for the test.
type gates struct {
	t   *testing.T
	dir string
}

func newGates(t *testing.T) gates { return gates{t, t.TempDir()} }

// reached waits until a script waits at a gate.
func (g gates) reached(name string) {
	g.t.Helper()
	testkit.Eventually(g.t, "the agent waits at "+name, func() bool {
		_, err := os.Stat(filepath.Join(g.dir, name+".reached"))
		return err == nil
	})
}

func (g gates) open(name string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name+".open"), nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// TestDaemonDies in the middle of a line, in the middle of a turn, while a request waits,
// while a task works in the background: the record does not show it.
func TestDaemonDies(t *testing.T) {
	w := start(t)
	run := func(deaths map[string]bool) tale {
		g := newGates(t)
		d := w.create(fake("-seed", "dies", "-gates", g.dir))
		die := func(where string) {
			if deaths[where] {
				w.restart(nil)
			}
		}
		pass := func(gate string) {
			g.reached(gate)
			die(gate)
			g.open(gate)
		}
		die("idle")
		script := "say hello; split line something long enough to be cut; tool Bash ls; gate turn; ask Bash rm; ask Bash rmdir; background-task task; say end"
		testkit.Must(w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Text: script, MessageID: messageID}))(w)
		die("sent")
		pass("line")
		pass("turn")
		f := w.follow(d.DialogueID, 0)
		first := f.until(api.DialogueEventRequestOpened)
		if deaths["request"] {
			die("request")
			f = w.follow(d.DialogueID, f.after)
		}
		if info := w.info(d.DialogueID); info.State != api.DialogueRequiresAction || info.Requests != 1 {
			t.Errorf("%+v", info)
		}
		if err := w.respond(d.DialogueID, first.Request.RequestID, "allow"); err != nil {
			t.Error(err)
		}
		second := f.until(api.DialogueEventRequestOpened)
		if err := w.respond(d.DialogueID, second.Request.RequestID, "deny"); err != nil {
			t.Error(err)
		}
		die("answered")
		if err := w.respond(d.DialogueID, second.Request.RequestID, "allow"); api.AsError(err).Code != api.CodeConflict {
			t.Errorf("a second answer: %v", err)
		}
		pass("task")
		f = w.follow(d.DialogueID, f.after)
		f.until(api.DialogueEventTurnEnded, func(ev *api.DialogueEvent) bool { return ev.Turn.TurnID == "t1.2" })
		f.state(api.DialogueIdle)
		die("end")
		// The same message is not run again, by either daemon.
		r := testkit.Must(w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Text: script, MessageID: messageID}))(w)
		if !r.Repeated {
			t.Error("the message was run twice")
		}
		got := w.tale(d.DialogueID)
		w.terminate(d.DialogueID)
		return got
	}
	want := run(nil)
	if len(want.transcript.Items) < 8 || len(want.transcript.Requests) != 2 || len(want.transcript.Turns) != 2 {
		t.Fatalf("%+v", want.transcript)
	}
	all := map[string]bool{}
	for _, where := range []string{"idle", "sent", "line", "turn", "request", "answered", "task", "end"} {
		run(map[string]bool{where: true}).equals(t, "killed at "+where, want)
		all[where] = true
	}
	run(all).equals(t, "killed everywhere", want)
}

// TestAgentDiesWithoutDaemon: what happens while there is no daemon is found by the next.
func TestAgentDiesWithoutDaemon(t *testing.T) {
	w := start(t)
	g := newGates(t)
	d := w.create(fake("-seed", "alone", "-gates", g.dir))
	w.send(d.DialogueID, "say hello; gate a; say nobody listens; gate b; ask Bash rm; exit 9")
	g.reached("a")
	w.restart(func() {
		g.open("a")
		g.reached("b")
		g.open("b")
	})
	f := w.follow(d.DialogueID, 0)
	opened := f.until(api.DialogueEventRequestOpened)
	if w.said(d.DialogueID) != "nobody listens" {
		t.Errorf("%s", brief(f.events))
	}
	w.daemon.Kill9()
	w.daemon.Restart(t)
	w.Client = w.daemon.Client(t)
	if err := w.respond(d.DialogueID, opened.Request.RequestID, "allow"); err != nil {
		t.Error(err)
	}
	w.follow(d.DialogueID, opened.Seq).drain()
	if end := w.ended(d, "unexpected_exit"); end.ExitCode == nil || *end.ExitCode != 9 {
		t.Errorf("%+v", end)
	}
	before := w.tale(d.DialogueID)
	w.restart(nil)
	w.tale(d.DialogueID).equals(t, "after another daemon", before)
}

// TestResume: an agent that has ended goes on in the same dialogue, with the same
// conversation of its own, after a crash and after another daemon.
func TestResume(t *testing.T) {
	w := start(t, trltest.Env("FROM_DAEMON=yes"))
	p := fake()
	p.Name, p.Model, p.PermissionMode, p.Env = "again", "model-x", "plan", map[string]string{"SECRET": "one"}
	d := w.create(p)
	w.says("again", "say first; env SECRET")
	if w.said("again") != "one" {
		t.Errorf("%q", w.said("again"))
	}
	native := w.info("again").NativeSession
	f := w.follow("again", 0)
	w.send("again", "say x; kill9")
	f.drain()
	w.ended(d, "unexpected_exit")
	for epoch := 2; epoch <= 3; epoch++ {
		if epoch == 3 {
			w.terminate("again")
			w.restart(nil)
		}
		before := w.info("again").Seq
		info := testkit.Must(w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: "again", Env: map[string]string{"SECRET": "two"}}))(w)
		if info.DialogueID != d.DialogueID || info.Epoch != epoch || info.State != api.DialogueIdle || info.Ended != nil || info.SessionID == d.SessionID {
			t.Fatalf("%+v", info)
		}
		w.says("again", "env SECRET")
		if w.said("again") != "two" {
			t.Errorf("%q", w.said("again"))
		}
		w.says("again", "argv")
		var argv []string
		_ = json.Unmarshal([]byte(w.said("again")), &argv)
		want := map[string]string{"--resume": native, "--model": "model-x", "--permission-mode": "plan"}
		for i := range argv[:len(argv)-1] {
			if want[argv[i]] == argv[i+1] {
				delete(want, argv[i])
			}
		}
		if len(want) > 0 {
			t.Errorf("missing %q in %q", want, argv)
		}
		events := w.events("again")
		if ev := events[before]; ev.Epoch != epoch || ev.Seq != before+1 {
			t.Errorf("%s", untimed(ev))
		}
		if got := w.info("again"); got.NativeSession != native || got.Turns < epoch {
			t.Errorf("%+v", got)
		}
	}
	texts := 0
	for _, item := range w.transcript("again").Items {
		if item.Kind == "agent" {
			texts++
		}
	}
	if texts != 7 { // first, one, x; two, argv; two, argv
		t.Errorf("%d texts of the agent", texts)
	}
	_, err := w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: "again"})
	testkit.WantError(t, err, api.CodeConflict, "has not ended")
}

// TestResumeCut: a daemon that dies while an agent is being resumed leaves it to the next,
// which comes to the same as any later one.
func TestResumeCut(t *testing.T) {
	w := start(t, trltest.Args("--dialogue-start-timeout-s", "20"))
	d := w.create(fake("-slow", "500ms"))
	w.terminate(d.DialogueID)
	begun := make(chan error, 1)
	go func() {
		_, err := w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID})
		begun <- err
	}()
	testkit.Eventually(t, "it is being resumed", func() bool {
		text, err := os.ReadFile(filepath.Join(w.daemon.StateDir, "dialogues", d.DialogueID, "dialogue.json"))
		return err == nil && strings.Contains(string(text), `"epoch": 2`)
	})
	w.restart(func() { <-begun })
	testkit.Eventually(t, "it has answered", func() bool { return w.info(d.DialogueID).State == api.DialogueIdle })
	w.says(d.DialogueID, "say hello")
	w.restart(nil)
	w.says(d.DialogueID, "say hello again")
	if log := w.daemon.Stderr(); strings.Contains(log, "another version") {
		t.Error("the next daemon makes something else of it")
	}
	w.terminate(d.DialogueID)
}
