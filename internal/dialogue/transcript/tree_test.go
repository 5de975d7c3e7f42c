package transcript_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/transcript"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestTreeItems(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"in the order in which they appear", "item a final\nitem b final\nitem a final again\nitem c final", `a:final"again" b:final c:final`},
		{"a final takes the place of what was written", "item a streaming\ndelta a hel\ndelta a lo\nitem a final hello!", `a:final"hello!"`},
		{"pieces are appended to the last text", "item a streaming one\ndelta a  and\ndelta a  two", `a:streaming"one and two"`},
		{"pieces after the final change nothing", "item a final hello\ndelta a !", `a:final"hello"`},
		{"pieces of nothing change nothing", "delta a hello\nitem b final", "b:final"},
		{"an item that is told anew while it is written", "item a streaming\ndelta a x\nitem a streaming one\ndelta a !", `a:streaming"one!"`},
		{"aborted text stays", "item a streaming\ndelta a half\nitem a aborted half", `a:aborted"half"`},
		{"output of a tool", "call c running\noutput c one\noutput c two\nitem z final", `c:running>"onetwo" z:final`},
		{"a tool call that is told anew while it is written", "begin c\noutput c one\ndelta c x\nbegin c\noutput c two", `c:pending>"two"`},
		{"output after the result changes nothing", "call c completed\noutput c one", `c:completed`},
		{"below their tool call", "agent c running\nitem c/a final\nitem b final\nitem c/d final", "c:running(a:final d:final) b:final"},
		{"a result keeps what is below", "agent c running\nitem c/a final\nagent c completed\nitem c/late final", "c:completed(a:final late:final)"},
		{"nested", "agent c running\nagent c/d running\nagent d/e running\nitem e/f final", "c:running(d:running(e:running(f:final)))"},
		{"before their tool call", "item c/a final\nitem b final\nagent c running", "b:final c:running(a:final)"},
		{"before their tool call, twice", "item d/e final\nagent c/d running\nagent c running", "c:running(d:running(e:final))"},
		{"tool call that never shows", "item x/a final\nitem b final\nitem y/c final\nitem x/d final", "b:final a:final c:final d:final"},
		{"nested below one that never shows", "agent x/a running\nitem a/b final\nitem c final", "c:final a:running(b:final)"},
		{"below what is no tool call", "item a final\nitem a/b final\nitem c final", "a:final c:final b:final"},
		{"below itself", "agent a/a running\nitem b final", "b:final a:running"},
		{"in a circle", "agent b/a running\nagent c/b running\nagent a/c running\nitem a/d final\nitem e final", "e:final a:running(c:running(b:running) d:final)"},
		{"the first scope stays", "agent c running\nitem c/a final\nitem a final", "c:running(a:final)"},
		{"retracted", "item a final\nitem b streaming\nretract b nothing\nitem c final", "a:final c:final"},
		{"retracted with what is below", "agent c running\nagent c/d running\nitem d/e final\nitem f final\nretract c", "f:final"},
		{"retracted, and told again", "item a final\nitem b final\nretract a\nitem a final again", `b:final a:final"again"`},
		{"retracted, and told again below", "agent c running\nitem c/a final\nretract a\nitem c/b final\nitem c/a final", "c:running(b:final a:final)"},
		{"retracted in a circle", "agent b/a running\nagent a/b running\nretract a\nitem c final", "c:final"},
		{"below what was retracted", "agent c running\nretract c\nitem c/late final\nitem b final", "b:final late:final"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := outline(treeOf(events(t, c.script)).Result().Items); got != c.want {
				t.Errorf("%s\ngot  %s\nwant %s", c.script, got, c.want)
			}
		})
	}
}

// A message has its last state, and is done when a turn ends that names it or that has started with it.
func TestTreeMessages(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"", ""},
		{"message a sent", "sent"},
		{"message a sent\nmessage a queued", "queued"},
		{"message a queued\nturn t\nend t completed", "queued"},
		{"message a sent\nturn t a\nend t completed", "done"},
		{"message a queued\nturn t a\nend t interrupted", "done"},
		{"message a started\nturn t\nitem a final again", "started"},
		{"message a started\nturn t\nend t completed", "done"},
		{"message a started\nmessage a queued\nturn t\nend t completed", "queued"},
		{"message a done\nturn t a\nend t completed", "done"},
		{"message a cancelled\nturn t a\nend t completed", "cancelled"},
		{"message a lost", "lost"},
		{"message b queued", ""},
	} {
		all := events(t, "item a final\n"+c.script)
		if got := treeOf(all).Result().Items[0].Message; got != c.want {
			t.Errorf("%q: the message is %q, want %q", c.script, got, c.want)
		}
		item := testkit.Must(treeOf(all).Item(api.DialogueItemParams{ItemID: "a"}))(t)
		if item.Item.Message != c.want {
			t.Errorf("%q: dialogue.item says %q, want %q", c.script, item.Item.Message, c.want)
		}
	}
}

// The pieces of an input are no JSON until it is complete.
func TestTreeInput(t *testing.T) {
	tree := transcript.NewTree()
	for _, step := range []struct{ script, want string }{
		{"begin c", ""},
		{`input c {"command":`, ""},
		{`input c "make"`, ""},
		{"begin c", ""},
		{"input c }", `{"command":"make"}`},
		{"call c running", `{"of":"c"}`},
		{"input c more", `{"of":"c"}`},
	} {
		for _, ev := range events(t, step.script) {
			ev.Seq = 0
			tree.Apply(ev)
		}
		r := tree.Result()
		if got := string(r.Items[0].Tool.Input); got != step.want {
			t.Errorf("after %q the input is %q, want %q", step.script, got, step.want)
		}
		marshal(t, r)
	}
}

// A final item without input has none, even if pieces of an input came before.
func TestTreeNoInput(t *testing.T) {
	all := events(t, "begin c\ninput c {}\ncall c completed")
	all[2].Item.Tool.Input = nil
	if got := treeOf(all).Result().Items[0].Tool.Input; got != nil {
		t.Errorf("the input is %s", got)
	}
}

// A new version of an item replaces everything except absent links to other things.
func TestTreeUpsert(t *testing.T) {
	tree := transcript.NewTree()
	apply := func(it api.DialogueItem) {
		tree.Apply(api.DialogueEvent{Type: api.DialogueEventItem, Item: &it})
	}
	five := 5
	apply(api.DialogueItem{ItemID: "c", Kind: "tool_call", TurnID: "t1", Status: "streaming", Error: "none", Tool: &api.DialogueToolCall{Name: "Agent", TaskID: "k1", Subject: "old", Status: "running"}})
	apply(api.DialogueItem{ItemID: "c", Kind: "tool_call", Status: "final", Tool: &api.DialogueToolCall{Name: "Agent", Status: "completed", ExitCode: &five, Items: []api.DialogueItem{{ItemID: "not told like this"}}}})
	want := `{"item_id":"c","kind":"tool_call","turn_id":"t1","status":"final","tool":{"name":"Agent","kind":"","status":"completed","exit_code":5,"task_id":"k1"}}`
	if got := marshal(t, tree.Result().Items[0]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	apply(api.DialogueItem{ItemID: "c", Kind: "tool_call", TurnID: "t2", Status: "final", Tool: &api.DialogueToolCall{TaskID: "k2", Status: "completed"}})
	if it := tree.Result().Items[0]; it.TurnID != "t2" || it.Tool.TaskID != "k2" {
		t.Errorf("the links are %s and %s, want the new ones", it.TurnID, it.Tool.TaskID)
	}
}

// A text after an image is a part of its own.
func TestTreeParts(t *testing.T) {
	tree := transcript.NewTree()
	parts := []api.DialoguePart{{Type: "text", Text: "see"}, {Type: "image", MediaType: "image/png"}}
	tree.Apply(api.DialogueEvent{Type: api.DialogueEventItem, Item: &api.DialogueItem{ItemID: "a", Status: "streaming", Parts: parts}})
	for _, text := range []string{"th", "is"} {
		tree.Apply(api.DialogueEvent{Type: api.DialogueEventDelta, Delta: &api.DialogueDelta{ItemID: "a", Field: "text", Text: text}})
	}
	if got := said(tree.Result().Items[0].Parts); got != "see||this" {
		t.Errorf("the parts are %q", got)
	}
	if len(parts) != 2 || parts[0].Text != "see" {
		t.Error("the event was changed")
	}
}

func TestTreeTurnsTasksRequests(t *testing.T) {
	r := treeOf(events(t, `
		turn t1 m1
		task k c running
		ask r1
		ask r2
		close r1 answered allow client
		close r1 withdrawn
		close r3 expired
		end t1 interrupted
		end t0 failed
		task k - completed
	`)).Result()
	for _, c := range []struct {
		got  any
		want string
	}{
		{r.Turns, `[{"turn_id":"t1","trigger":"user","messages":["m1"],"outcome":"interrupted"},{"turn_id":"t0","outcome":"failed"}]`},
		{r.Tasks, `[{"task_id":"k","tool_call_id":"c","kind":"other","status":"completed"}]`},
		{r.Requests, `[{"request_id":"r1","kind":"permission","tool":"Bash","subject":"make","how":"answered","decision":"allow","by":"client"},` +
			`{"request_id":"r2","kind":"permission","tool":"Bash","subject":"make"},{"request_id":"r3","kind":"","how":"expired"}]`},
	} {
		if got := marshal(t, c.got); got != c.want {
			t.Errorf("\ngot  %s\nwant %s", got, c.want)
		}
	}
	if r.State != api.DialogueRequiresAction {
		t.Errorf("the state is %s while r2 waits", r.State)
	}
}

// Absent fields of a task do not change, and a turn that begins again has no outcome.
func TestTreeMerges(t *testing.T) {
	tree := transcript.NewTree()
	for _, task := range []api.DialogueTask{
		{TaskID: "k", ToolCallID: "c", ParentID: "p", Kind: "agent", Name: "look", Depth: 2, Background: true, Status: "running", Summary: "reads", Usage: &api.DialogueUsage{InputTokens: 1}},
		{TaskID: "k"},
		{TaskID: "k", Kind: "other"},
		{TaskID: "k", Status: "completed", Summary: "read", Usage: &api.DialogueUsage{InputTokens: 2}},
		{TaskID: "k"},
	} {
		tree.Apply(api.DialogueEvent{Type: api.DialogueEventTask, Task: &task})
	}
	want := `{"task_id":"k","tool_call_id":"c","parent_id":"p","kind":"agent","name":"look","depth":2,"background":true,"status":"completed","summary":"read",` +
		`"usage":{"input_tokens":2,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0}}`
	if got := marshal(t, tree.Result().Tasks[0]); got != want {
		t.Errorf("\ngot  %s\nwant %s", got, want)
	}
	tree.Apply(api.DialogueEvent{Type: api.DialogueEventTask, Task: &api.DialogueTask{TaskID: "l"}})
	tree.Apply(api.DialogueEvent{Type: api.DialogueEventRequestOpened, Request: &api.DialogueRequest{RequestID: "r", How: "answered", Decision: "allow", By: "client"}})
	if r := tree.Result(); r.Tasks[1].Status != "running" || r.Tasks[1].Kind != "other" || marshal(t, r.Requests[0]) != `{"request_id":"r","kind":""}` {
		t.Errorf("a new task is %+v, a new request %+v", r.Tasks[1], r.Requests[0])
	}
	for _, ev := range []api.DialogueEvent{
		{Type: api.DialogueEventTurnStarted, Turn: &api.DialogueTurn{TurnID: "t", Trigger: "agent"}},
		{Type: api.DialogueEventTurnEnded, Turn: &api.DialogueTurn{TurnID: "t", Outcome: "limit", Native: "max_turns", Text: "too long", DurationMS: 3, Steps: 2, Denials: []string{"c"}, Usage: &api.DialogueUsage{OutputTokens: 1}}},
		{Type: api.DialogueEventTurnStarted, Turn: &api.DialogueTurn{TurnID: "t"}},
	} {
		tree.Apply(ev)
	}
	if turn := tree.Result().Turns[0]; turn.Outcome != "" || turn.Trigger != "agent" || turn.Steps != 2 || turn.Native != "max_turns" || turn.Text != "too long" || turn.DurationMS != 3 || len(turn.Denials) != 1 || turn.Usage == nil {
		t.Errorf("a turn that begins again is %+v", turn)
	}
}

// A result always has the last notices.
func TestTreeNotices(t *testing.T) {
	tree := transcript.NewTree()
	for n := 1; n <= 5000; n++ {
		tree.Apply(api.DialogueEvent{Type: api.DialogueEventCompacted, Notice: &api.DialogueNotice{Text: fmt.Sprint(n)}})
		if n%700 != 0 {
			continue
		}
		got := tree.Result().Notices
		if want := min(n, 1000); len(got) != want || got[len(got)-1].Text != fmt.Sprint(n) || got[0].Text != fmt.Sprint(n-want+1) {
			t.Fatalf("after %d there are %d, from %s to %s", n, len(got), got[0].Text, got[len(got)-1].Text)
		}
	}
}

// Sub-transcripts that nest too deep continue at the root, and nothing is lost.
func TestTreeDepth(t *testing.T) {
	tree := transcript.NewTree()
	scope := ""
	for n := range 1000 {
		id := fmt.Sprint("c", n)
		tree.Apply(api.DialogueEvent{Type: api.DialogueEventItem, Scope: scope, Item: &api.DialogueItem{ItemID: id, Tool: &api.DialogueToolCall{Status: "running"}}})
		scope = id
	}
	r := tree.Result()
	if n, deepest := count(r.Items), depth(r.Items); n != 1000 || deepest > 101 {
		t.Errorf("%d items, the deepest at %d", n, deepest)
	}
	marshal(t, r)
}

func count(items []api.DialogueItem) (n int) {
	for _, it := range items {
		n++
		if it.Tool != nil {
			n += count(it.Tool.Items)
		}
	}
	return n
}

func depth(items []api.DialogueItem) (deepest int) {
	for _, it := range items {
		below := 0
		if it.Tool != nil {
			below = depth(it.Tool.Items)
		}
		deepest = max(deepest, 1+below)
	}
	return deepest
}

// An item without an id is an item, and not the root.
func TestTreeWithoutIDs(t *testing.T) {
	tree := treeOf(events(t, "call / running\nitem a final\nagent b running\nitem b/c final"))
	if got := outline(tree.Result().Items); got != ":running a:final b:running(c:final)" {
		t.Error(got)
	}
	tree.Apply(api.DialogueEvent{Type: api.DialogueEventRetracted, Retracted: []string{""}})
	if got := outline(tree.Result().Items); got != "a:final b:running(c:final)" {
		t.Error(got)
	}
}

// Retracted items and old notices are dropped; the others stay in order.
func TestTreeForgets(t *testing.T) {
	tree := treeOf(events(t, "item first final\nitem never/o final\nagent c running\nitem c/d final"))
	before := testkit.Heap()
	for n := range 20_000 {
		text := fmt.Sprint(n, strings.Repeat("x", 1000))
		it := api.DialogueItem{ItemID: fmt.Sprint("i", n), Status: "streaming", Parts: []api.DialoguePart{{Type: "text", Text: text}}}
		tree.Apply(api.DialogueEvent{Type: api.DialogueEventItem, Scope: []string{"", "c", "never"}[n%3], Item: &it})
		tree.Apply(api.DialogueEvent{Type: api.DialogueEventRetracted, Retracted: []string{it.ItemID}})
		tree.Apply(api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{Text: text}})
	}
	if grown := testkit.Heap() - before; grown > 5<<20 {
		t.Errorf("%d bytes are left of what was forgotten", grown)
	}
	for _, ev := range events(t, "item c/e final\nitem last final") {
		ev.Seq = 0
		tree.Apply(ev)
	}
	if got := outline(tree.Result().Items); got != "first:final c:running(d:final e:final) last:final o:final" {
		t.Error(got)
	}
}

// Lists of an empty transcript are empty, not absent.
func TestTreeEmpty(t *testing.T) {
	want := `{"dialogue_id":"","seq":0,"state":"starting","turns":[],"items":[],"tasks":[],"requests":[],"notices":[],` +
		`"usage":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0}}`
	if got := marshal(t, transcript.NewTree().Result()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Events without the body of their type are ignored.
func TestBodiless(t *testing.T) {
	tree, tracker := transcript.NewTree(), transcript.NewTracker()
	empty := marshal(t, tree.Result())
	for _, kind := range strings.Fields("opened reset turn_started turn_ended item delta retracted task request_opened request_closed message usage compacted retry notice unparsed unheard_of") {
		ev := api.DialogueEvent{Type: api.DialogueEventType(kind)}
		tree.Apply(ev)
		tracker.Apply(ev)
		if got := marshal(t, tree.Result()); got != empty || tracker.Busy() || tracker.Follow() != nil {
			t.Errorf("%s without a body makes %s", kind, got)
		}
	}
}

// The time for a piece depends only on its length: copying all pieces for each new one would take
// an hour here.
func TestTreeIsLinear(t *testing.T) {
	tree, tracker := transcript.NewTree(), transcript.NewTracker()
	apply := func(ev api.DialogueEvent) {
		tree.Apply(ev)
		tracker.Apply(ev)
		tracker.Follow()
	}
	begin := api.DialogueEvent{Type: api.DialogueEventItem, Item: &api.DialogueItem{ItemID: "c", Kind: "tool_call", Status: "streaming", Tool: &api.DialogueToolCall{Status: "running"}}}
	apply(begin)
	piece := strings.Repeat("x", 100)
	for range 100_000 {
		for _, field := range []string{"text", "input", "output"} {
			apply(api.DialogueEvent{Type: api.DialogueEventDelta, Delta: &api.DialogueDelta{ItemID: "c", Field: field, Text: piece}})
		}
	}
	it := tree.Result().Items[0]
	if got := len(said(it.Parts)) + len(said(it.Tool.Output)); got != 2*10_000_000 {
		t.Errorf("%d bytes of text and output", got)
	}
	lost := tracker.Lost()[0].Item
	if len(said(lost.Parts)) != 10_000_000 {
		t.Errorf("%d bytes of what was lost", len(said(lost.Parts)))
	}
}
