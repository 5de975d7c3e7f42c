package dialogue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/claude"
)

// quiet returns a dialogue without goroutines: the test provides the agent's output.
func quiet(t *testing.T, dir string, fresh bool) (*Dialogue, *agentProcess) {
	t.Helper()
	h := New(Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), LineBytes: 1 << 20, StartTimeout: time.Minute})
	a := claude.Agent{}
	o := agent.Options{Epoch: 1}
	var r *record
	var err error
	if fresh {
		r, err = newRecord(dir)
	} else {
		r = &record{dir: dir, changed: make(chan struct{})}
	}
	if err != nil {
		t.Fatal(err)
	}
	d := h.newDialogue(r, about{ID: filepath.Base(dir), Epoch: 1, Params: api.DialogueCreateParams{Agent: "claude"}})
	d.resetLocked()
	p := d.newProcess(vanished{}, a.New(o))
	d.process = p
	t.Cleanup(func() { r.end(); p.release() })
	return d, p
}

func begin(t *testing.T, dir string) (*Dialogue, *agentProcess) {
	t.Helper()
	d, p := quiet(t, dir, true)
	if err := d.record.begin(1); err != nil {
		t.Fatal(err)
	}
	d.takeLocked(p, p.protocol.Start(), nil)
	d.flushLocked()
	return d, p
}

// again returns the dialogue as the next daemon recovers it.
func again(t *testing.T, dir string) (*Dialogue, *agentProcess) {
	t.Helper()
	d, p, err := tryAgain(t, dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return d, p
}

func tryAgain(t *testing.T, dir string, log io.Writer) (*Dialogue, *agentProcess, error) {
	t.Helper()
	d, p := quiet(t, dir, false)
	d.log = slog.New(slog.NewTextHandler(log, nil))
	if err := d.record.load(func(api.DialogueEvent) {}); err != nil {
		t.Fatal(err)
	}
	known, err := d.record.since(1)
	if err != nil {
		t.Fatal(err)
	}
	defer known.close()
	if err := d.record.begin(1); err != nil {
		t.Fatal(err)
	}
	return d, p, d.rejoinLocked(p, known)
}

// eventsIn returns the events of a record, without the times.
func eventsIn(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, eventsFile))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for one := range bytes.Lines(text) {
		var ev api.DialogueEvent
		if err := json.Unmarshal(one, &ev); err != nil {
			t.Fatalf("%s: %s", one, err)
		}
		ev.At = time.Time{}
		out, _ := json.Marshal(ev)
		b.Write(append(out, '\n'))
	}
	return b.String()
}

// script is the course of a test: the agent's output, and calls at offsets of it.
type script struct {
	stdout []byte
	calls  []callAt
}

func recorded(t *testing.T) script {
	t.Helper()
	dir := filepath.Join("agent", "claude", "testdata", "claude-2.1.325")
	stdout, err := os.ReadFile(filepath.Join(dir, "e_perm_allow.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	stdout = append([]byte("garbage\r\n\n"), stdout...)
	s := script{stdout: stdout}
	asks := bytes.Index(stdout, []byte(`"can_use_tool"`))
	if asks < 0 {
		t.Fatal("the recording has no request")
	}
	at := int64(asks + bytes.IndexByte(stdout[asks:], '\n') + 1)
	s.calls = []callAt{
		{20, agent.Call{Send: &agent.Message{ID: "3f1c5a52-0000-4000-8000-000000000001", Content: []api.DialogueContent{{Type: "text", Text: "hi"}}}}},
		{at, agent.Call{Respond: &agent.Response{DialogueRespondParams: api.DialogueRespondParams{RequestID: "r1.1", Decision: "allow"}, By: "client"}}},
	}
	return s
}

// play plays the script from the offset that p has reached up to another.
func (s script) play(d *Dialogue, p *agentProcess, to int64) {
	for _, c := range s.calls {
		if c.Offset < p.lines.end || c.Offset >= to || p.calls >= len(s.calls) {
			continue
		}
		d.receive(p, piece{stream: api.EventStdout, offset: p.lines.end, data: s.stdout[p.lines.end:c.Offset]})
		d.mu.Lock()
		d.callLocked(p, c.Call)
		d.mu.Unlock()
	}
	d.receive(p, piece{stream: api.EventStdout, offset: p.lines.end, data: s.stdout[p.lines.end:to]})
}

// TestReplayFromAnywhere: a daemon may die at any byte, with or without having written all events;
// the next one reaches the same state.
func TestReplayFromAnywhere(t *testing.T) {
	s := recorded(t)
	base := t.TempDir()
	d, p := begin(t, filepath.Join(base, "d-whole"))
	s.play(d, p, int64(len(s.stdout)))
	want := eventsIn(t, d.record.dir)
	if !strings.Contains(want, `"request_closed"`) || !strings.Contains(want, `"turn_ended"`) {
		t.Fatalf("the script does not get far:\n%s", want)
	}
	wantIn, _ := os.ReadFile(d.record.path("stdin", 1))
	rng := rand.New(rand.NewPCG(5, 6))
	for n := range 150 {
		dir := filepath.Join(base, "d-"+time.Duration(n).String())
		cut := rng.Int64N(int64(len(s.stdout)))
		d, p := begin(t, dir)
		s.play(d, p, cut)
		d.record.end()
		if n%3 == 1 { // the last events are not there, or only half of one
			size, _, _, _ := d.record.state()
			if err := os.Truncate(filepath.Join(dir, eventsFile), rng.Int64N(size+1)); err != nil {
				t.Fatal(err)
			}
		}
		d, p = again(t, dir)
		if p.lines.end != cut {
			t.Fatalf("came to byte %d, was at %d", p.lines.end, cut)
		}
		if n%2 == 0 { // the next one may end there as well
			d.record.end()
			d, p = again(t, dir)
		}
		// The runner has everything, and tells it from the beginning.
		from := rng.Int64N(cut + 1)
		d.receive(p, piece{stream: api.EventStdout, offset: from, data: s.stdout[from:cut]})
		s.play(d, p, int64(len(s.stdout)))
		if got := eventsIn(t, dir); got != want {
			t.Fatalf("cut at %d: got\n%s\nwant\n%s", cut, got, want)
		}
		if in, _ := os.ReadFile(d.record.path("stdin", 1)); !bytes.Equal(in, wantIn) {
			t.Fatalf("cut at %d: stdin is\n%s\nwant\n%s", cut, in, wantIn)
		}
		if out, _ := os.ReadFile(d.record.path("stdout", 1)); !bytes.Equal(out, s.stdout) {
			t.Fatalf("cut at %d: stdout is not what was written", cut)
		}
	}
}

// TestReplaySendsAgain: the last input is sent again with the same id, because it may not have
// arrived.
func TestReplaySendsAgain(t *testing.T) {
	s := recorded(t)
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	s.play(d, p, int64(len(s.stdout)))
	queued := p.input.queue
	d.record.end()
	_, p = again(t, dir)
	if len(queued) == 0 || len(p.input.queue) != len(queued) {
		t.Fatalf("%d messages again, of %d", len(p.input.queue), len(queued))
	}
	for i, m := range p.input.queue {
		if m.id() != queued[i].id() || !bytes.Equal(m.data, queued[i].data) {
			t.Errorf("message %d: %s %q, was %s %q", i, m.id(), m.data, queued[i].id(), queued[i].data)
		}
	}
}

// A record that another version wrote is right, even if this version would write other events.
func TestReplayOfAnotherVersion(t *testing.T) {
	s := recorded(t)
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	s.play(d, p, int64(len(s.stdout)))
	d.record.end()
	path := filepath.Join(dir, eventsFile)
	text, _ := os.ReadFile(path)
	text = bytes.Replace(text, []byte(`"type":"turn_started"`), []byte(`"type":"notice"`), 1)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	want := eventsIn(t, dir)
	d, p = again(t, dir)
	if got := eventsIn(t, dir); got != want {
		t.Fatalf("the record was changed")
	}
	d.receive(p, piece{stream: api.EventStdout, offset: p.lines.end, data: []byte("more\n")})
	if got := eventsIn(t, dir); !strings.HasPrefix(got, want) || !strings.Contains(got[len(want):], "not_json") {
		t.Errorf("it does not go on behind what was there: %s", got[min(len(want), len(got)):])
	}
}

// takes is a program that has been given so much.
type takes struct {
	vanished
	bytes int64
}

func (t takes) stdinBytes(context.Context) (int64, error) { return t.bytes, nil }

// narrow is a program whose session takes a few bytes at once, and dies when it has taken some.
type narrow struct {
	vanished
	most, left int
	got        *[]byte
	known      map[string]bool
}

func (n *narrow) write(_ context.Context, id string, data []byte) error {
	switch {
	case n.known[id]:
		return nil
	case len(data) > n.most:
		return api.Errorf(api.CodeRequestTooLarge, "too much")
	case n.left == 0:
		return errVanished
	}
	n.left--
	n.known[id] = true
	*n.got = append(*n.got, data...)
	return nil
}

// A write that is too much for the session is done in parts, and the parts are done once,
// also when the daemon dies between them.
func TestNarrowInput(t *testing.T) {
	d, p := begin(t, filepath.Join(t.TempDir(), "d-1"))
	text := []byte("0123456789abcdefghijklmnopqrstuvwxyz")
	for dies := range 12 {
		var got []byte
		n := &narrow{most: 5, left: dies, got: &got, known: map[string]bool{}}
		p.program = n
		if err := d.writeMessage(p, message{at: 7, data: text}); err == nil && dies < 8 {
			t.Errorf("%d writes were enough", dies)
		}
		n.left = 100
		p.input = outbox{notify: make(chan struct{}, 1)} // of the next daemon
		p.input.put(message{at: 7, data: text})
		p.input.dropWritten(7 + int64(len(got)))
		for m, ok := p.input.take(); ok; m, ok = p.input.take() {
			if err := d.writeMessage(p, m); err != nil {
				t.Error(err)
			}
		}
		if !bytes.Equal(got, text) {
			t.Errorf("after %d writes the program has %q", dies, got)
		}
	}
}

// TestReplaySendsMuchAgain: however much input was queued when a daemon died, none of it is lost
// and none is sent twice.
func TestReplaySendsMuchAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	say := func(n int, text string) {
		id := fmt.Sprintf("3f1c5a52-0000-4000-8000-%012d", n)
		d.callLocked(p, agent.Call{Send: &agent.Message{ID: id, Content: []api.DialogueContent{{Type: "text", Text: text}}}})
	}
	say(1, strings.Repeat("long ", 1<<20))
	say(2, strings.Repeat("less ", 1<<15))
	queued := p.input.queue
	d.record.end()
	d, p = again(t, dir)
	if len(p.input.queue) != len(queued) {
		t.Fatalf("%d messages again, of %d", len(p.input.queue), len(queued))
	}
	for n := range 2000 {
		say(n+3, "hi")
	}
	all, bytes, end := len(p.input.queue), p.input.waiting(), p.stdinBytes
	d.record.end()
	for _, given := range []int64{0, 10, end - 10, end} {
		d, p = again(t, dir)
		if n := len(p.input.queue); n != all || p.input.waiting() != bytes || p.stdinBytes != end {
			t.Fatalf("%d messages again with %d bytes, want %d with %d", n, p.input.waiting(), all, bytes)
		}
		p.program = takes{bytes: given}
		d.skipWritten(p)
		at := given
		for _, m := range p.input.queue {
			if m.at != at {
				t.Fatalf("given %d bytes: a message at %d, want %d", given, m.at, at)
			}
			at += int64(len(m.data))
		}
		if at != end || p.input.waiting() != end-given {
			t.Errorf("given %d bytes: what waits ends at %d, want %d; %d bytes wait", given, at, end, p.input.waiting())
		}
		d.record.end()
	}
}

// TestDeafAgent: the input queued for an agent that never reads is bounded, and the agent can still
// be ended.
func TestDeafAgent(t *testing.T) {
	d, p := begin(t, filepath.Join(t.TempDir(), "d-1"))
	d.receive(p, piece{stream: api.EventStdout, data: []byte(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{}}}` + "\n")})
	send := func() error {
		_, err := d.Send(t.Context(), api.DialogueSendParams{Text: strings.Repeat("x", 20<<20)})
		return err
	}
	for range 4 {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	if e := api.AsError(send()); e == nil || e.Code != api.CodeResourcePressure {
		t.Errorf("a message more: %v", e)
	}
	if n := p.input.waiting(); n > mostUnsent+21<<20 {
		t.Errorf("%d bytes wait", n)
	}
}
