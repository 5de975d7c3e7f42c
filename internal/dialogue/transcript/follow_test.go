package transcript_test

import "testing"

func TestLost(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"nothing", "turn t1\nitem a final\ncall c completed\nend t1 completed\nstate idle", ""},
		{"an item", "item a streaming", "a:lost"},
		{"a tool call", "call c running", "c:final,lost"},
		{"a tool call whose input is not whole", "begin c", "c:lost,lost"},
		{"a turn that never began for us", "end t1 failed", ""},
		{"a message", "message m1 sent\nmessage m2 queued\nmessage m3 started\nmessage m4 sent\nmessage m4 done\nmessage m5 queued\nmessage m5 cancelled", "message m1:lost; message m2:lost; message m3:lost"},
		{"a message that a turn answers", "message m1 sent\nturn t1 m1", "message m1:lost; turn t1:lost"},
		{"a message that a turn answered", "message m1 sent\nmessage m2 sent\nturn t1 m1\nend t1 completed", "message m2:lost"},
		{"a message that was taken up in a turn", "turn t1\nmessage m1 sent\nmessage m2 started\nend t1 completed", "message m1:lost"},
		{"a request", "ask r1\nask r2\nclose r1 answered allow client", "request r2:lost"},
		{"a request that was asked again", "ask r1\nclose r1 lost\nask r1", "request r1:lost"},
		{"a task that outlives its tool call and turn", "turn t1\nagent c running\ntask k c running\nagent c completed\nend t1 completed", "task k:lost"},
		{"a task whose work was taken up again", "task k c running\ntask k - completed\ntask k - running", "task k:lost"},
		{"children before their parents",
			"message m sent\nturn t1\nagent a running\ntask k a running\nagent a/b running\nwithin l k b running\ncall b/c running\nitem z streaming\nask r",
			"request r:lost; b/c:final,lost; a/b:final,lost; a:final,lost; z:lost; task l:lost; task k:lost; message m:lost; turn t1:lost"},
		{"children of one that is closed, before its parent",
			"agent a running\nagent a/b running\nagent b/c running\nagent b/c completed\nagent c/d running\ncall d/e running",
			"d/e:final,lost; c/d:final,lost; a/b:final,lost; a:final,lost"},
		{"children of a tool that is closed, before its parent",
			"agent a running\nagent a/b running\ncall b/c running\nagent c/d running\ncall b/c completed\ncall d/e running",
			"d/e:final,lost; c/d:final,lost; a/b:final,lost; a:final,lost"},
		{"children of a tool with a task, before its parent",
			"agent a running\nagent a/b running\nstarts b/c k\nagent c/d running",
			"c/d:final,lost; a/b:final,lost; a:final,lost"},
		{"the first scope stays", "agent a running\nagent a/b completed\nagent b running", "a/b:final,lost; a:final,lost"},
		{"but not that of what was retracted", "agent a running\nagent a/b completed\nretract b\nagent b running", "a:final,lost; b:final,lost"},
		{"in a circle", "agent b/a running\nagent a/b running\nwithin k l - running\nwithin l k - running", "b/a:final,lost; a/b:final,lost; task k:lost; task l:lost"},
		{"below what never showed", "call x/a running\ncall b running", "x/a:final,lost; b:final,lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := events(t, c.script)
			tracker := trackerOf(all)
			lost := tracker.Lost()
			if got := briefly(lost); got != c.want {
				t.Errorf("%s\ngot  %s\nwant %s", c.script, got, c.want)
			}
			if marshal(t, tracker.Lost()) != marshal(t, lost) {
				t.Error("asked twice, it tells something else")
			}
			for _, ev := range lost {
				tracker.Apply(ev)
			}
			if tracker.Busy() || len(tracker.Lost()) > 0 {
				t.Errorf("still open: %s", briefly(tracker.Lost()))
			}
		})
	}
}

// The status of a tool stays when its item is never complete.
func TestLostKeepsTheResult(t *testing.T) {
	all := events(t, "call c completed")
	all[0].Item.Status = "streaming"
	if got := briefly(trackerOf(all).Lost()); got != "c:lost,completed" {
		t.Error(got)
	}
}

// The event of a lost item has everything that was published of it.
func TestLostIsWhole(t *testing.T) {
	all := events(t, `
		turn t1
		item a streaming one
		delta a  two
		call c running
		output c made
		task k c running
		begin d
		input d {"half
	`)
	all[3].Item.Tool.TaskID = "k"
	tree, lost := treeOf(all), trackerOf(all).Lost()
	want := `{"item_id":"a","kind":"agent","turn_id":"t1","parts":[{"type":"text","text":"one two"}],"status":"lost"}` +
		`{"item_id":"c","kind":"tool_call","turn_id":"t1","status":"final","tool":{"name":"call","kind":"execute","input":{"of":"c"},"output":[{"type":"text","text":"made"}],"status":"lost","task_id":"k"}}` +
		`{"item_id":"d","kind":"tool_call","turn_id":"t1","status":"lost","tool":{"name":"begin","kind":"execute","status":"lost"}}`
	var got string
	for _, ev := range lost {
		if ev.Item != nil {
			got += marshal(t, ev.Item)
		}
		tree.Apply(ev)
	}
	if got != want {
		t.Errorf("\ngot  %s\nwant %s", got, want)
	}
	r := tree.Result()
	if got := outline(r.Items); got != `a:lost"one two" c:lost>"made" d:lost` || r.Turns[0].Outcome != "lost" || r.Turns[0].Trigger != "user" || r.Tasks[0].ToolCallID != "c" {
		t.Errorf("the transcript is %s, %+v, %+v", got, r.Turns, r.Tasks)
	}
}

func TestFollow(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"a turn that was interrupted leaves its calls", "turn t1\ncall c running\nbegin d\nend t1 interrupted", "c:cancelled d:cancelled"},
		{"also those of no turn", "call c running\nturn t1\nend t1 interrupted", "c:cancelled"},
		{"so does one that failed", "turn t1\ncall c running\nend t1 failed", "c:cancelled"},
		{"and one at its limit", "turn t1\ncall c running\nend t1 limit", "c:cancelled"},
		{"one that was completed, too", "turn t1\ncall c running\nend t1 completed", "c:cancelled"},
		{"but not what goes on as a task", "turn t1\ncall c running\ntask k c running\nend t1 completed", "c:running"},
		{"calls of a turn before are not its own", "turn t1\ncall c running\nend t1 completed\nturn t2\ncall d running\nend t2 interrupted", "c:cancelled d:cancelled"},
		{"text is not its business", "turn t1\nitem a streaming\nend t1 interrupted", "a:streaming"},
		{"a result that comes after all", "turn t1\ncall c running\nend t1 interrupted\ncall c completed", "c:completed"},
		{"work in the background goes on", "turn t1\nagent a running\ntask k a running\nagent a completed\ncall a/b running\nend t1 interrupted", "a:completed(b:running)"},
		{"until its task ends", "turn t1\nagent a running\ntask k a running\nagent a completed\ncall a/b running\nend t1 interrupted\ntask k - cancelled", "a:completed(b:cancelled)"},
		{"the call of a task is not below it", "agent a running\ntask k a running\ncall a/b running\ntask k - completed", "a:running(b:cancelled)"},
		{"the call of a task may be told later", "agent a running\ntask k - running\ntask k a running\ncall a/b running\ntask k - failed", "a:running(b:cancelled)"},
		{"nor are those beside it", "agent a running\nagent b running\ncall a/c running\ncall b/d running\ntask k a running\ntask l b running\ntask k - failed", "a:running(c:cancelled) b:running(d:running)"},
		{"nested, down to a task that runs",
			"agent a running\ntask k a running\nagent a/b running\ncall b/x running\nagent a/c running\nwithin l k c running\ncall c/y running\ntask k - cancelled",
			"a:running(b:cancelled(x:cancelled) c:cancelled(y:running))"},
		{"nested, below one that is closed", "agent a running\ntask k a running\nagent a/b running\nwithin l k b running\nagent a/b completed\ncall b/c running\ntask l - completed", "a:running(b:completed(c:cancelled))"},
		{"a subagent without a task ends with its call", "agent a running\ncall a/b running\nagent a completed", "a:completed(b:cancelled)"},
		{"but not when that is told again", "agent a completed\ncall a/b running\nagent a completed", "a:completed(b:running)"},
		{"as measured: results first, then the tasks",
			"turn t1\nagent a running\ntask k a running\nagent b running\ntask l b running\ncall b/x running\ncall a/y running\n" +
				"agent b failed\ntask l - cancelled\ntask l b cancelled\nagent a failed\ntask k - cancelled\nend t1 interrupted",
			"a:failed(y:cancelled) b:failed(x:cancelled)"},
		{"a late call, until the agent rests", "agent a running\ntask k a running\nagent a completed\ntask k - cancelled\ncall a/b running\nstate running", "a:completed(b:running)"},
		{"a late call, when the agent rests", "agent a running\ntask k a running\nagent a completed\ntask k - cancelled\ncall a/b running\nstate idle", "a:completed(b:cancelled)"},
		{"at rest, but a task goes on", "agent a running\ntask k a running\nagent a completed\ncall a/b running\nstate idle", "a:completed(b:running)"},
		{"at rest, but its call is open", "agent a running\ncall a/b running\nstate idle", "a:running(b:running)"},
		{"at rest, a call of its own", "call a running\nstate idle", "a:running"},
		{"in a circle", "agent b/a running\nagent a/b running\nstate idle\nend t1 failed", "a:cancelled(b:cancelled)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole, tracker := record(events(t, c.script))
			if got := outline(treeOf(whole).Result().Items); got != c.want {
				t.Errorf("%s\ngot  %s\nwant %s", c.script, got, c.want)
			}
			if again := tracker.Follow(); again != nil {
				t.Errorf("what follows from what follows: %s", briefly(again))
			}
		})
	}
}

// Follow returns complete events, which follow from the last event only, the deepest first.
func TestFollowEvents(t *testing.T) {
	tracker := trackerOf(events(t, "turn t1\nagent a running\noutput a so far\ncall a/b running\nbegin c\nend t1 interrupted"))
	follows := tracker.Follow()
	if got, want := briefly(follows), "a/b:final,cancelled; a:final,cancelled; c:aborted,cancelled"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := said(follows[1].Item.Tool.Output); got != "so far" {
		t.Errorf("the output is %q", got)
	}
	tracker.Apply(events(t, "note x")[0])
	if got := tracker.Follow(); got != nil {
		t.Errorf("after an event that ends nothing: %s", briefly(got))
	}
}
