package dialogue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// nothingLeft checks that there is neither a session nor a dialogue, nor a directory of one.
func (w *world) nothingLeft(what string) {
	w.Helper()
	if list := testkit.Must(w.SessionList(w.ctx, api.SessionListParams{}))(w).Sessions; len(list) > 0 {
		w.Errorf("%s: sessions are left: %+v", what, list)
	}
	if list := testkit.Must(w.DialogueList(w.ctx, api.DialogueListParams{}))(w).Dialogues; len(list) > 0 {
		w.Errorf("%s: dialogues are left: %+v", what, list)
	}
	for _, dir := range []string{filepath.Join(w.daemon.StateDir, "dialogues"), w.daemon.RuntimeDir} {
		left, _ := filepath.Glob(filepath.Join(dir, "[ds]-*"))
		if len(left) > 0 {
			w.Errorf("%s: %q is left", what, left)
		}
	}
}

// alive reports whether there is such a process that is not a zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// said is the last text of the agent.
func (w *world) said(id string) string {
	w.Helper()
	items := w.transcript(id).Items
	for _, item := range slices.Backward(items) {
		if item.Kind == "agent" && len(item.Parts) > 0 {
			return item.Parts[0].Text
		}
	}
	w.Fatalf("the agent of %s has said nothing", id)
	return ""
}

// spawned is the pid of a process that the agent has started and reported.
func (w *world) spawned(id string) (pid int) {
	w.Helper()
	if _, err := fmt.Sscanf(w.said(id), "spawned %d", &pid); err != nil || !alive(pid) {
		w.Fatalf("%s: %v", w.said(id), err)
	}
	return pid
}

// TestCreateIsAtomic: a dialogue is there when its agent has answered, or nothing is.
func TestCreateIsAtomic(t *testing.T) {
	w := start(t, trltest.Args("--dialogue-start-timeout-s", "3")) // enough to start an agent on a busy machine
	pids := filepath.Join(t.TempDir(), "heard")
	for _, c := range []struct {
		name   string
		params api.DialogueCreateParams
		text   string
		stderr string
	}{
		{"missing program", api.DialogueCreateParams{Agent: "claude", Argv: []string{"/no/such/program"}}, "/no/such/program", ""},
		{"not a program", api.DialogueCreateParams{Agent: "claude", Argv: []string{"/etc/passwd"}}, "/etc/passwd", ""},
		{"bad flag", fake("--no-such-flag"), "unknown option '--no-such-flag'", "unknown option"},
		{"refuses", fake("-fail", "Invalid API key"), "Invalid API key", "Invalid API key"},
		{"bad mode", api.DialogueCreateParams{Agent: "claude", Argv: fake().Argv, PermissionMode: "sideways"}, "argument 'sideways' is invalid", "sideways"},
		{"silent", fake("-silent", "-heard", pids), "did not answer in time", ""},
		{"deaf", fake("-deaf"), "did not answer in time", ""},
		{"dies in its first line", fake("-die-at", "20"), "ended before it answered", ""},
		{"ends at once", fake("-die-at", "0", "-die-how", "0"), "ended before it answered", ""},
		{"is no agent", api.DialogueCreateParams{Agent: "claude", Argv: []string{"/bin/echo"}}, "ended before it answered", ""},
		{"talks nonsense", api.DialogueCreateParams{Agent: "claude", Argv: []string{"/bin/cat"}}, "", ""},
	} {
		if c.params.WorkingDir == "" {
			c.params.WorkingDir = "/"
		}
		_, err := w.DialogueCreate(w.ctx, c.params)
		testkit.WantError(t, err, api.CodeAgentFailed, c.text)
		if err != nil {
			if stderr := fmt.Sprint(api.AsError(err).Details["stderr"]); !strings.Contains(stderr, c.stderr) {
				t.Errorf("%s: stderr is %q", c.name, stderr)
			}
		}
		w.nothingLeft(c.name)
	}
	_, err := w.DialogueCreate(w.ctx, api.DialogueCreateParams{Agent: "claude", Argv: fake().Argv, WorkingDir: "/no/such/directory"})
	if err == nil || !strings.Contains(err.Error(), "/no/such/directory") {
		t.Errorf("%v", err)
	}
	w.nothingLeft("working directory")
	if heard, err := os.ReadFile(pids); err != nil || !strings.Contains(string(heard), `"initialize"`) {
		t.Errorf("%q, %v", heard, err)
	}
}

// TestCreateGivenUp: the caller of dialogue.create may disconnect before the dialogue exists.
func TestCreateGivenUp(t *testing.T) {
	w := start(t)
	heard := filepath.Join(t.TempDir(), "heard")
	other := w.daemon.Client(t)
	done := make(chan error, 1)
	go func() {
		_, err := other.DialogueCreate(w.ctx, fake("-silent", "-heard", heard))
		done <- err
	}()
	testkit.Eventually(t, "the agent hears of it", func() bool {
		text, _ := os.ReadFile(heard)
		return strings.Contains(string(text), "initialize")
	})
	sessions := testkit.Must(w.SessionList(w.ctx, api.SessionListParams{Tags: []string{api.TagDialogue}}))(w).Sessions
	if len(sessions) != 1 {
		t.Errorf("while it starts: %+v", sessions)
	}
	other.Close()
	if err := <-done; !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("%v", err)
	}
	testkit.Eventually(t, "nothing is left", func() bool {
		list := testkit.Must(w.SessionList(w.ctx, api.SessionListParams{}))(w).Sessions
		left, _ := filepath.Glob(filepath.Join(w.daemon.StateDir, "dialogues", "d-*"))
		return len(list) == 0 && len(left) == 0
	})
	w.nothingLeft("given up")
}

// TestCreateOutlivesTheDaemon: if the daemon is replaced while it starts the agent, the next one starts the
// agent again. The message that begins the dialogue is sent once.
func TestCreateOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	w := start(t, trltest.Args("--log-level", "info"))
	dir := t.TempDir()
	starts, heard, agent := filepath.Join(dir, "starts"), filepath.Join(dir, "heard"), filepath.Join(dir, "agent")
	script := fmt.Sprintf("#!/bin/sh\necho x >>%[1]s\n[ \"$(cat %[1]s)\" = x ] && exec %[2]s -silent \"$@\"\nexec %[2]s \"$@\"\n", starts, fakeAgent())
	if err := os.WriteFile(agent, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	text := func(path string) string {
		b, _ := os.ReadFile(path)
		return string(b)
	}
	p := fake()
	p.Argv, p.Name, p.Prompt = []string{agent, "-heard", heard}, "build", "say hello"
	type created struct {
		info api.DialogueInfo
		err  error
	}
	done := make(chan created, 1)
	c := w.daemon.Client(t)
	go func() {
		info, err := c.DialogueCreate(w.ctx, p)
		done <- created{info, err}
	}()
	testkit.Eventually(t, "the agent hears of it", func() bool { return strings.Contains(text(heard), "initialize") })
	w.daemon.Signal(t, syscall.SIGUSR2)
	r := <-done
	if r.err != nil || r.info.Name != "build" {
		t.Fatalf("%+v, %v", r.info, r.err)
	}
	f := w.follow(r.info.DialogueID, 0)
	f.until(api.DialogueEventTurnEnded)
	f.close()
	if list := testkit.Must(w.DialogueList(w.ctx, api.DialogueListParams{}))(t).Dialogues; len(list) != 1 {
		t.Errorf("%+v", list)
	}
	if n := strings.Count(text(heard), "say hello"); n != 1 || text(starts) != "x\nx\n" {
		t.Errorf("%d messages, starts %q", n, text(starts))
	}
	w.terminate(r.info.DialogueID)
}

// TestOwnership: the session belongs to the dialogue from before the start of the program
// until after its end, and others get at it only by force.
func TestOwnership(t *testing.T) {
	w := start(t)
	zero := int64(0)
	events := testkit.Must(w.EventSubscribe(w.ctx, api.EventSubscribeParams{AfterSeq: &zero}))(w)
	defer events.Close()
	p := fake()
	p.Name, p.Tags = "mine", []string{"blue"}
	d := w.create(p)
	s := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: d.SessionID}))(w)
	if want := []string{api.TagDialogue, d.DialogueID, "blue"}; !slices.Equal(s.Tags, want) || s.Kind != api.KindProgram {
		t.Errorf("tags %q of a %s", s.Tags, s.Kind)
	}
	ev := testkit.Must(events.Recv())(w)
	if ev.Type != api.EventSessionCreated || ev.SessionID != d.SessionID {
		t.Errorf("first it was told: %+v", ev)
	}
	refused := func(method string, err error) {
		t.Helper()
		testkit.WantError(t, err, api.CodeConflict, d.DialogueID)
		if err != nil && !strings.Contains(err.Error(), "dialogue.") {
			t.Errorf("%s: it does not say what to call instead: %v", method, err)
		}
	}
	_, err := w.SessionInput(w.ctx, api.SessionInputParams{SessionID: d.SessionID, Text: "x\n"})
	refused("session.input", err)
	_, err = w.ExecInput(w.ctx, api.ExecInputParams{ExecID: s.ExecID, Data: "x\n"})
	refused("exec.input", err)
	_, err = w.ExecInput(w.ctx, api.ExecInputParams{ExecID: s.ExecID, Close: true})
	refused("exec.input close", err)
	_, err = w.ExecCancel(w.ctx, api.ExecCancelParams{ExecID: s.ExecID})
	refused("exec.cancel", err)
	_, err = w.ExecCancel(w.ctx, api.ExecCancelParams{SessionID: d.SessionID})
	refused("exec.cancel of the session", err)
	_, err = w.SessionDestroy(w.ctx, api.SessionDestroyParams{SessionID: d.SessionID})
	refused("session.destroy", err)
	if end := w.says("mine", "say still here"); end.Turn.Outcome != "completed" {
		t.Errorf("%+v", end.Turn)
	}
	// The agent reads input that was written by force, and the record stays right.
	line, _ := json.Marshal(map[string]any{"type": "user", "uuid": "99999999-9999-4999-8999-999999999999", "message": map[string]any{"role": "user", "content": "say forced"}})
	f := w.follow("mine", 0)
	testkit.Must(w.SessionInput(w.ctx, api.SessionInputParams{SessionID: d.SessionID, Text: string(line) + "\n", Force: true}))(w)
	f.until(api.DialogueEventTurnEnded, func(ev *api.DialogueEvent) bool { return ev.Turn.Text == "forced" })

	testkit.Must(w.SessionDestroy(w.ctx, api.SessionDestroyParams{SessionID: d.SessionID, Force: true}))(w)
	f.drain()
	last := f.events[len(f.events)-1]
	if count(f.events, api.DialogueEventEnded) != 1 || last.Type != api.DialogueEventEnded || last.Ended.Cause != "session_destroyed" {
		t.Errorf("%s", brief(f.events))
	}
	if info := w.info("mine"); info.State != api.DialogueEnded || info.Ended == nil {
		t.Errorf("%+v", info)
	}
	for _, err := range []error{
		second(w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: "mine", Text: "x"})),
		second(w.DialogueInterrupt(w.ctx, api.DialogueInterruptParams{DialogueID: "mine"})),
		second(w.DialogueSet(w.ctx, api.DialogueSetParams{DialogueID: "mine", Model: "x"})),
		w.respond("mine", "x", "allow"),
	} {
		testkit.WantError(t, err, api.CodeDialogueEnded, "dialogue.resume")
	}
}

func second[T any](_ T, err error) error { return err }

// ended checks that a dialogue and its session have ended, and that exactly one event reports it.
func (w *world) ended(d api.DialogueInfo, cause string) *api.DialogueEnd {
	w.Helper()
	events := w.events(d.DialogueID)
	last := events[len(events)-1]
	if count(events, api.DialogueEventEnded) != d.Epoch || last.Type != api.DialogueEventEnded || last.Ended.Cause != cause {
		w.Fatalf("it should have ended once, %s:\n%s", cause, brief(events))
	}
	if info := w.info(d.DialogueID); info.State != api.DialogueEnded || info.Ended == nil || info.Ended.Cause != cause || info.Seq != last.Seq || info.Requests != 0 || info.Tasks != 0 {
		w.Errorf("%+v", info)
	}
	if s, err := w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: d.SessionID}); err == nil && s.State != api.SessionTerminated {
		w.Errorf("its session is %s", s.State)
	}
	if open := openIn(w.transcript(d.DialogueID)); len(open) > 0 {
		w.Errorf("open in the transcript of what has ended: %q", open)
	}
	return last.Ended
}

// openIn is what is not closed in a transcript.
func openIn(r api.DialogueTranscriptResult) (open []string) {
	for _, turn := range r.Turns {
		if turn.Outcome == "" {
			open = append(open, "turn "+turn.TurnID)
		}
	}
	var look func([]api.DialogueItem)
	look = func(items []api.DialogueItem) {
		for _, item := range items {
			if item.Status == "streaming" {
				open = append(open, item.Kind+" "+item.ItemID)
			}
			if item.Tool != nil {
				if slices.Contains([]string{"pending", "awaiting_approval", "running", ""}, item.Tool.Status) {
					open = append(open, "tool call "+item.ItemID+" "+item.Tool.Status)
				}
				look(item.Tool.Items)
			}
		}
	}
	look(r.Items)
	for _, task := range r.Tasks {
		if task.Status == "running" {
			open = append(open, "task "+task.TaskID)
		}
	}
	for _, request := range r.Requests {
		if request.How == "" {
			open = append(open, "request "+request.RequestID)
		}
	}
	return open
}

// TestTerminate ends an agent in every state, and everything that it started.
func TestTerminate(t *testing.T) {
	t.Parallel()
	w := start(t, trltest.Args("--kill-grace-s", "1"))
	for _, c := range []struct {
		name, script string
		until        api.DialogueEventType // that is waited for before
		force        bool
		signal       string
	}{
		{"idle", "", "", false, ""},
		{"in a turn", "say x; hang", api.DialogueEventItem, false, ""},
		{"in the middle of a text", "stream so far", api.DialogueEventDelta, false, ""},
		{"asked", "ask Bash rm", api.DialogueEventRequestOpened, false, ""},
		{"ignores the end of stdin", "ignore-eof; say x; hang", api.DialogueEventItem, false, "SIGTERM"},
		{"ignores SIGTERM", "ignore-eof; ignore-term; say x; hang", api.DialogueEventItem, false, "SIGKILL"},
		{"does not read", "stop-reading-stdin; say x; hang", api.DialogueEventItem, false, "SIGTERM"},
		{"by force", "ignore-eof; ignore-term; say x; hang", api.DialogueEventItem, true, "SIGKILL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{t, w.Client, w.daemon, timeout(t)}
			d := w.create(fake())
			f := w.follow(d.DialogueID, 0)
			var pids []int
			if c.script != "" {
				w.says(d.DialogueID, "spawn sleep 1000")
				pids = append(pids, w.spawned(d.DialogueID))
				r := w.send(d.DialogueID, c.script)
				f.until(c.until, func(ev *api.DialogueEvent) bool { return ev.Seq > r.Seq && (ev.Item == nil || ev.Item.Kind == "agent") })
			}
			if strings.HasPrefix(c.script, "stop-reading") { // the pipe is full, too
				for range 8 {
					w.send(d.DialogueID, strings.Repeat("x", 100_000))
				}
			}
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					info, err := w.DialogueTerminate(w.ctx, api.DialogueTerminateParams{DialogueID: d.DialogueID, Force: c.force})
					if err != nil || info.State != api.DialogueEnded {
						t.Errorf("%+v, %v", info, err)
					}
				})
			}
			all.Wait()
			f.drain()
			if end := w.ended(d, "closed"); end.Signal != c.signal {
				t.Errorf("%+v", end)
			}
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("process %d is left", pid)
				}
			}
			w.terminate(d.DialogueID) // once more is no harm
			testkit.Must(w.DialogueTerminate(w.ctx, api.DialogueTerminateParams{DialogueID: d.DialogueID, Forget: true}))(w)
			_, err := w.DialogueInfo(w.ctx, api.DialogueInfoParams{DialogueID: d.DialogueID})
			testkit.WantError(t, err, api.CodeDialogueNotFound, d.DialogueID)
		})
	}
	w.nothingLeft("after all")
}

// TestEndsByItself: the end of a program is reported, and TRL ends the processes that it left.
func TestEndsByItself(t *testing.T) {
	w := start(t)
	for _, c := range []struct {
		script, cause string
		code          int
		signal, tail  string
	}{
		{"say bye; exit 3", "unexpected_exit", 3, "", ""},
		{"exit 0", "unexpected_exit", 0, "", ""},
		{"stderr last words; kill9", "unexpected_exit", 137, "SIGKILL", ""},
		{"exit-mid-line 4", "unexpected_exit", 4, "", `{"message":`},
		{"kill9-mid-line", "unexpected_exit", 137, "SIGKILL", `{"message":`},
		{"spawn sleep 1000; kill9", "unexpected_exit", 137, "SIGKILL", ""},
		{"spawn-holding sleep 1000; kill9", "unexpected_exit", 137, "SIGKILL", ""},
		{"background-task never; say x", "unexpected_exit", 130, "SIGKILL", ""}, // cancelled by force
	} {
		d := w.create(fake("-gates", t.TempDir()))
		f := w.follow(d.DialogueID, 0)
		w.send(d.DialogueID, c.script)
		if strings.HasPrefix(c.script, "background") {
			f.until(api.DialogueEventTurnEnded)
			s := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: d.SessionID}))(w)
			testkit.Must(w.ExecCancel(w.ctx, api.ExecCancelParams{ExecID: s.ExecID, Force: true, Signal: "KILL"}))(w)
		}
		f.drain()
		end := w.ended(d, c.cause)
		if end.ExitCode == nil || *end.ExitCode != c.code || end.Signal != c.signal || !strings.HasPrefix(end.Tail, c.tail) || (end.Tail == "") != (c.tail == "") {
			text, _ := json.Marshal(end)
			t.Errorf("%s: %s", c.script, text)
		}
		if strings.Contains(c.script, "last words") && !strings.Contains(end.StderrTail, "last words\n") {
			t.Errorf("stderr: %q", end.StderrTail)
		}
		if strings.HasPrefix(c.script, "spawn") {
			var pid int
			_, _ = fmt.Sscanf(w.said(d.DialogueID), "spawned %d", &pid)
			testkit.Eventually(t, "what it started is gone", func() bool { return !alive(pid) })
		}
	}
}

// TestExitsAtRest: an agent that ends when it has nothing to do is no accident.
func TestExitsAtRest(t *testing.T) {
	w := start(t)
	d := w.create(fake())
	f := w.follow(d.DialogueID, 0)
	w.says(d.DialogueID, "pid")
	f.state(api.DialogueIdle)
	f.state(api.DialogueIdle)
	var pid int
	_, _ = fmt.Sscan(w.said(d.DialogueID), &pid)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	f.drain()
	if end := w.ended(d, "exited"); end.ExitCode == nil || *end.ExitCode != 143 {
		t.Errorf("%+v", end)
	}
}
