package dialogue_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestMessagesRunOnce: a message is run once, however often it is sent, by any client and to any
// daemon.
func TestMessagesRunOnce(t *testing.T) {
	w := start(t)
	heard := filepath.Join(t.TempDir(), "heard")
	d := w.create(fake("-heard", heard))
	ids := []string{"aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"}
	var all sync.WaitGroup
	var mu sync.Mutex
	fresh := map[string]int{}
	seqs := map[string]map[int64]bool{ids[0]: {}, ids[1]: {}}
	for i := range 20 {
		all.Go(func() {
			id := ids[i%2]
			r, err := w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Text: "say " + id, MessageID: id})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seqs[id][r.Seq] = true
			if !r.Repeated {
				fresh[id]++
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if fresh[id] != 1 || len(seqs[id]) != 1 {
			t.Errorf("%s was fresh %d times, at %v", id, fresh[id], seqs[id])
		}
	}
	f := w.follow(d.DialogueID, 0)
	f.until(api.DialogueEventTurnEnded)
	f.until(api.DialogueEventTurnEnded)
	f.state(api.DialogueIdle)
	w.restart(nil)
	r := testkit.Must(w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Text: "say it again", MessageID: ids[0]}))(w)
	if !r.Repeated || !seqs[ids[0]][r.Seq] {
		t.Errorf("after a restart: %+v, it was %v", r, seqs[ids[0]])
	}
	w.says(d.DialogueID, "say the last")
	text, _ := os.ReadFile(heard)
	for _, id := range ids {
		if n := strings.Count(string(text), `"uuid":"`+id); n != 1 {
			t.Errorf("the agent heard %s %d times", id, n)
		}
	}
	if n := len(w.transcript(d.DialogueID).Turns); n != 3 {
		t.Errorf("%d turns", n)
	}
	_, err := w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Text: "x", MessageID: "not a uuid"})
	testkit.WantError(t, err, api.CodeInvalidParams, "message_id")
}

// TestAnswers: a request is answered once; a later answer gets an error.
func TestAnswers(t *testing.T) {
	w := start(t)
	d := w.create(fake("-gates", t.TempDir()))
	id := d.DialogueID
	f := w.follow(id, 0)
	ask := func(script string) api.DialogueRequest {
		t.Helper()
		w.send(id, script)
		return *f.until(api.DialogueEventRequestOpened).Request
	}
	r := ask("ask Bash rm -rf x")
	if r.Kind != "permission" || r.Tool != "Bash" || r.Subject != "rm -rf x" || r.ToolCallID == "" {
		t.Errorf("%+v", r)
	}
	f.state(api.DialogueRequiresAction)
	clients := []*world{w, {t, w.daemon.Client(t), w.daemon, w.ctx}, {t, w.daemon.Client(t), w.daemon, w.ctx}}
	var all sync.WaitGroup
	results := make([]error, 30)
	for i := range results {
		all.Go(func() { results[i] = clients[i%3].respond(id, r.RequestID, []string{"allow", "deny"}[i%2]) })
	}
	all.Wait()
	won := slices.IndexFunc(results, func(err error) bool { return err == nil })
	for i, err := range results {
		if i != won {
			testkit.WantError(t, err, api.CodeConflict, "is closed: answered ("+[]string{"allow", "deny"}[max(won, 0)%2]+", by client)")
		}
	}
	closed := f.until(api.DialogueEventRequestClosed).Request
	f.until(api.DialogueEventTurnEnded)
	if closed.How != "answered" || closed.Decision != []string{"allow", "deny"}[won%2] || closed.By != "client" || count(f.events, api.DialogueEventRequestClosed) != 1 {
		t.Errorf("%+v", closed)
	}

	// An input of one's own, and a rule for later.
	r = ask("ask Bash cat /etc/shadow")
	testkit.Must(w.DialogueRespond(w.ctx, api.DialogueRespondParams{DialogueID: id, RequestID: r.RequestID, Decision: "allow", Input: []byte(`{"command":"cat /etc/motd"}`), Remember: true}))(w)
	f.until(api.DialogueEventTurnEnded)
	if said := w.said(id); !strings.HasPrefix(said, "remembered: ") || !strings.Contains(said, "cat /etc/shadow") {
		t.Errorf("%q", said)
	}
	if tool := w.lastTool(id); tool.Status != "completed" || !strings.Contains(tool.Output[0].Text, "cat /etc/motd") {
		t.Errorf("%+v", tool)
	}

	// One that is denied ends the turn when that is asked for.
	r = ask("ask Bash rm; say not reached")
	testkit.Must(w.DialogueRespond(w.ctx, api.DialogueRespondParams{DialogueID: id, RequestID: r.RequestID, Decision: "deny", Message: "never", Interrupt: true}))(w)
	if end := f.until(api.DialogueEventTurnEnded).Turn; end.Outcome != "interrupted" || len(end.Denials) != 1 {
		t.Errorf("%+v", end)
	}
	if tool := w.lastTool(id); tool.Status != "failed" && tool.Status != "cancelled" || tool.Output[0].Text != "never" {
		t.Errorf("%+v", tool)
	}

	// A question has words for an answer.
	r = ask("question Which colour?")
	if r.Kind != "question" || len(r.Questions) != 1 || len(r.Questions[0].Options) != 2 {
		t.Errorf("%+v", r)
	}
	testkit.Must(w.DialogueRespond(w.ctx, api.DialogueRespondParams{DialogueID: id, RequestID: r.RequestID, Answers: map[string]string{"Which colour?": "Blue"}}))(w)
	f.until(api.DialogueEventTurnEnded)
	if tool := w.lastTool(id); tool.Output[0].Text != `answers: {"Which colour?":"Blue"}` {
		t.Errorf("%+v", tool)
	}
	testkit.WantError(t, w.respond(id, "no such request", "allow"), api.CodeInvalidParams, "no such request")
}

func (w *world) lastTool(id string) *api.DialogueToolCall {
	w.Helper()
	for _, item := range slices.Backward(w.transcript(id).Items) {
		if item.Tool != nil {
			return item.Tool
		}
	}
	w.Fatal("no tool was called")
	return nil
}

// TestWithdrawn: what the agent takes back, or an interrupt does, cannot be answered any more.
func TestWithdrawn(t *testing.T) {
	w := start(t)
	g := newGates(t)
	d := w.create(fake("-gates", g.dir))
	f := w.follow(d.DialogueID, 0)
	w.send(d.DialogueID, "withdraw late Bash rm; say on we go")
	r := f.until(api.DialogueEventRequestOpened).Request
	g.reached("late")
	g.open("late")
	closed := f.until(api.DialogueEventRequestClosed).Request
	if closed.RequestID != r.RequestID || closed.How != "withdrawn" || closed.By != "agent" {
		t.Errorf("%+v", closed)
	}
	testkit.WantError(t, w.respond(d.DialogueID, r.RequestID, "allow"), api.CodeConflict, "withdrawn")
	f.until(api.DialogueEventTurnEnded)

	w.send(d.DialogueID, "ask Bash rm; say not reached")
	r = f.until(api.DialogueEventRequestOpened).Request
	testkit.Must(w.DialogueInterrupt(w.ctx, api.DialogueInterruptParams{DialogueID: d.DialogueID}))(w)
	if closed := f.until(api.DialogueEventRequestClosed).Request; closed.RequestID != r.RequestID || closed.How != "withdrawn" {
		t.Errorf("%+v", closed)
	}
	if end := f.until(api.DialogueEventTurnEnded).Turn; end.Outcome != "interrupted" {
		t.Errorf("%+v", end)
	}
	f.state(api.DialogueIdle)
	if info := w.info(d.DialogueID); info.State != api.DialogueIdle || info.Requests != 0 {
		t.Errorf("%+v", info)
	}
	if end := w.says(d.DialogueID, "say and on").Turn; end.Text != "and on" {
		t.Errorf("%+v", end)
	}
}

// TestInterrupt stops a turn wherever it is; the dialogue goes on.
func TestInterrupt(t *testing.T) {
	w := start(t)
	d := w.create(fake())
	f := w.follow(d.DialogueID, 0)
	for script, until := range map[string]api.DialogueEventType{"stream the beginning": api.DialogueEventDelta, "hang-tool Bash sleep": api.DialogueEventItem, "hang": api.DialogueEventTurnStarted} {
		r := w.send(d.DialogueID, script)
		f.until(until, func(ev *api.DialogueEvent) bool { return ev.Seq > r.Seq && (ev.Item == nil || ev.Item.Tool != nil) })
		testkit.Must(w.DialogueInterrupt(w.ctx, api.DialogueInterruptParams{DialogueID: d.DialogueID}))(w)
		if end := f.until(api.DialogueEventTurnEnded).Turn; end.Outcome != "interrupted" {
			t.Errorf("%s: %+v", script, end)
		}
		f.state(api.DialogueIdle)
		if open := openIn(w.transcript(d.DialogueID)); len(open) > 0 {
			t.Errorf("%s: open: %q", script, open)
		}
	}
	testkit.Must(w.DialogueInterrupt(w.ctx, api.DialogueInterruptParams{DialogueID: d.DialogueID}))(w) // at rest it is no harm
	if end := w.says(d.DialogueID, "say fine").Turn; end.Outcome != "completed" {
		t.Errorf("%+v", end)
	}
	aborted := 0
	for _, item := range w.transcript(d.DialogueID).Items {
		if item.Status == "aborted" && item.Parts[0].Text == "the beginning" {
			aborted++
		}
	}
	if aborted != 1 {
		t.Errorf("%d texts are marked as aborted", aborted)
	}
}

// TestSet changes the model and the mode, also for a process that comes later.
func TestSet(t *testing.T) {
	w := start(t)
	d := w.create(fake())
	info := testkit.Must(w.DialogueSet(w.ctx, api.DialogueSetParams{DialogueID: d.DialogueID, Model: "model-y", PermissionMode: "acceptEdits"}))(w)
	if info.Model != "model-y" || info.PermissionMode != "acceptEdits" {
		t.Errorf("%+v", info)
	}
	if end := w.says(d.DialogueID, "settings").Turn; end.Text != "model-y acceptEdits" {
		t.Errorf("%+v", end)
	}
}

// TestNames: two dialogues that live do not share a name, nor a conversation of the agent's.
func TestNames(t *testing.T) {
	w := start(t)
	p := fake()
	p.Name = "one"
	d := w.create(p)
	_, err := w.DialogueCreate(w.ctx, p)
	testkit.WantError(t, err, api.CodeConflict, d.DialogueID)
	w.says("one", "say hello")
	resume := fake()
	resume.Resume = w.info("one").NativeSession
	_, err = w.DialogueCreate(w.ctx, resume)
	testkit.WantError(t, err, api.CodeConflict, d.DialogueID)
	other := testkit.Must(w.DialogueCreate(w.ctx, fake()))(w)
	if list := testkit.Must(w.SessionList(w.ctx, api.SessionListParams{}))(w).Sessions; len(list) != 2 {
		t.Errorf("%d sessions", len(list))
	}
	w.terminate("one")
	again := w.create(p) // the name is free
	if got := w.info("one"); got.DialogueID != again.DialogueID {
		t.Errorf("%s is %s", "one", got.DialogueID)
	}
	next := w.create(resume) // and so is the conversation
	if next.DialogueID == d.DialogueID || next.DialogueID == other.DialogueID {
		t.Errorf("%+v", next)
	}
	_, err = w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID})
	testkit.WantError(t, err, api.CodeConflict, "")
	// The conversation is taken before the agent has said which it is, and not lost when it
	// never does.
	w.terminate("one")
	_, err = w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID})
	testkit.WantError(t, err, api.CodeConflict, "conversation")
	_, err = w.DialogueCreate(w.ctx, resume)
	testkit.WantError(t, err, api.CodeConflict, "conversation")
	w.terminate(next.DialogueID)
	if info := testkit.Must(w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: next.DialogueID}))(w); info.NativeSession != resume.Resume {
		t.Errorf("it goes on with %q, not with %q", info.NativeSession, resume.Resume)
	}
	if end := w.says(next.DialogueID, "say hello"); end.Turn.Outcome != "completed" || w.info(next.DialogueID).NativeSession != resume.Resume {
		t.Errorf("%+v: %+v", end.Turn, w.info(next.DialogueID))
	}
	// Of many who want a name at once, one gets it.
	p.Name = "rare"
	var all sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		all.Go(func() { _, errs[i] = w.DialogueCreate(w.ctx, p) })
	}
	all.Wait()
	got := 0
	for _, err := range errs {
		if err == nil {
			got++
		} else {
			testkit.WantError(t, err, api.CodeConflict, "rare")
		}
	}
	if got != 1 {
		t.Errorf("%d got the name", got)
	}
}

// TestAtOneTime: a conversation is resumed by one, however many try at once.
func TestAtOneTime(t *testing.T) {
	w := start(t)
	var all sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		all.Go(func() {
			p := fake("-slow", "50ms")
			p.Resume = "cccccccc-0000-4000-8000-000000000001"
			_, errs[i] = w.DialogueCreate(w.ctx, p)
		})
	}
	all.Wait()
	got := 0
	for _, err := range errs {
		if err == nil {
			got++
		} else {
			testkit.WantError(t, err, api.CodeConflict, "cccccccc")
		}
	}
	if got != 1 {
		t.Errorf("%d drive one conversation", got)
	}
	d := testkit.Must(w.DialogueList(w.ctx, api.DialogueListParams{}))(w).Dialogues[0]
	w.terminate(d.DialogueID)
	for i := range errs {
		all.Go(func() {
			_, errs[i] = w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID})
		})
	}
	all.Wait()
	if got = len(slices.DeleteFunc(errs, func(err error) bool { return err != nil })); got != 1 {
		t.Errorf("resumed %d times", got)
	}
	if info := w.info(d.DialogueID); info.Epoch != 2 {
		t.Errorf("%+v", info)
	}
}

// TestImages: a message may have several blocks.
func TestImages(t *testing.T) {
	w := start(t)
	d := w.create(fake())
	picture := "iVBORw0KGgo="
	r := testkit.Must(w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Content: []api.DialogueContent{
		{Type: "text", Text: "say look at this "}, {Type: "image", DataBase64: picture, MediaType: "image/png"}}}))(w)
	f := w.follow(d.DialogueID, r.Seq)
	if end := f.until(api.DialogueEventTurnEnded).Turn; end.Text != "look at this [image]" {
		t.Errorf("%+v", end)
	}
	item := w.transcript(d.DialogueID).Items[0]
	if len(item.Parts) != 2 || item.Parts[1].DataBase64 != picture || item.Parts[1].MediaType != "image/png" {
		t.Errorf("%+v", item)
	}
	if !bytes.Contains(w.raw(d.DialogueID, 0, "stdin"), []byte(fmt.Sprintf("%q", picture))) {
		t.Error("the agent was not sent the picture")
	}
	long := strings.Repeat("é", 200_000)
	if end := w.says(d.DialogueID, "say "+long).Turn; end.Text != long {
		t.Errorf("%d bytes of %d", len(end.Text), len(long))
	}
}

// TestUnknownRequest: an unknown request is refused at once, with a notice.
func TestUnknownRequest(t *testing.T) {
	w := start(t, trltest.Args("--log-level", "debug"))
	d := w.create(fake())
	r := w.send(d.DialogueID, "unknown-request")
	f := w.follow(d.DialogueID, r.Seq)
	notice := f.until(api.DialogueEventNotice).Notice
	if notice.Code != "unknown_request" || notice.Level != "warning" || !strings.Contains(notice.Text, "read_your_mind") {
		t.Errorf("%+v", notice)
	}
	if end := f.until(api.DialogueEventTurnEnded).Turn; !strings.HasPrefix(end.Text, `answered: {"error":`) {
		t.Errorf("%+v", end)
	}
	if strings.Contains(w.daemon.Stderr(), "unknown-request") {
		t.Error("the log has what was said")
	}
}
