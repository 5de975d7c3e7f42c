// Package dialogue_test drives coding agents through the real daemon: a fake one that does
// what the real ones cannot be made to do, and the real ones with a scripted model.
package dialogue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeAgent is the path of the fake agent.
func fakeAgent() string { return made(trltest.FakeAgentPath()) }

// plain is a trl without the race detector, for what is about amounts.
func plain() string { return made(trltest.Plain()) }

func made(path string, err error) string {
	if err != nil {
		panic(err)
	}
	return path
}

// patience bounds all waits of a test together; no test takes that long when all is well.
const patience = 5 * time.Minute

// world is a daemon and a client of it.
type world struct {
	*testing.T
	*client.Client
	daemon *trltest.Daemon
	ctx    context.Context
}

func start(t *testing.T, opts ...trltest.Option) *world {
	t.Helper()
	d := trltest.Start(t, opts...)
	return &world{t, d.Client(t), d, timeout(t)}
}

func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// restart kills the daemon and starts the next one.
func (w *world) restart(between func()) {
	w.Helper()
	w.Client = w.daemon.Crash(w.T, between)
}

// fake is a dialogue with the fake agent, which speaks as Claude does. The flags are its own.
func fake(flags ...string) api.DialogueCreateParams {
	return api.DialogueCreateParams{Agent: "claude", Argv: append([]string{fakeAgent()}, flags...), WorkingDir: "/"}
}

// create makes a dialogue, which ends with the daemon at the latest.
func (w *world) create(p api.DialogueCreateParams) api.DialogueInfo {
	w.Helper()
	return testkit.Must(w.DialogueCreate(w.ctx, p))(w)
}

func (w *world) send(id, text string) api.DialogueSendResult {
	w.Helper()
	return testkit.Must(w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: id, Text: text}))(w)
}

// says sends a message and waits for the end of the turn that it made.
func (w *world) says(id, text string) api.DialogueEvent {
	w.Helper()
	r := w.send(id, text)
	f := w.follow(id, r.Seq)
	defer f.close()
	return f.until(api.DialogueEventTurnEnded)
}

func (w *world) respond(id, request, decision string) error {
	_, err := w.DialogueRespond(w.ctx, api.DialogueRespondParams{DialogueID: id, RequestID: request, Decision: decision})
	return err
}

func (w *world) terminate(id string) api.DialogueInfo {
	w.Helper()
	return testkit.Must(w.DialogueTerminate(w.ctx, api.DialogueTerminateParams{DialogueID: id}))(w)
}

func (w *world) info(id string) api.DialogueInfo {
	w.Helper()
	return testkit.Must(w.DialogueInfo(w.ctx, api.DialogueInfoParams{DialogueID: id}))(w)
}

func (w *world) transcript(id string) api.DialogueTranscriptResult {
	w.Helper()
	return testkit.Must(w.DialogueTranscript(w.ctx, api.DialogueTranscriptParams{DialogueID: id}))(w)
}

// raw is everything that the agent's program wrote, or was sent, in an epoch.
func (w *world) raw(id string, epoch int, stream string) []byte {
	w.Helper()
	var all []byte
	for {
		limit := int64(4 << 20)
		r := testkit.Must(w.DialogueRaw(w.ctx, api.DialogueRawParams{DialogueID: id, Epoch: epoch, Stream: stream, Offset: int64(len(all)), Limit: &limit}))(w)
		all = append(all, api.Data(r.Data, r.DataBase64)...)
		if int64(len(all)) >= r.Total {
			return all
		}
	}
}

// events are all of a dialogue until now.
func (w *world) events(id string) []api.DialogueEvent {
	w.Helper()
	f := &follower{w: w, stream: testkit.Must(w.DialogueEvents(w.ctx, api.DialogueEventsParams{DialogueID: id, NoFollow: true}))(w)}
	defer f.close()
	f.drain()
	return f.events
}

// follower reads the events of a dialogue and checks that none is missing or comes twice.
type follower struct {
	w      *world
	stream api.Stream
	after  int64
	events []api.DialogueEvent
	ended  bool
}

// follow follows a dialogue behind an event; 0 is the beginning.
func (w *world) follow(id string, after int64) *follower {
	w.Helper()
	f := &follower{w: w, after: after, stream: testkit.Must(w.DialogueEvents(w.ctx, api.DialogueEventsParams{DialogueID: id, AfterSeq: after}))(w)}
	w.Cleanup(f.close)
	return f
}

func (f *follower) close() { f.stream.Close() }

// next is the next event; nil at the end of the stream.
func (f *follower) next() *api.DialogueEvent {
	f.w.Helper()
	push, err := f.stream.Recv()
	switch {
	case err != nil:
		f.w.Fatalf("after event %d: %v\n%s", f.after, err, brief(f.events))
	case push.Type == api.EventEnd:
		f.ended = true
		if push.Seq != f.after {
			f.w.Errorf("the end has number %d, the last event had %d", push.Seq, f.after)
		}
		if _, err := f.stream.Recv(); err != io.EOF {
			f.w.Errorf("after the end: %v", err)
		}
		return nil
	case push.Type != api.EventDialogue || push.Event == nil || push.Seq != push.Event.Seq || push.Seq != f.after+1:
		f.w.Fatalf("after event %d: %+v", f.after, push)
	}
	f.after = push.Seq
	f.events = append(f.events, *push.Event)
	return push.Event
}

// until takes events up to one of a type, which also fits; without that one of the type will do.
func (f *follower) until(kind api.DialogueEventType, fits ...func(*api.DialogueEvent) bool) api.DialogueEvent {
	f.w.Helper()
	for {
		ev := f.next()
		if ev == nil {
			f.w.Fatalf("the stream ended without %s:\n%s", kind, brief(f.events))
		}
		if ev.Type == kind && (len(fits) == 0 || fits[0](ev)) {
			return *ev
		}
	}
}

// drain takes everything up to the end of the stream.
func (f *follower) drain() {
	f.w.Helper()
	for f.next() != nil {
	}
}

// state waits for a state.
func (f *follower) state(want api.DialogueState) {
	f.w.Helper()
	f.until(api.DialogueEventState, func(ev *api.DialogueEvent) bool { return ev.State == want })
}

// brief tells events in a line each.
func brief(events []api.DialogueEvent) string {
	var b strings.Builder
	for _, ev := range events {
		seq := ev.Seq
		ev.At, ev.Seq, ev.NativeID, ev.Opened = time.Time{}, 0, "", nil
		text, _ := json.Marshal(ev)
		if len(text) > 400 {
			text = append(text[:400], "…"...)
		}
		fmt.Fprintf(&b, "%4d %s\n", seq, strings.Replace(string(text), `"seq":0,"at":"0001-01-01T00:00:00Z",`, "", 1))
	}
	return b.String()
}

// count is how many events have a type.
func count(events []api.DialogueEvent, kind api.DialogueEventType) (n int) {
	for _, ev := range events {
		if ev.Type == kind {
			n++
		}
	}
	return n
}
