package transcript_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/transcript"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestBusy(t *testing.T) {
	for _, c := range []struct {
		script string
		want   bool
	}{
		{"state idle", false},
		{"state running", false},
		{"turn t1", true},
		{"turn t1\nend t1 completed", false},
		{"item a streaming", true},
		{"item a streaming\nitem a final", false},
		{"item a streaming\nretract a", false},
		{"begin c", true},
		{"call c pending", true},
		{"call c awaiting_approval", true},
		{"call c running", true},
		{"call c running\ncall c completed", false},
		{"call c running\ncall c failed", false},
		{"call c running\ncall c cancelled", false},
		{"agent c running\ncall c/d running\nretract c", false},
		{"agent c running\nagent c completed\ncall c/d running\nretract c", false},
		{"task k c running", true},
		{"task k c running\ntask k - failed", false},
		{"task k c running\ntask k - completed\ntask k - running", true},
		{"ask r", true},
		{"ask r\nclose r withdrawn", false},
		{"message m sent", false},
	} {
		if got := trackerOf(events(t, c.script)).Busy(); got != c.want {
			t.Errorf("busy is %v after\n%s", got, c.script)
		}
	}
}

func TestRequests(t *testing.T) {
	tracker := trackerOf(events(t, "ask r1\nask r2\nask r3\nclose r2 answered deny policy\nclose r2 withdrawn"))
	var pending []string
	for _, r := range tracker.Pending() {
		pending = append(pending, r.RequestID+" "+r.Subject)
	}
	if got := strings.Join(pending, ","); got != "r1 make,r3 make" {
		t.Errorf("pending: %s", got)
	}
	if r, known := tracker.Request("r2"); !known || r.How != "answered" || r.Decision != "deny" || r.By != "policy" || r.Tool != "Bash" {
		t.Errorf("r2 is %+v, %v", r, known)
	}
	if r, known := tracker.Request("r1"); !known || r.How != "" || r.Subject != "make" {
		t.Errorf("r1 is %+v, %v", r, known)
	}
	if _, known := tracker.Request("r4"); known {
		t.Error("r4 is known")
	}
	if got := transcript.NewTracker().Pending(); got == nil {
		t.Error("the pending of nothing is nil")
	}
}

// The tracker knows the last thousand closed requests.
func TestRequestsClosed(t *testing.T) {
	tracker := transcript.NewTracker()
	for n := range 3000 {
		r := api.DialogueRequest{RequestID: fmt.Sprint("r", n), Input: []byte(`"long"`)}
		tracker.Apply(api.DialogueEvent{Type: api.DialogueEventRequestOpened, Request: &r})
		tracker.Apply(api.DialogueEvent{Type: api.DialogueEventRequestClosed, Request: &api.DialogueRequest{RequestID: r.RequestID, How: "answered"}})
	}
	for n := range 3000 {
		r, known := tracker.Request(fmt.Sprint("r", n))
		if known != (n >= 2000) || known && (r.How != "answered" || r.Input != nil) {
			t.Fatalf("r%d is %+v, %v", n, r, known)
		}
	}
}

func TestDescribe(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	all := events(t, `
		state idle
		turn t1
		turn t1
		task k c running
		task l d running
		task l - completed
		ask r
		end t1 completed
		end t2 failed
		turn t3
	`)
	all = append(all,
		api.DialogueEvent{Seq: 90, Epoch: 1, Type: api.DialogueEventOpened, Opened: &api.DialogueOpened{Version: "2", NativeSession: "n1", Model: "m1", PermissionMode: "plan", WorkingDir: "/w"}},
		api.DialogueEvent{Seq: 91, Epoch: 1, At: at, Type: api.DialogueEventReset, Opened: &api.DialogueOpened{NativeSession: "n2", Model: "m2"}},
		api.DialogueEvent{Seq: 92, Epoch: 1, Type: api.DialogueEventUsage, Usage: &api.DialogueUsage{InputTokens: 7}})
	info := api.DialogueInfo{Name: "mine", Model: "given"}
	trackerOf(all).Describe(&info)
	want := api.DialogueInfo{
		Name: "mine", Version: "2", NativeSession: "n2", Model: "m2", PermissionMode: "plan", WorkingDir: "/w",
		State: api.DialogueRequiresAction, Epoch: 1, Seq: 92, Turns: 3, Requests: 1, Tasks: 1, LastActivity: at, Usage: api.DialogueUsage{InputTokens: 7},
	}
	if got, want := marshal(t, info), marshal(t, want); got != want {
		t.Errorf("\ngot  %s\nwant %s", got, want)
	}
	info = api.DialogueInfo{Version: "before", Model: "given", LastActivity: at}
	transcript.NewTracker().Describe(&info)
	if info.Version != "before" || info.Model != "given" || info.LastActivity != at || info.State != api.DialogueStarting {
		t.Errorf("without events: %+v", info)
	}
}

// A turn counts once, even if its end is published several times.
func TestTurnsCount(t *testing.T) {
	tracker := trackerOf(events(t, "end t0 failed\n"+strings.Repeat("end t1 failed\n", 2000)+"end t0 failed"))
	var info api.DialogueInfo
	tracker.Describe(&info)
	if info.Turns != 2 {
		t.Errorf("%d turns", info.Turns)
	}
}

func TestState(t *testing.T) {
	for _, c := range []struct {
		script string
		want   api.DialogueState
	}{
		{"note x", api.DialogueStarting},
		{"state idle\nstate running", api.DialogueRunning},
		{"state running\nask r", api.DialogueRequiresAction},
		{"state running\nask r\nclose r answered", api.DialogueRunning},
		{"state running\nask r\nstate requires_action\nclose r answered", api.DialogueRunning},
		{"state running\nask r\nask s\nclose r answered\nclose r answered", api.DialogueRequiresAction},
		{"state running\nask r\nstate idle", api.DialogueRequiresAction},
		{"state error\nask r", api.DialogueError},
		{"state idle\nexit", api.DialogueEnded},
		{"ask r\nexit", api.DialogueEnded},
		{"state idle\nexit\nnote late", api.DialogueEnded},
		{"state idle\nexit\nepoch 2\nnote x", api.DialogueStarting},
		{"state idle\nexit\nepoch 2\nstate running", api.DialogueRunning},
	} {
		all := events(t, c.script)
		var info api.DialogueInfo
		trackerOf(all).Describe(&info)
		r := treeOf(all).Result()
		if info.State != c.want || r.State != c.want {
			t.Errorf("tracker %s, tree %s, want %s after\n%s", info.State, r.State, c.want, c.script)
		}
		if ended := c.want == api.DialogueEnded; ended != (info.Ended != nil) || ended != (r.Ended != nil) {
			t.Errorf("tracker %v, tree %v tell of the end after\n%s", info.Ended, r.Ended, c.script)
		}
	}
}

func TestUsage(t *testing.T) {
	dollars := func(d float64) *float64 { return &d }
	type told struct {
		epoch  int
		figure api.DialogueUsage
	}
	for _, c := range []struct {
		name string
		told []told
		want string // input, output, cost
	}{
		{"nothing", nil, "0 0 -"},
		{"cumulative figures are not summed", []told{{1, api.DialogueUsage{InputTokens: 10, OutputTokens: 1}}, {1, api.DialogueUsage{InputTokens: 30, OutputTokens: 2}}}, "30 2 -"},
		{"those of processes are", []told{{1, api.DialogueUsage{InputTokens: 10}}, {1, api.DialogueUsage{InputTokens: 30}}, {2, api.DialogueUsage{InputTokens: 5}}, {2, api.DialogueUsage{InputTokens: 6}}, {4, api.DialogueUsage{InputTokens: 100}}}, "136 0 -"},
		{"cost likewise", []told{{1, api.DialogueUsage{CostUSD: dollars(0.5)}}, {1, api.DialogueUsage{CostUSD: dollars(0.75)}}, {2, api.DialogueUsage{CostUSD: dollars(0.25)}}}, "0 0 1"},
		{"a cost that only one told", []told{{1, api.DialogueUsage{CostUSD: dollars(0.5)}}, {2, api.DialogueUsage{InputTokens: 1}}}, "1 0 0.5"},
		{"no cost is told as none", []told{{1, api.DialogueUsage{CostUSD: dollars(0)}}}, "0 0 0"},
	} {
		tree, tracker := transcript.NewTree(), transcript.NewTracker()
		for n, told := range c.told {
			ev := api.DialogueEvent{Seq: int64(n + 1), Epoch: told.epoch, Type: api.DialogueEventUsage, Usage: &told.figure}
			tree.Apply(ev)
			tracker.Apply(ev)
		}
		var info api.DialogueInfo
		tracker.Describe(&info)
		for _, u := range []api.DialogueUsage{info.Usage, tree.Result().Usage} {
			cost := "-"
			if u.CostUSD != nil {
				cost = fmt.Sprint(*u.CostUSD)
			}
			if got := fmt.Sprint(u.InputTokens, " ", u.OutputTokens, " ", cost); got != c.want {
				t.Errorf("%s: got %s, want %s", c.name, got, c.want)
			}
		}
	}
}

// Repeated events have no effect, so a record may be read again from anywhere.
func TestReplay(t *testing.T) {
	all := events(t, "turn t1\nitem a streaming\ndelta a one\ndelta a two\nitem b final\nretract b\nnote n\nask r")
	once, again := treeOf(all), treeOf(all)
	tracker := trackerOf(all)
	before := briefly(tracker.Lost())
	for from := range all {
		for _, ev := range all[from:] {
			again.Apply(ev)
			tracker.Apply(ev)
		}
	}
	if got, want := marshal(t, again.Result()), marshal(t, once.Result()); got != want {
		t.Errorf("\ngot  %s\nwant %s", got, want)
	}
	if got := briefly(tracker.Lost()); got != before {
		t.Errorf("open: %s, want %s", got, before)
	}
}

// A tracker needs memory only for open things, after any number of events.
func TestTrackerIsSmall(t *testing.T) {
	tracker := transcript.NewTracker()
	text := func() []api.DialoguePart {
		return []api.DialoguePart{{Type: "text", Text: strings.Repeat("x", 10_000)}}
	}
	before := testkit.Heap()
	for n := range 5000 {
		id := fmt.Sprint(n)
		scope := ""
		if n%3 == 0 {
			scope = fmt.Sprint(n - 1)
		}
		for _, ev := range []api.DialogueEvent{
			{Type: api.DialogueEventTurnStarted, Turn: &api.DialogueTurn{TurnID: id, Text: strings.Repeat("x", 1000)}},
			{Type: api.DialogueEventItem, Item: &api.DialogueItem{ItemID: "a" + id, Status: "streaming"}},
			{Type: api.DialogueEventDelta, Delta: &api.DialogueDelta{ItemID: "a" + id, Field: "text", Text: strings.Repeat("x", 1000)}},
			{Type: api.DialogueEventItem, Item: &api.DialogueItem{ItemID: "a" + id, Status: "final", Parts: text()}},
			{Type: api.DialogueEventItem, Scope: scope, Item: &api.DialogueItem{ItemID: id, Status: "final", Tool: &api.DialogueToolCall{Kind: "agent", Status: "running"}}},
			{Type: api.DialogueEventTask, Task: &api.DialogueTask{TaskID: "k" + id, ToolCallID: id, Status: "running", Summary: strings.Repeat("x", 1000)}},
			{Type: api.DialogueEventRequestOpened, Request: &api.DialogueRequest{RequestID: "r" + id, Input: []byte(strings.Repeat("1", 10_000)), Subject: strings.Repeat("x", 1000)}},
			{Type: api.DialogueEventRequestClosed, Request: &api.DialogueRequest{RequestID: "r" + id, How: "answered"}},
			{Type: api.DialogueEventItem, Scope: scope, Item: &api.DialogueItem{ItemID: id, Status: "final", Tool: &api.DialogueToolCall{Kind: "agent", Status: "completed", Output: text()}}},
			{Type: api.DialogueEventTask, Task: &api.DialogueTask{TaskID: "k" + id, Status: "completed"}},
			{Type: api.DialogueEventTurnEnded, Turn: &api.DialogueTurn{TurnID: id, Outcome: "failed"}},
		} {
			tracker.Apply(ev)
			tracker.Follow()
		}
	}
	if grown := testkit.Heap() - before; grown > 4<<20 {
		t.Errorf("%d bytes after 100 MB of events", grown)
	}
	if tracker.Busy() {
		t.Error("something is open")
	}
}

// A lost task is known until its end is reported.
func TestTrackerLostTasks(t *testing.T) {
	tr := transcript.NewTracker()
	seq := int64(0)
	tell := func(id, status string) {
		seq++
		tr.Apply(api.DialogueEvent{Seq: seq, Epoch: 1, Type: api.DialogueEventTask, Task: &api.DialogueTask{TaskID: id, NativeID: "n" + id, Status: status}})
	}
	lost := func() (ids string) {
		for _, task := range tr.LostTasks() {
			ids += task.TaskID + "/" + task.NativeID + " "
		}
		return ids
	}
	for _, id := range []string{"a", "b", "c"} {
		tell(id, "running")
	}
	tell("b", "completed")
	for _, ev := range tr.Lost() {
		seq++
		ev.Seq, ev.Epoch = seq, 1
		tr.Apply(ev)
	}
	if got := lost(); got != "a/na c/nc " {
		t.Errorf("lost: %s", got)
	}
	tell("a", "cancelled")
	tell("c", "running")
	if got := lost(); got != "" {
		t.Errorf("told since: %s", got)
	}
	tell("c", "lost")
	tell("a", "lost")
	tell("c", "lost")
	if got := lost(); got != "a/na c/nc " {
		t.Errorf("lost again: %s", got)
	}
}
