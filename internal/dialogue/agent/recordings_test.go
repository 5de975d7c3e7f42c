package agent_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/transcript"
)

var update = flag.Bool("update", false, "write the golden files anew")

// move is one thing that happens to a protocol: a line of the program, or a call.
type move struct {
	line []byte
	call *agent.Call
}

// talk is a protocol and the record of what it told, as a dialogue keeps it.
type talk struct {
	t        testing.TB
	protocol agent.Protocol
	events   []api.DialogueEvent
	tracker  *transcript.Tracker
	tree     *transcript.Tree
	wrote    [][]byte // for the program
	answers  map[string]*api.Error
	ready    bool
	failed   string
	loose    bool // ids of calls may come again
}

func newTalk(t testing.TB, name string, o agent.Options) *talk {
	t.Helper()
	a, ok := agent.Find(name)
	if !ok {
		t.Fatalf("no agent %q", name)
	}
	if o.Epoch == 0 {
		o.Epoch = 1
	}
	k := &talk{t: t, protocol: a.New(o), tracker: transcript.NewTracker(), tree: transcript.NewTree(), answers: map[string]*api.Error{}}
	k.take(k.protocol.Start())
	return k
}

// do makes a call. An answer may name the request as the program does, which is all that a
// recording knows.
func (k *talk) do(c agent.Call) {
	k.t.Helper()
	if c.Respond != nil {
		named := *c.Respond
		waits := func(fits func(api.DialogueRequest) bool) bool {
			i := slices.IndexFunc(k.tracker.Pending(), fits)
			if i >= 0 {
				named.RequestID = k.tracker.Pending()[i].RequestID
			}
			return i >= 0
		}
		_ = waits(func(r api.DialogueRequest) bool { return r.RequestID == named.RequestID }) ||
			waits(func(r api.DialogueRequest) bool {
				return r.NativeID == named.RequestID || r.NativeID == strings.TrimPrefix(named.RequestID, "r1.")
			})
		c.Respond = &named
	}
	k.take(k.protocol.Do(c))
}

// hear gives the protocol a line, which must leave a trace.
func (k *talk) hear(line []byte) {
	k.t.Helper()
	s := k.protocol.Line(line)
	if len(s.Events) == 0 && s.Ignored == "" {
		k.t.Errorf("nothing says what became of the line %.200s", line)
	}
	k.take(s)
}

func (k *talk) take(s agent.Step) {
	k.t.Helper()
	for _, ev := range s.Events {
		if why := misfit(ev); why != "" {
			k.t.Errorf("event %s: %s", show(ev), why)
		}
		k.record(ev)
		for _, follows := range k.tracker.Follow() {
			k.record(follows)
		}
	}
	for _, line := range s.Write {
		if !json.Valid(line) || bytes.IndexByte(line, '\n') != len(line)-1 {
			k.t.Errorf("it wrote %q: not one line of JSON", line)
		}
	}
	for _, a := range s.Answers {
		if _, twice := k.answers[a.ID]; twice && !k.loose {
			k.t.Errorf("call %s was answered twice", a.ID)
		}
		k.answers[a.ID] = a.Err
	}
	k.wrote = append(k.wrote, s.Write...)
	k.ready = k.ready || s.Ready
	if s.Failed != "" {
		k.failed = s.Failed
	}
}

func (k *talk) record(ev api.DialogueEvent) {
	ev.Seq, ev.Epoch = int64(len(k.events)+1), 1
	k.events = append(k.events, ev)
	k.tracker.Apply(ev)
	k.tree.Apply(ev)
}

func (k *talk) play(moves []move) {
	k.t.Helper()
	for _, m := range moves {
		if m.call != nil {
			k.do(*m.call)
		} else {
			k.hear(m.line)
		}
	}
}

// end closes what is open, as a dialogue does when the process is gone.
func (k *talk) end() {
	for _, ev := range k.tracker.Lost() {
		k.record(ev)
	}
}

// outcome is the transcript without the numbers of events.
func (k *talk) outcome() string {
	r := k.tree.Result()
	r.Seq = 0
	return show(r)
}

// call is our id of the last tool call that has the program's.
func (k *talk) call(native string) (id string) {
	k.t.Helper()
	for _, ev := range k.events {
		if ev.Item != nil && ev.Item.Tool != nil && ev.Item.NativeID == native {
			id = ev.Item.ItemID
		}
	}
	if id == "" {
		k.t.Fatalf("no tool call %s", native)
	}
	return id
}

var ownID = regexp.MustCompile(`"[ikr][0-9]+\.[0-9]+"`)

// renumbered counts our ids in the order in which they are in a transcript.
func renumbered(outcome string) string {
	seen := map[string]string{}
	return ownID.ReplaceAllStringFunc(outcome, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("%q", fmt.Sprint("id ", len(seen)))
		}
		return seen[id]
	})
}

func show(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.String()
}

// check reports what no transcript may be, once everything in it was closed.
func (k *talk) check() {
	k.t.Helper()
	r := k.tree.Result()
	ids := map[string]bool{}
	var walk func([]api.DialogueItem)
	walk = func(items []api.DialogueItem) {
		for _, it := range items {
			if it.ItemID == "" || ids[it.ItemID] {
				k.t.Errorf("item id %q: empty, or twice in the transcript", it.ItemID)
			}
			ids[it.ItemID] = true
			if it.Status == "streaming" {
				k.t.Errorf("item %s is still open", it.ItemID)
			}
			if (it.Tool != nil) != (it.Kind == "tool_call") {
				k.t.Errorf("item %s: kind %s does not fit", it.ItemID, it.Kind)
			}
			if it.Tool != nil {
				if slices.Contains([]string{"pending", "awaiting_approval", "running", ""}, it.Tool.Status) {
					k.t.Errorf("tool call %s is still %q", it.ItemID, it.Tool.Status)
				}
				walk(it.Tool.Items)
			}
		}
	}
	walk(r.Items)
	for _, turn := range r.Turns {
		if turn.Outcome == "" {
			k.t.Errorf("turn %s is still open", turn.TurnID)
		}
	}
	for _, task := range r.Tasks {
		if task.Status == "running" {
			k.t.Errorf("task %s still runs", task.TaskID)
		}
	}
	for _, q := range r.Requests {
		if q.How == "" {
			k.t.Errorf("request %s still waits", q.RequestID)
		}
	}
}

// misfit says why an event cannot be: it must have the body of its type, and no other.
func misfit(ev api.DialogueEvent) string {
	bodies := map[string]bool{
		"opened": ev.Opened != nil, "state": ev.State != "", "turn": ev.Turn != nil, "item": ev.Item != nil,
		"delta": ev.Delta != nil, "retracted": len(ev.Retracted) > 0, "task": ev.Task != nil, "request": ev.Request != nil,
		"message": ev.Message != nil, "usage": ev.Usage != nil, "retry": ev.Retry != nil, "notice": ev.Notice != nil, "unparsed": ev.Unparsed != nil,
	}
	want := map[api.DialogueEventType]string{
		api.DialogueEventOpened: "opened", api.DialogueEventReset: "opened", api.DialogueEventState: "state", api.DialogueEventTurnStarted: "turn", api.DialogueEventTurnEnded: "turn",
		api.DialogueEventItem: "item", api.DialogueEventDelta: "delta", api.DialogueEventRetracted: "retracted", api.DialogueEventTask: "task", api.DialogueEventRequestOpened: "request",
		api.DialogueEventRequestClosed: "request", api.DialogueEventMessage: "message", api.DialogueEventUsage: "usage", api.DialogueEventCompacted: "notice", api.DialogueEventRetry: "retry",
		api.DialogueEventNotice: "notice", api.DialogueEventUnparsed: "unparsed",
	}[ev.Type]
	if want == "" {
		return "a protocol does not tell this"
	}
	for body, set := range bodies {
		if set != (body == want) {
			return fmt.Sprintf("body %s: set %v", body, set)
		}
	}
	switch {
	case ev.Type == api.DialogueEventState && ev.State != api.DialogueIdle && ev.State != api.DialogueRunning:
		return "a protocol tells only running and idle"
	case ev.Item != nil && (ev.Item.ItemID == "" || ev.Item.Kind == "" || ev.Item.Status == "" || len(ev.Item.Parts) > 0 && ev.Item.Parts[0].Type == ""):
		return "an item needs an id, a kind and a status"
	case ev.Item != nil && (ev.Item.Tool != nil) != (ev.Item.Kind == "tool_call"):
		return "a tool call, and nothing else, has a tool"
	case ev.Turn != nil && (ev.Turn.TurnID == "" || (ev.Type == api.DialogueEventTurnEnded) != (ev.Turn.Outcome != "")):
		return "a turn needs an id, and an outcome exactly when it has ended"
	case ev.Task != nil && (ev.Task.TaskID == "" || ev.Task.Kind == "" || ev.Task.Status == ""):
		return "a task needs an id, a kind and a status"
	case ev.Request != nil && (ev.Request.RequestID == "" || (ev.Type == api.DialogueEventRequestClosed) != (ev.Request.How != "")):
		return "a request needs an id, and how exactly when it is closed"
	case ev.Unparsed != nil && (ev.Unparsed.Why == "" || len(ev.Unparsed.Text) > 3*4096):
		return "what is unparsed needs a reason, and the beginning of its text"
	case ev.Notice != nil && (ev.Notice.Level == "" || ev.Notice.Code == ""):
		return "a notice needs a level and a code"
	}
	return ""
}

// recording is what a real program wrote, and what it was told in between.
type recording struct {
	name string   // such as claude-2.1.325/a_plain
	out  [][]byte // without the ends of lines
	in   []recordedInput
}

type recordedInput struct {
	After int             `json:"after_stdout_lines"`
	Line  json.RawMessage `json:"line"`
}

// recordings reads all of an agent; those of a program that wrote nothing are left out.
func recordings(t testing.TB, agentName string) []recording {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", agentName+"-*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings of %s: %v", agentName, err)
	}
	var all []recording
	for _, file := range files {
		if strings.HasSuffix(file, ".stdin.jsonl") {
			continue
		}
		base := strings.TrimSuffix(file, ".jsonl")
		r := recording{name: filepath.ToSlash(strings.TrimPrefix(base, "testdata"+string(filepath.Separator)))}
		r.out = lines(t, file)
		if _, err := os.Stat(base + ".stdin.jsonl"); err == nil {
			for _, line := range lines(t, base+".stdin.jsonl") {
				var in recordedInput
				if err := json.Unmarshal(line, &in); err != nil {
					t.Fatalf("%s: %v", base, err)
				}
				r.in = append(r.in, in)
			}
		}
		all = append(all, r)
	}
	return all
}

func lines(t testing.TB, file string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for line := range bytes.SplitSeq(b, []byte("\n")) {
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}

// golden compares with a file below testdata/golden, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", filepath.FromSlash(name)+".json")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs from what is expected (-update writes it anew; look at the difference):\n%s", file, difference(string(want), got))
	}
}

// difference shows where two texts part.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	at := 0
	for at < len(w) && at < len(g) && w[at] == g[at] {
		at++
	}
	part := func(s []string) string { return strings.Join(s[max(0, at-3):min(len(s), at+8)], "\n") }
	return fmt.Sprintf("line %d\n--- want\n%s\n--- got\n%s", at+1, part(w), part(g))
}
