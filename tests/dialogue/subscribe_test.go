package dialogue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// announcements reads the events of dialogues in the journal, up to one of a type.
type announcements struct {
	w      *world
	stream api.Stream
	last   int64
}

func (w *world) announcements(after int64) *announcements {
	w.Helper()
	s := testkit.Must(w.EventSubscribe(w.ctx, api.EventSubscribeParams{Types: []string{"dialogue"}, AfterSeq: &after}))(w)
	w.Cleanup(func() { s.Close() })
	return &announcements{w, s, after}
}

// until returns what was announced, one line for each event, up to one that ends with a text.
func (a *announcements) until(end string) string {
	a.w.Helper()
	var got []string
	for {
		ev, err := a.stream.Recv()
		if err != nil {
			a.w.Fatalf("%v after\n%s", err, strings.Join(got, "\n"))
		}
		if ev.Seq <= a.last || ev.At == nil || ev.SessionID == "" && ev.Type != api.EventDialogueRemoved {
			a.w.Errorf("event %+v after %d", ev, a.last)
		}
		a.last = ev.Seq
		line := strings.Join(slices.DeleteFunc([]string{strings.TrimPrefix(ev.Type, "dialogue."), ev.Name, string(ev.State), ev.RequestID, ev.TurnID, ev.Cause}, func(s string) bool { return s == "" }), " ")
		got = append(got, line)
		if strings.HasSuffix(line, end) {
			return strings.Join(got, "\n")
		}
	}
}

func (a *announcements) want(end, want string) {
	a.w.Helper()
	if got := a.until(end); got != strings.TrimSpace(want) {
		a.w.Errorf("got\n%s\nwant\n%s", got, strings.TrimSpace(want))
	}
}

// TestAnnounced: subscribers to the events of the daemon learn of every dialogue that is created,
// waits, works, ends and is removed, each time once, also if the daemon is killed meanwhile.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	w := start(t)
	a := w.announcements(0)
	p := fake()
	p.Name = "build"
	d := w.create(p)
	a.want("build idle", "created build starting\nstate build idle")
	w.send(d.DialogueID, "ask Bash rm; say done")
	a.want("requires_action", "state build running\nrequest_opened build running r1.1\nstate build requires_action")

	waiting := func() api.DialogueRequest {
		t.Helper()
		r := testkit.Must(w.DialogueRequests(w.ctx, api.DialogueRequestsParams{}))(t)
		for len(r.Recovering) > 0 { // each call waits for it
			r = testkit.Must(w.DialogueRequests(w.ctx, api.DialogueRequestsParams{}))(t)
		}
		if len(r.Requests) != 1 || r.Requests[0].DialogueID != d.DialogueID || r.Requests[0].Name != "build" || r.Requests[0].Agent != "claude" {
			t.Fatalf("%+v", r)
		}
		return r.Requests[0].Request
	}
	before := waiting()
	if before.RequestID != "r1.1" || before.Subject != "rm" || before.OpenedAt == nil {
		t.Errorf("%+v", before)
	}
	w.restart(nil)
	if after := waiting(); fmt.Sprint(after.RequestID, after.OpenedAt.UTC()) != fmt.Sprint(before.RequestID, before.OpenedAt.UTC()) {
		t.Errorf("%+v, was %+v", after, before)
	}
	if err := w.respond(d.DialogueID, "r1.1", "allow"); err != nil {
		t.Fatal(err)
	}
	a = w.announcements(a.last) // nothing comes again, although the daemon is another one
	a.want("build idle", "request_closed build requires_action r1.1\nstate build running\nturn_ended build running t1.1\nstate build idle")
	if r := testkit.Must(w.DialogueRequests(w.ctx, api.DialogueRequestsParams{State: "open"}))(t); r.Requests == nil || len(r.Requests) != 0 {
		t.Errorf("%+v", r)
	}
	w.terminate(d.DialogueID)
	a.want("closed", "ended build ended closed")
	testkit.Must(w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID}))(t)
	a.want("idle", "state build starting\nstate build idle")
	testkit.Must(w.DialogueTerminate(w.ctx, api.DialogueTerminateParams{DialogueID: d.DialogueID, Forget: true}))(t)
	a.want("removed build ended", "ended build ended closed\nremoved build ended")
}

// TestAnnouncedWhileNoDaemonRan: a daemon announces what happened before its start.
func TestAnnouncedWhileNoDaemonRan(t *testing.T) {
	t.Parallel()
	w := start(t)
	g := newGates(t)
	p := fake("-gates", g.dir)
	p.Name = "build"
	d := w.create(p)
	w.send(d.DialogueID, "gate a; ask Bash rm; say done")
	g.reached("a")
	a := w.announcements(0)
	a.until("running")
	w.restart(func() { g.open("a") })
	a = w.announcements(a.last)
	a.want("requires_action", "request_opened build running r1.1\nstate build requires_action")
	w.terminate(d.DialogueID)
}

// TestInfoForPeople: a list of dialogues shows what each is about, and what can be done with it.
func TestInfoForPeople(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := fake()
	p.Policy = allowAll
	d := w.create(p)
	if d.Title != "" || d.Preview != "" || d.Followers != 0 || d.Policy == nil || len(d.Policy.Rules) != 1 ||
		!slices.Contains(d.Capabilities, "editable") || !slices.Contains(d.Modes, "plan") || d.Context != nil {
		t.Errorf("%+v", d)
	}
	long := strings.Repeat("long ", 50)
	w.says(d.DialogueID, "say the\n  answer "+long)
	f := w.follow(d.DialogueID, 0)
	f.until(api.DialogueEventTurnEnded)
	check := func(when string, followers int) {
		t.Helper()
		got := w.info(d.DialogueID)
		if !strings.HasPrefix(got.Title, "say the answer long") || !strings.HasPrefix(got.Preview, "the answer long") || !strings.HasSuffix(got.Preview, "…") ||
			len([]rune(got.Preview)) != 120 || got.Followers != followers || got.Policy == nil || len(got.Capabilities) == 0 {
			t.Errorf("%s: %+v", when, got)
		}
	}
	check("followed", 1)
	f.close()
	passive := testkit.Must(w.DialogueEvents(w.ctx, api.DialogueEventsParams{DialogueID: d.DialogueID, Passive: true}))(t)
	if ev, err := passive.Recv(); err != nil || ev.Seq != 1 {
		t.Errorf("a passive reader: %+v, %v", ev, err)
	}
	defer passive.Close()
	testkit.Eventually(t, "nothing follows it", func() bool { return w.info(d.DialogueID).Followers == 0 })
	w.restart(nil)
	check("after a restart", 0)
	w.terminate(d.DialogueID)
	check("ended", 0)
	w.restart(nil)
	check("ended, after a restart", 0)
}
