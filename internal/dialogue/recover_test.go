package dialogue

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
)

// TestPolicyAnswersBehindTheLine: the policy's answer comes after all events of the line, so an
// allowed tool does not wait any more, and the next daemon replays the same order.
func TestPolicyAnswersBehindTheLine(t *testing.T) {
	s := recorded(t)
	asked := s.calls[1].Offset
	s.calls = s.calls[:1]
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	d.about.Params.Policy = &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "*", Action: "allow"}}}
	s.play(d, p, asked)
	want := eventsIn(t, dir)
	waits, closed := strings.LastIndex(want, "awaiting_approval"), strings.Index(want, `"request_closed"`)
	if waits < 0 || closed < waits {
		t.Fatalf("the answer is not behind what it answers:\n%s", want)
	}
	d.record.end()
	if err := os.Truncate(filepath.Join(dir, eventsFile), 0); err != nil {
		t.Fatal(err)
	}
	again(t, dir)
	if got := eventsIn(t, dir); got != want {
		t.Fatalf("the next daemon makes of it\n%s\nwant\n%s", got, want)
	}
}

// TestPolicyAnswersOnce: if a new policy matches several requests, each is answered once.
func TestPolicyAnswersOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	var text strings.Builder
	for _, id := range []string{"r1", "r2", "r3"} {
		text.WriteString(`{"type":"control_request","request_id":"` + id + `","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}` + "\n")
	}
	d.receive(p, piece{stream: api.EventStdout, data: []byte(text.String())})
	before := p.calls
	d.mu.Lock()
	d.about.Params.Policy = &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "Bash", Action: "allow"}}}
	d.applyPolicyLocked(p)
	d.flushLocked()
	d.mu.Unlock()
	if n := strings.Count(eventsIn(t, dir), `"request_closed"`); n != 3 || p.calls-before != 3 {
		t.Errorf("%d requests closed by %d calls, of 3", n, p.calls-before)
	}
}

// TestPolicyLooksOnce: the rules are compared with each request once, so that thousands of requests that
// wait take no time; a new policy is compared with all of them.
func TestPolicyLooksOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	var written int64
	ask := func(id string) {
		line := `{"type":"control_request","request_id":"` + id + `","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}` + "\n"
		d.receive(p, piece{stream: api.EventStdout, offset: written, data: []byte(line)})
		written += int64(len(line))
	}
	rules := []api.DialogueRule{{Tool: "Read", Action: "allow"}}
	set := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.about.Params.Policy = &api.DialoguePolicy{Rules: rules}
		d.applyPolicyLocked(p)
		d.flushLocked()
	}
	ask("r1")
	set()
	rules[0].Tool = "Bash" // shows which requests are compared again
	ask("r2")
	if n := strings.Count(eventsIn(t, dir), `"request_closed"`); n != 1 {
		t.Errorf("%d requests were compared, not the new one alone", n)
	}
	set()
	if n := strings.Count(eventsIn(t, dir), `"request_closed"`); n != 2 || len(d.tracker.Pending()) != 0 {
		t.Errorf("the new policy answered %d of 2 requests", n)
	}
}

// TestEndIsPublishedOnce: a daemon may die after it published the end and before it saved dialogue.json.
// The next one does not publish the end again.
func TestEndIsPublishedOnce(t *testing.T) {
	s := recorded(t)
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	s.play(d, p, s.calls[1].Offset)
	living := d.about
	d.finish(p, nil)
	want := eventsIn(t, dir)
	if err := d.record.save(living); err != nil {
		t.Fatal(err)
	}
	r, a, err := openRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	d = d.registry.newDialogue(r, a)
	if err := d.recoverLocked(); err != nil {
		t.Fatal(err)
	}
	if info := d.Info(); info.State != api.DialogueEnded || info.Ended == nil || info.Requests != 0 {
		t.Errorf("it is %+v", info)
	}
	if got := eventsIn(t, dir); got != want {
		t.Errorf("the record was changed:\n%s", got)
	}
	if _, a, err := openRecord(dir); err != nil || a.Info == nil {
		t.Errorf("its end is not noted: %v", err)
	}
}

// TestReplayWithoutOutput: if recorded output is lost, the record stays, and new events continue
// its numbers.
func TestReplayWithoutOutput(t *testing.T) {
	s := recorded(t)
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	s.play(d, p, int64(len(s.stdout)))
	d.record.end()
	want := eventsIn(t, dir)
	if err := os.Truncate(d.record.path("stdout", 1), 15); err != nil {
		t.Fatal(err)
	}
	d, p, err := tryAgain(t, dir, io.Discard)
	if err == nil {
		t.Error("nothing is said about the gap")
	}
	if p.calls != len(s.calls) {
		t.Errorf("%d calls, of %d", p.calls, len(s.calls))
	}
	d.finish(p, nil)
	got := eventsIn(t, dir)
	if !strings.HasPrefix(got, want) || !strings.Contains(got[len(want):], `"ended"`) {
		t.Fatalf("it does not go on behind what was there:\n%s", got)
	}
	n := int64(0)
	if err := d.record.load(func(api.DialogueEvent) { n++ }); err != nil || n != d.Info().Seq {
		t.Errorf("%d events can be read, of %d: %v", n, d.Info().Seq, err)
	}
}

// TestNoRoomForTheEnd: on a full disk the end cannot be written, but readers wait for it for a
// bounded time, and later events are complete.
func TestNoRoomForTheEnd(t *testing.T) {
	s := recorded(t)
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	s.play(d, p, s.calls[1].Offset)
	follow, err := d.Events(context.Background(), api.DialogueEventsParams{DialogueID: d.id})
	if err != nil {
		t.Fatal(err)
	}
	defer follow.Close()
	kept := d.record.seq
	d.record.events.Close()
	if d.record.events, err = os.Open(filepath.Join(dir, eventsFile)); err != nil { // cannot be written to
		t.Fatal(err)
	}
	d.finish(p, nil)
	var last api.StreamEvent
	for {
		ev, err := follow.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = ev
	}
	if last.Type != api.EventEnd || last.Seq != kept {
		t.Errorf("the last push is %+v, want the end behind event %d", last, kept)
	}
	if err := d.reopen(nil); err != nil {
		t.Fatal(err)
	}
	if d.seq <= kept || d.seq != d.record.seq || len(d.record.pending) != 0 {
		t.Errorf("it goes on behind event %d of %d with %d bytes of the past", d.seq, d.record.seq, len(d.record.pending))
	}
}

// TestHalfACall: an incomplete call in the record does not spoil those behind it.
func TestHalfACall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d-1")
	d, _ := begin(t, dir)
	for range 2 {
		if err := d.record.addCall(callAt{Offset: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.record.calls.WriteString(`{"offset":1,"ca`); err != nil {
			t.Fatal(err)
		}
		if _, err := d.record.loadCalls(1); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := d.record.loadCalls(1); err != nil || len(list) != 2 {
		t.Errorf("%d calls, want 2: %v", len(list), err)
	}
}

// TestOnlyTheBeginningIsRemoved: only a record whose creation was interrupted is removed. Events
// stay even if the rest is damaged.
func TestOnlyTheBeginningIsRemoved(t *testing.T) {
	base := t.TempDir()
	for name, stays := range map[string]bool{"d-nothing": false, "d-begun": false, "d-said": true} {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		text := ""
		if stays {
			text = `{"seq":1}` + "\n"
		}
		if name != "d-nothing" {
			if err := os.WriteFile(filepath.Join(dir, eventsFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if emptyRecord(dir) == stays {
			t.Errorf("%s: want it kept: %v", name, stays)
		}
	}
}

// TestNotForgottenWhileStarting: a dialogue that is being started cannot be forgotten.
func TestNotForgottenWhileStarting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	d.finish(p, nil)
	if err := d.reopen(nil); err != nil {
		t.Fatal(err)
	}
	if err := d.registry.forget(d); api.AsError(err).Code != api.CodeConflict {
		t.Errorf("forget: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	d.markEnded()
	if err := d.registry.forget(d); err != nil {
		t.Error(err)
	}
}

// TestEndIsWrittenLater: an end that could not be written is written when the dialogue is resumed,
// so that nothing of the old process is open in the new one.
func TestEndIsWrittenLater(t *testing.T) {
	s := recorded(t)
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	d.about.Created = true
	s.play(d, p, s.calls[1].Offset)
	if n := len(d.tracker.Pending()); n != 1 {
		t.Fatalf("%d requests wait", n)
	}
	empty := fill(t, d, &d.record.events)
	d.finish(p, &api.ExecOutcome{ExitCode: 7})
	empty()
	if err := d.reopen(nil); err != nil {
		t.Fatal(err)
	}
	var last api.DialogueEvent
	closed := false
	if err := d.record.load(func(ev api.DialogueEvent) {
		last = ev
		closed = closed || ev.Type == api.DialogueEventRequestClosed && ev.Request.How == "lost"
	}); err != nil {
		t.Fatal(err)
	}
	if n := len(d.tracker.Pending()); n != 0 || !closed {
		t.Errorf("%d requests wait, closed %v", n, closed)
	}
	if last.Type != api.DialogueEventEnded || last.Ended.ExitCode == nil || *last.Ended.ExitCode != 7 || d.seq != last.Seq {
		t.Errorf("the last event is %+v, and %d are known", last, d.seq)
	}
}

// TestDamagedRecord: reading a damaged record changes nothing; before events are appended, the
// unreadable part is moved to a separate file.
func TestDamagedRecord(t *testing.T) {
	s := recorded(t)
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	s.play(d, p, int64(len(s.stdout)))
	d.record.end()
	path := filepath.Join(dir, eventsFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	good := len(bytes.Join(lines[:3], nil))
	broken := bytes.Clone(whole)
	broken[good] = 'x'
	if err := os.WriteFile(path, append(broken, "half a li"...), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &record{dir: dir, changed: make(chan struct{})}
	var bad *damage
	if err := r.load(func(api.DialogueEvent) {}); !errors.As(err, &bad) || bad.at != int64(good) || bad.seq != 3 || r.isIndexed() {
		t.Errorf("%v, want damage at byte %d", err, good)
	}
	if now, _ := os.ReadFile(path); !bytes.Equal(now, append(broken, "half a li"...)) {
		t.Errorf("reading made %d bytes of %d", len(now), len(broken))
	}
	n := 0
	if err := r.repair(d.log, func(api.DialogueEvent) { n++ }); err != nil || n != 3 || r.seq != 3 || !r.isIndexed() {
		t.Errorf("%d events, %d: %v", n, r.seq, err)
	}
	kept, _ := os.ReadFile(path)
	aside, _ := os.ReadFile(path + ".damaged")
	if !bytes.Equal(kept, whole[:good]) || !bytes.Equal(aside, append(broken[good:], "half a li"...)) {
		t.Errorf("%d bytes are kept and %d put aside, of %d", len(kept), len(aside), len(broken))
	}
}

// TestReplayWithoutTheFile: without the recorded output, the events are still those of the record.
func TestReplayWithoutTheFile(t *testing.T) {
	s := recorded(t)
	dir := filepath.Join(t.TempDir(), "d-1")
	d, p := begin(t, dir)
	s.play(d, p, int64(len(s.stdout)))
	d.record.end()
	if err := os.Remove(d.record.path("stdout", 1)); err != nil {
		t.Fatal(err)
	}
	seq := d.seq
	d, p = quiet(t, dir, false)
	if err := d.record.load(func(api.DialogueEvent) {}); err != nil {
		t.Fatal(err)
	}
	known, err := d.record.since(1)
	if err != nil {
		t.Fatal(err)
	}
	defer known.close()
	if err := d.rejoinLocked(p, known); err == nil || d.seq != seq {
		t.Errorf("behind event %d, want %d: %v", d.seq, seq, err)
	}
}

// TestDenyWhileAway: if deny_after_s passes while the agent cannot be reached, the requests are
// denied when it is reached again.
func TestDenyWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := recorded(t)
		d, p := begin(t, filepath.Join(t.TempDir(), "d-1"))
		d.about.Params.Policy = &api.DialoguePolicy{DenyAfterS: new(5.0)}
		s.play(d, p, s.calls[1].Offset)
		away := api.DialogueFault{Code: reconnectFailed, Reason: "unreachable", Retry: true}
		d.mu.Lock()
		d.failLocked(p, away)
		d.mu.Unlock()
		time.Sleep(time.Minute)
		if info := d.Info(); info.State != api.DialogueError || info.Error == nil || info.Requests != 1 {
			t.Errorf("%+v", info)
		}
		d.mu.Lock()
		d.clearFaultLocked(p)
		d.mu.Unlock()
		if info := d.Info(); info.State != api.DialogueRequiresAction || info.Error != nil {
			t.Errorf("%+v", info)
		}
		time.Sleep(6 * time.Second)
		if info := d.Info(); info.State != api.DialogueRunning || info.Requests != 0 {
			t.Errorf("%+v", info)
		}
		d.mu.Lock()
		d.stopDenyTimerLocked()
		if p.stallTimer != nil {
			p.stallTimer.Stop()
		}
		d.mu.Unlock()
	})
}
