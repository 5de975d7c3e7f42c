package trace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/journal"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/metrics"
	"github.com/trl-dev/trl/internal/trace"
	"github.com/trl-dev/trl/internal/trace/tracetest"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	parentID    = "b7ad6b7169203331"
	traceparent = "00-" + traceID + "-" + parentID + "-01"
)

// lines describes the spans that were received, sorted.
func lines(c *tracetest.Collector) (list []string) {
	for _, s := range c.Spans() {
		line := s.String()
		if s.TraceID == traceID && s.ParentID == parentID {
			line = "child " + line
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

// fake is a Service that answers at once.
type fake struct {
	api.Service
	params []api.ExecParams
}

func (f *fake) SessionCreate(_ context.Context, p api.SessionCreateParams) (api.SessionInfo, error) {
	if p.Name == "taken" {
		return api.SessionInfo{}, api.Errorf(api.CodeConflict, "session %q: SECRET", p.Name)
	}
	return api.SessionInfo{SessionID: "s-1", Name: p.Name, Kind: api.KindShell, ShellFamily: "bash", Runtime: "docker:SECRET", Place: &api.PlaceInfo{Kind: "docker", Image: "SECRET"}}, nil
}

func (f *fake) ExecRun(_ context.Context, p api.ExecParams) (api.ExecResult, error) {
	f.params = append(f.params, p)
	if p.SessionID != "s-1" {
		return api.ExecResult{}, api.Errorf(api.CodeSessionNotFound, "session %q: not found", p.SessionID)
	}
	return api.ExecResult{ExecID: "x-1-1", SessionID: "s-1", Stdout: "SECRET", ExecOutcome: api.ExecOutcome{ExitCode: 124, TimedOut: true, StdoutBytes: 6, WorkingDir: "/SECRET"}}, nil
}

func (f *fake) ExecStart(_ context.Context, p api.ExecParams) (api.ExecInfo, error) {
	f.params = append(f.params, p)
	return api.ExecInfo{ExecID: p.RunID, SessionID: "s-1", Command: p.Command}, nil
}

func (f *fake) ExecStream(_ context.Context, p api.ExecStreamParams) (api.Stream, error) {
	return started{api.StreamStart{ExecID: p.RunID, SessionID: "s-1"}}, nil
}

func (f *fake) DialogueCreate(context.Context, api.DialogueCreateParams) (api.DialogueInfo, error) {
	return api.DialogueInfo{DialogueID: "d-1", SessionID: "s-2"}, nil
}

func (f *fake) DialogueInfo(context.Context, api.DialogueInfoParams) (api.DialogueInfo, error) {
	return api.DialogueInfo{DialogueID: "d-1"}, nil
}

func (f *fake) DialogueSend(_ context.Context, p api.DialogueSendParams) (api.DialogueSendResult, error) {
	return api.DialogueSendResult{Seq: 10, Repeated: p.MessageID != ""}, nil
}

type started struct{ start api.StreamStart }

func (s started) Start() api.StreamStart         { return s.start }
func (s started) Recv() (api.StreamEvent, error) { return api.StreamEvent{}, io.EOF }
func (s started) Close() error                   { return nil }

// world is a tracer with its journal.
type world struct {
	*trace.Service
	t      *testing.T
	tracer *trace.Tracer
	events *journal.Journal
	fake   *fake
	ctx    context.Context // of calls that are part of a trace
}

func start(t *testing.T, c trace.Config) *world {
	c.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	tracer, err := trace.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, tracer: tracer, events: journal.New(c.Logger), fake: &fake{}, ctx: api.WithTraceparent(t.Context(), traceparent)}
	t.Cleanup(w.events.Close)
	w.events.PublishSession(api.SessionInfo{SessionID: "s-1", State: api.SessionIdle, CreatedAt: time.Now()})
	tracer.Follow(w.events)
	w.Service = tracer.Wrap(w.fake)
	return w
}

func (w *world) exec(id string, state api.ExecState, o *api.ExecOutcome) {
	text, err := json.Marshal(link.ExecEvent{ExecID: id, State: state, At: time.Now(), Outcome: o})
	if err != nil {
		w.t.Fatal(err)
	}
	w.events.ReceiveExecEvent("s-1", text)
}

func (w *world) metric(name string) (value int) {
	var p metrics.Page
	w.tracer.WriteMetrics(&p)
	_, rest, _ := strings.Cut(p.String(), "\n"+name+" ")
	if _, err := fmt.Sscan(rest, &value); err != nil {
		w.t.Errorf("%s: %s", name, err)
	}
	return value
}

func TestSpans(t *testing.T) {
	b := tracetest.Start(t)
	w := start(t, trace.Config{Endpoint: b.URL, Version: "test", LastExport: time.Minute})
	for _, name := range []string{"SECRET", "taken"} {
		_, _ = w.SessionCreate(w.ctx, api.SessionCreateParams{Name: name, Env: map[string]string{"A": "SECRET"}})
	}
	command := api.ExecParams{SessionID: "s-1", Command: "echo SECRET", Env: map[string]string{"A": "SECRET"}}
	_, _ = w.ExecRun(w.ctx, command)
	command.SessionID = "SECRET"
	_, _ = w.ExecRun(t.Context(), command)

	begin := func(id string) {
		command.RunID = id
		if _, err := w.ExecStart(w.ctx, command); err != nil {
			t.Error(err)
		}
	}
	begin("x-1-2")
	w.exec("x-1-2", api.ExecRunning, nil)
	w.exec("x-1-2", api.ExecExited, &api.ExecOutcome{ExitCode: 3, StderrBytes: 7, WorkingDir: "/SECRET"})
	w.exec("x-1-2", api.ExecClosed, nil)
	w.exec("x-1-3", api.ExecQueued, nil)
	w.exec("x-1-3", api.ExecClosed, &api.ExecOutcome{ExitCode: 130, Cancelled: true}) // before the answer of the call
	begin("x-1-3")
	begin("x-1-4") // never ends
	if _, err := w.ExecStream(w.ctx, api.ExecStreamParams{ExecParams: api.ExecParams{RunID: "x-1-5", Command: "SECRET"}}); err != nil {
		t.Error(err)
	}
	w.exec("x-1-5", api.ExecExited, &api.ExecOutcome{})
	if _, err := w.ExecStream(w.ctx, api.ExecStreamParams{ExecID: "x-1-5"}); err != nil { // no new command
		t.Error(err)
	}
	w.tracer.Close()
	want := []string{
		"child exec process.exit.code=0 trl.exec.id=x-1-5 trl.exec.stderr_bytes=0 trl.exec.stdout_bytes=0 trl.session.id=s-1",
		"child exec process.exit.code=124 trl.exec.id=x-1-1 trl.exec.stderr_bytes=0 trl.exec.stdout_bytes=6 trl.exec.timed_out=true trl.session.id=s-1",
		"child exec process.exit.code=130 trl.exec.cancelled=true trl.exec.id=x-1-3 trl.exec.stderr_bytes=0 trl.exec.stdout_bytes=0 trl.session.id=s-1",
		"child exec process.exit.code=3 trl.exec.id=x-1-2 trl.exec.stderr_bytes=7 trl.exec.stdout_bytes=0 trl.session.id=s-1",
		"child exec trl.exec.id=x-1-4 trl.session.id=s-1 trl.unfinished=true",
		"child session.create error.type=CONFLICT error CONFLICT",
		"child session.create trl.session.id=s-1 trl.session.kind=shell trl.session.runtime=docker trl.session.shell=bash",
		"exec error.type=SESSION_NOT_FOUND error SESSION_NOT_FOUND",
	}
	if got := lines(b); !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(b.Received(), "SECRET") {
		t.Errorf("values were exported: %q", b.Received())
	}
	if n := w.metric(`trl_trace_spans_total{result="exported"}`); n != len(want) {
		t.Errorf("%d spans are counted", n)
	}
}

// TestTurns: a turn ends with the first that ends after its message, or with the dialogue.
func TestTurns(t *testing.T) {
	b := tracetest.Start(t)
	w := start(t, trace.Config{Endpoint: b.URL, LastExport: time.Minute})
	publish := func(kind, turn string, seq int64) {
		at := time.Now()
		w.events.PublishDialogue(api.StreamEvent{Type: kind, At: &at, DialogueID: "d-1", SessionID: "s-2", TurnID: turn, DialogueSeq: seq, State: api.DialogueIdle})
	}
	if _, err := w.DialogueCreate(w.ctx, api.DialogueCreateParams{Prompt: "SECRET"}); err != nil {
		t.Fatal(err)
	}
	publish(api.EventDialogueTurnEnded, "t1", 5)
	for _, ref := range []string{"d-1", "name"} {
		if _, err := w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: ref, Text: "SECRET"}); err != nil {
			t.Error(err)
		}
	}
	publish(api.EventDialogueTurnEnded, "t2", 9) // its end is older than the messages
	publish(api.EventDialogueTurnEnded, "t3", 12)
	if _, err := w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: "d-1", Text: "SECRET", MessageID: "again"}); err != nil {
		t.Error(err)
	}
	w.tracer.Close()
	want := []string{
		"child dialogue.create trl.dialogue.id=d-1 trl.session.id=s-2",
		"child dialogue.turn trl.dialogue.id=d-1 trl.dialogue.state=idle trl.dialogue.turn_id=t1",
		"child dialogue.turn trl.dialogue.id=d-1 trl.dialogue.state=idle trl.dialogue.turn_id=t3",
		"child dialogue.turn trl.dialogue.id=d-1 trl.dialogue.state=idle trl.dialogue.turn_id=t3",
	}
	if got := lines(b); !slices.Equal(got, want) || strings.Contains(b.Received(), "SECRET") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestHangingCollector: however many commands run, none waits for the collector, memory is bounded,
// and the daemon can end. The test releases the collector only when everything has returned.
func TestHangingCollector(t *testing.T) {
	release := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hang.Close()
	defer close(release)
	w := start(t, trace.Config{Endpoint: hang.URL})
	const calls = 5000
	for range calls {
		if _, err := w.ExecRun(w.ctx, api.ExecParams{SessionID: "s-1"}); err != nil {
			t.Fatal(err)
		}
	}
	queued, dropped := w.metric("trl_trace_queued_spans"), w.metric(`trl_trace_spans_total{result="dropped"}`)
	if queued > 2048 || queued+dropped != calls {
		t.Errorf("%d spans wait, %d are dropped", queued, dropped)
	}
	w.tracer.Close()
	if n := w.metric("trl_trace_queued_spans"); n != 0 {
		t.Errorf("the exporter still has %d spans after Close", n)
	}
}

func TestDeadCollector(t *testing.T) {
	dead := httptest.NewServer(nil)
	dead.Close()
	w := start(t, trace.Config{Endpoint: dead.URL + "/"})
	for range 3 {
		if _, err := w.ExecRun(w.ctx, api.ExecParams{SessionID: "s-1"}); err != nil {
			t.Fatal(err)
		}
	}
	w.tracer.Close()
	if n := w.metric(`trl_trace_spans_total{result="failed"}`); n != 3 {
		t.Errorf("%d spans are counted as failed", n)
	}
}

// TestTraceparentOfCommands: commands get the position of their own span, if that is configured.
func TestTraceparentOfCommands(t *testing.T) {
	b := tracetest.Start(t)
	w := start(t, trace.Config{Endpoint: b.URL, Commands: true, LastExport: time.Minute})
	env := map[string]string{"A": "1"}
	own := map[string]string{"TRACEPARENT": "own"}
	for _, e := range []map[string]string{env, own, nil} {
		if _, err := w.ExecRun(w.ctx, api.ExecParams{SessionID: "s-1", Env: e}); err != nil {
			t.Fatal(err)
		}
	}
	w.tracer.Close()
	var ids []string
	for _, s := range b.Spans() {
		ids = append(ids, "00-"+traceID+"-"+s.ID+"-01")
	}
	for i, want := range []string{ids[0], "own", ids[2]} {
		if got := w.fake.params[i].Env["TRACEPARENT"]; got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	if len(env) != 1 || w.fake.params[0].Env["A"] != "1" {
		t.Errorf("the caller's variables changed: %v, %v", env, w.fake.params[0].Env)
	}
}

// TestUnsampled: a caller that does not sample its trace gets no spans.
func TestUnsampled(t *testing.T) {
	b := tracetest.Start(t)
	w := start(t, trace.Config{Endpoint: b.URL, LastExport: time.Minute})
	ctx := api.WithTraceparent(t.Context(), strings.TrimSuffix(traceparent, "01")+"00")
	if _, err := w.ExecRun(ctx, api.ExecParams{SessionID: "s-1"}); err != nil {
		t.Fatal(err)
	}
	w.tracer.Close()
	if got := lines(b); len(got) > 0 {
		t.Errorf("%s", got)
	}
}
