package agenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/transcript"
)

// Talk is a protocol with the record of its events, as a dialogue keeps it. A step that breaks
// a rule for all agents fails the test.
type Talk struct {
	t        testing.TB
	Protocol agent.Protocol
	Events   []api.DialogueEvent
	Tracker  *transcript.Tracker
	Tree     *transcript.Tree
	Wrote    [][]byte              // lines for the program
	Answers  map[string]*api.Error // by the id of the call
	Ready    bool
	Failed   string
	loose    bool // a call may be answered twice, because its id came twice
}

// NewTalk starts a protocol of an agent.
func NewTalk(t testing.TB, a agent.Agent, o agent.Options) *Talk {
	t.Helper()
	if o.Epoch == 0 {
		o.Epoch = 1
	}
	k := &Talk{t: t, Protocol: a.New(o), Tracker: transcript.NewTracker(), Tree: transcript.NewTree(), Answers: map[string]*api.Error{}}
	k.take(k.Protocol.Start())
	return k
}

// Do makes a call. A response may name its request by the id of the program, because a
// recording has no other.
func (k *Talk) Do(c agent.Call) {
	k.t.Helper()
	if c.Respond != nil {
		named := *c.Respond
		waits := func(fits func(api.DialogueRequest) bool) bool {
			i := slices.IndexFunc(k.Tracker.Pending(), fits)
			if i >= 0 {
				named.RequestID = k.Tracker.Pending()[i].RequestID
			}
			return i >= 0
		}
		_ = waits(func(r api.DialogueRequest) bool { return r.RequestID == named.RequestID }) ||
			waits(func(r api.DialogueRequest) bool {
				return r.NativeID == named.RequestID || r.NativeID == strings.TrimPrefix(named.RequestID, "r1.")
			})
		c.Respond = &named
	}
	k.take(k.Protocol.Do(c))
}

// Hear passes a line of the program to the protocol. The step must have an event, or name the
// line as ignored.
func (k *Talk) Hear(line []byte) {
	k.t.Helper()
	s := k.Protocol.Line(line)
	if len(s.Events) == 0 && s.Ignored == "" {
		k.t.Errorf("nothing says what became of the line %.200s", line)
	}
	k.take(s)
}

func (k *Talk) take(s agent.Step) {
	k.t.Helper()
	for _, ev := range s.Events {
		if why := misfit(ev); why != "" {
			k.t.Errorf("event %s: %s", Show(ev), why)
		}
		k.record(ev)
		for _, follows := range k.Tracker.Follow() {
			k.record(follows)
		}
	}
	for _, line := range s.Write {
		if !json.Valid(line) || bytes.IndexByte(line, '\n') != len(line)-1 {
			k.t.Errorf("it wrote %q: not one line of JSON", line)
		}
	}
	for _, a := range s.Answers {
		if _, twice := k.Answers[a.ID]; twice && !k.loose {
			k.t.Errorf("call %s was answered twice", a.ID)
		}
		k.Answers[a.ID] = a.Err
	}
	k.Wrote = append(k.Wrote, s.Write...)
	k.Ready = k.Ready || s.Ready
	if s.Failed != "" {
		k.Failed = s.Failed
	}
}

func (k *Talk) record(ev api.DialogueEvent) {
	ev.Seq, ev.Epoch = int64(len(k.Events)+1), 1
	k.Events = append(k.Events, ev)
	k.Tracker.Apply(ev)
	k.Tree.Apply(ev)
}

// Play makes the moves, in order.
func (k *Talk) Play(moves []Move) {
	k.t.Helper()
	for _, m := range moves {
		if m.Call != nil {
			k.Do(*m.Call)
		} else {
			k.Hear(m.Line)
		}
	}
}

// End closes everything that is open, as a dialogue does when the process has ended.
func (k *Talk) End() {
	for _, ev := range k.Tracker.Lost() {
		k.record(ev)
	}
}

// Outcome is the transcript, without the number of its last event.
func (k *Talk) Outcome() string {
	r := k.Tree.Result()
	r.Seq = 0
	return Show(r)
}

// Call is the item id of the last tool call that has the program's id.
func (k *Talk) Call(native string) (id string) {
	k.t.Helper()
	for _, ev := range k.Events {
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

// Renumbered replaces the ids that TRL makes by their order in the transcript, so that two
// transcripts can be compared whose ids were made in another order.
func Renumbered(outcome string) string {
	seen := map[string]string{}
	return ownID.ReplaceAllStringFunc(outcome, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("%q", fmt.Sprint("id ", len(seen)))
		}
		return seen[id]
	})
}

// Show is a value as JSON.
func Show(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.String()
}

// Says passes lines of Claude Code to the protocol. A line without a uuid gets one.
func (k *Talk) Says(lines ...string) {
	k.t.Helper()
	for _, line := range lines {
		if !strings.Contains(line, `"uuid"`) && !strings.Contains(line, `"control_`) {
			line = fmt.Sprintf(`{"uuid":"u-%d","session_id":"s-1",%s`, len(k.Events)*1000+len(line), line[1:])
		}
		k.Hear([]byte(line))
	}
}

// Last is the last event of a type.
func (k *Talk) Last(kind api.DialogueEventType) api.DialogueEvent {
	k.t.Helper()
	for _, ev := range slices.Backward(k.Events) {
		if ev.Type == kind {
			return ev
		}
	}
	k.t.Fatalf("no event %s in %s", kind, Show(k.Events))
	return api.DialogueEvent{}
}

// Count is how many events of a type there were.
func (k *Talk) Count(kind api.DialogueEventType) (n int) {
	for _, ev := range k.Events {
		if ev.Type == kind {
			n++
		}
	}
	return n
}

// LastWrite is the last line for the program.
func (k *Talk) LastWrite() string {
	k.t.Helper()
	if len(k.Wrote) == 0 {
		k.t.Fatal("nothing was written")
	}
	return strings.TrimSuffix(string(k.Wrote[len(k.Wrote)-1]), "\n")
}

// Send sends a message.
func (k *Talk) Send(id, text string) {
	k.Do(agent.Call{ID: "send-" + id, Send: &agent.Message{ID: id, Content: []api.DialogueContent{{Type: "text", Text: text}}}})
}

// Respond answers a request.
func (k *Talk) Respond(p api.DialogueRespondParams) *api.Error {
	k.t.Helper()
	id := fmt.Sprintf("respond-%d", len(k.Answers))
	k.Do(agent.Call{ID: id, Respond: &agent.Response{DialogueRespondParams: p, By: "client"}})
	err, answered := k.Answers[id]
	if !answered {
		k.t.Fatal("respond was not answered at once")
	}
	return err
}

// WantJSON compares two texts as JSON.
func WantJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%q: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%q: %v", want, err)
	}
	if Show(g) != Show(w) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Resumed is the third process of a conversation, in which tasks of the earlier ones were lost.
func Resumed(t *testing.T, a agent.Agent, session, hello string) *Talk {
	t.Helper()
	lost := func(id, native, call string) api.DialogueTask {
		return api.DialogueTask{TaskID: id, NativeID: native, ToolCallID: call, Kind: "agent", Name: "look", Background: true, Status: "lost"}
	}
	k := NewTalk(t, a, agent.Options{Resume: session, Epoch: 3, Tasks: []api.DialogueTask{lost("k1.1", "a", "i1.1"), lost("k2.1", "a", "i2.1"), lost("k2.2", "b", "i2.2")}})
	k.Hear([]byte(hello))
	return k
}

// commands are the tool calls of the transcript, at any depth: the subject, the output and the
// status of each.
func (k *Talk) commands() (all []string) {
	var walk func([]api.DialogueItem)
	walk = func(items []api.DialogueItem) {
		for _, it := range items {
			if it.Tool == nil {
				continue
			}
			out := ""
			for _, part := range it.Tool.Output {
				out += part.Text
			}
			all = append(all, fmt.Sprintf("%s %s > %s %s", it.NativeID, it.Tool.Subject, out, it.Tool.Status))
			walk(it.Tool.Items)
		}
	}
	walk(k.Tree.Result().Items)
	return all
}

// Ran compares the tool calls of the transcript, at any depth.
func (k *Talk) Ran(what string, want ...string) {
	k.t.Helper()
	if got := k.commands(); !slices.Equal(got, want) {
		k.t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	k.Check()
}

// Hears passes lines of the program to the protocol.
func (k *Talk) Hears(lines ...string) {
	k.t.Helper()
	for _, line := range lines {
		k.Hear([]byte(line))
	}
}
