package terminal_test

import (
	"context"
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

// patience bounds every wait; nothing waits that long when all is well.
const patience = 3 * time.Minute

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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &world{t, d.Client(t), d, ctx}
}

// restart kills the daemon and starts the next one.
func (w *world) restart(between func()) {
	w.Helper()
	w.Client = w.daemon.Crash(w.T, between)
}

// terminal makes a terminal with a program.
func (w *world) terminal(name string, command ...string) api.SessionInfo {
	w.Helper()
	return testkit.Must(w.SessionCreate(w.ctx, api.SessionCreateParams{Kind: api.KindTerminal, Name: name, Command: command}))(w)
}

func (w *world) types(name, text string, keys ...string) {
	w.Helper()
	testkit.Must(w.SessionInput(w.ctx, api.SessionInputParams{SessionID: name, Text: text, Keys: keys}))(w)
}

// shows waits until a line of the terminal matches.
func (w *world) shows(name, pattern string) {
	w.Helper()
	limit := patience.Seconds()
	r := testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: name, Text: pattern, TimeoutS: &limit}))(w)
	if r.Reason != api.WaitText {
		w.Fatalf("%s never shows %q: %+v\n%s", name, pattern, r, w.screen(name).Text)
	}
}

func (w *world) screen(name string) api.SessionScreenResult {
	w.Helper()
	return testkit.Must(w.SessionScreen(w.ctx, api.SessionScreenParams{SessionID: name, Scrollback: -1}))(w)
}

// ended waits for the end of a session and everything of it.
func (w *world) ended(id string) api.SessionDetails {
	w.Helper()
	zero := int64(0)
	events := testkit.Must(w.EventSubscribe(w.ctx, api.EventSubscribeParams{SessionID: id, AfterSeq: &zero, Types: []string{api.EventSessionTerminated}}))(w)
	defer events.Close()
	testkit.Must(events.Recv())(w)
	for {
		info := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: id}))(w)
		if info.State == api.SessionTerminated {
			return info
		}
	}
}

// viewer is an attached stream, and what came from it.
type viewer struct {
	w      *world
	stream api.Stream
	from   int64  // where the first byte of text is in the output
	text   []byte // the bytes of the program since the last snapshot
	events []api.StreamEvent
}

// attach attaches over a connection of its own.
func (w *world) attach(p api.SessionAttachParams) *viewer {
	w.Helper()
	v := &viewer{w: w, stream: testkit.Must(w.daemon.Client(w.T).SessionAttach(w.ctx, p))(w)}
	w.Cleanup(func() { v.stream.Close() })
	if p.FromOffset != nil {
		v.from = *p.FromOffset
	}
	return v
}

func (v *viewer) id() string { return v.stream.Start().ViewerID }

// offset is the byte behind the last one it has.
func (v *viewer) offset() int64 { return v.from + int64(len(v.text)) }

// next takes one push and checks that it follows the one before.
func (v *viewer) next() api.StreamEvent {
	v.w.Helper()
	ev, err := v.stream.Recv()
	if err != nil {
		v.w.Fatalf("after %d pushes: %v", len(v.events), err)
	}
	v.take(ev)
	return ev
}

func (v *viewer) take(ev api.StreamEvent) {
	v.w.Helper()
	v.events = append(v.events, ev)
	switch {
	case ev.Offset == nil:
		v.w.Fatalf("a push without an offset: %+v", ev)
	case ev.Type == api.EventSnapshot:
		v.from, v.text = *ev.Offset, nil
	case *ev.Offset != v.offset():
		v.w.Fatalf("%s at %d, the viewer is at %d", ev.Type, *ev.Offset, v.offset())
	case ev.Type == api.EventOutput:
		v.text = append(v.text, api.Data(ev.Data, ev.DataBase64)...)
	}
}

// until takes pushes up to one of a type, or for output, until it has a text.
func (v *viewer) until(kind, text string) api.StreamEvent {
	v.w.Helper()
	for {
		ev := v.next()
		if ev.Type == kind && (text == "" || strings.Contains(string(v.text), text)) {
			return ev
		}
	}
}

// end takes everything up to the exit, and checks that nothing follows.
func (v *viewer) end() api.StreamEvent {
	v.w.Helper()
	ev := v.until(api.EventExit, "")
	if _, err := v.stream.Recv(); err != io.EOF {
		v.w.Errorf("after the exit: %v", err)
	}
	return ev
}
