//go:build linux

package places

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// terminal edits a file with vim, and changes the size of the terminal meanwhile.
func (p *place) terminal(t *testing.T, beside string) {
	if _, err := exec.LookPath("vim"); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: a terminal with vim in places: %s\n", err)
		t.SkipNow()
	}
	file := fmt.Sprintf("/tmp/trl-places-%s-%d", p.name, os.Getpid())
	s := testkit.Must(p.SessionCreate(p.ctx, api.SessionCreateParams{
		Beside: beside, Kind: api.KindTerminal, Command: []string{"vim", "-u", "NONE", "-i", "NONE", "-n", file},
	}))(t).SessionID
	keys := func(text string, key ...string) {
		t.Helper()
		testkit.Must(p.SessionInput(p.ctx, api.SessionInputParams{SessionID: s, Text: text}))(t)
		testkit.Must(p.SessionInput(p.ctx, api.SessionInputParams{SessionID: s, Keys: key}))(t)
	}
	shows := func(text string, limit *float64) bool {
		t.Helper()
		r := testkit.Must(p.SessionWait(p.ctx, api.SessionWaitParams{SessionID: s, Text: text, TimeoutS: limit}))(t)
		return r.Reason == api.WaitText
	}
	// vim draws over its answer when it learns of a new size afterwards.
	width := func(cols int) {
		t.Helper()
		testkit.Eventually(t, "vim knows the width of the terminal", func() bool {
			keys(":set columns?", "enter")
			return shows(fmt.Sprintf("columns=%d", cols), new(0.5))
		})
	}
	shows("^~$", nil)
	v := testkit.Must(p.SessionAttach(p.ctx, api.SessionAttachParams{SessionID: s, Size: &api.TerminalSize{Cols: 100, Rows: 30}}))(t)
	defer v.Close()
	if ev := testkit.Must(v.Recv())(t); ev.Type != api.EventSnapshot || ev.ViewerEvent == nil || ev.Cols != 100 || ev.Rows != 30 {
		t.Errorf("the first push of a viewer: %+v", ev)
	}
	width(100)
	testkit.Must(p.SessionResize(p.ctx, api.SessionResizeParams{SessionID: s, Cols: 61, Rows: 20, Force: true}))(t)
	for ev := testkit.Must(v.Recv())(t); ev.Type != api.EventResize || ev.Cols != 61; ev = testkit.Must(v.Recv())(t) {
	}
	width(61)
	keys("ihello", "escape")
	keys(":wq", "enter")
	if r := testkit.Must(p.SessionWait(p.ctx, api.SessionWaitParams{SessionID: s, Exit: true}))(t); r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("%+v", r)
	}
	if r := testkit.Must(p.ExecRun(p.ctx, api.ExecParams{SessionID: beside, Command: "cat " + file + "; rm " + file}))(t); r.Stdout != "hello\n" {
		t.Errorf("%+v", r)
	}
}

// programs runs programs beside the shell and at the same time, each with its own variables and stdin.
func (p *place) programs(t *testing.T, session string) {
	const n = 4
	var list [n]string
	for i := range list {
		list[i] = testkit.Must(p.ExecStart(p.ctx, api.ExecParams{
			SessionID: session, Argv: []string{"sh", "-c", `echo $$; read x; echo "$x $WHO $PWD"; exit $WHO`},
			Env: map[string]string{"WHO": fmt.Sprint(i)}, WorkingDir: "/usr", StdinOpen: true,
		}))(t).ExecID
	}
	if r := testkit.Must(p.ExecRun(p.ctx, api.ExecParams{SessionID: session, Command: "echo the shell"}))(t); r.Stdout != "the shell\n" {
		t.Errorf("%+v", r)
	}
	for i, id := range list {
		testkit.Must(p.ExecWait(p.ctx, api.ExecWaitParams{ExecIDs: []string{id}, OutputMatch: `^\d+$`}))(t)
		info := testkit.Must(p.ExecInfo(p.ctx, api.ExecInfoParams{ExecID: id}))(t)
		if info.State != api.ExecRunning {
			t.Errorf("program %d does not run beside the others: %+v", i, info)
		}
		testkit.Must(p.ExecInput(p.ctx, api.ExecInputParams{ExecID: id, Data: fmt.Sprintf("line %d\n", i), Close: true}))(t)
		r := testkit.Must(p.ExecWait(p.ctx, api.ExecWaitParams{ExecIDs: []string{id}}))(t)
		if len(r.Happened) != 1 || r.Happened[0].Outcome == nil || r.Happened[0].Outcome.ExitCode != i {
			t.Errorf("program %d: %+v", i, r)
		}
		want := fmt.Sprintf("%d\nline %d %d /usr\n", info.PID, i, i)
		if out := testkit.Must(p.ExecOutput(p.ctx, api.ExecOutputParams{ExecID: id, Stream: "stdout"}))(t); out.Data != want {
			t.Errorf("program %d printed %q, want %q", i, out.Data, want)
		}
	}
	for _, c := range []struct {
		params api.ExecParams
		stdout string
	}{
		{api.ExecParams{Argv: []string{"stty", "size"}, Pty: &api.PTYSize{Cols: 91, Rows: 33}}, "33 91\r\n"},
		{api.ExecParams{Argv: []string{"sh", "-c", "echo 1; echo 2 >&2; echo 3"}, Merge: true}, "1\n2\n3\n"},
	} {
		c.params.SessionID = session
		if r := testkit.Must(p.ExecRun(p.ctx, c.params))(t); r.Stdout != c.stdout || r.Stderr != "" || r.ExitCode != 0 {
			t.Errorf("%v: %+v", c.params.Argv, r)
		}
	}
	id := testkit.Must(p.ExecStart(p.ctx, api.ExecParams{SessionID: session, Argv: []string{"sh", "-c", "sh -c 'echo up; exec sleep 4005' & wait"}}))(t).ExecID
	testkit.Must(p.ExecWait(p.ctx, api.ExecWaitParams{ExecIDs: []string{id}, OutputMatch: "^up$"}))(t)
	testkit.Must(p.ExecSignal(p.ctx, api.ExecSignalParams{ExecID: id, Signal: "USR1", To: "tree"}))(t)
	r := testkit.Must(p.ExecWait(p.ctx, api.ExecWaitParams{ExecIDs: []string{id}}))(t)
	if o := r.Happened[0].Outcome; o == nil || o.Signal != "SIGUSR1" || len(o.LeftRunning) > 0 {
		t.Errorf("after a signal for all processes: %+v", o)
	}
}

// dialogue talks with the fake agent, which runs in the place.
func (p *place) dialogue(t *testing.T) {
	agent := testkit.Must(trltest.FakeAgentPath())(t)
	d := testkit.Must(p.DialogueCreate(p.ctx, api.DialogueCreateParams{
		Agent: "claude", Argv: []string{agent}, WorkingDir: "/", Runtime: p.at.Runtime, Place: p.at.Place,
	}))(t)
	events := testkit.Must(p.DialogueEvents(p.ctx, api.DialogueEventsParams{DialogueID: d.DialogueID}))(t)
	defer events.Close()
	until := func(kind api.DialogueEventType) *api.DialogueEvent {
		t.Helper()
		for {
			if e := testkit.Must(events.Recv())(t); e.Event != nil && e.Event.Type == kind {
				return e.Event
			}
		}
	}
	testkit.Must(p.DialogueSend(p.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Text: "say hello; ask Bash rm; line 20KiB; say end"}))(t)
	request := until(api.DialogueEventRequestOpened).Request
	p.Client = p.daemon.Crash(p.T, nil) // the agent goes on
	events = testkit.Must(p.DialogueEvents(p.ctx, api.DialogueEventsParams{DialogueID: d.DialogueID}))(t)
	defer events.Close()
	testkit.Must(p.DialogueRespond(p.ctx, api.DialogueRespondParams{DialogueID: d.DialogueID, RequestID: request.RequestID, Decision: "allow"}))(t)
	until(api.DialogueEventTurnEnded)
	text := fmt.Sprint(testkit.Must(p.DialogueTranscript(p.ctx, api.DialogueTranscriptParams{DialogueID: d.DialogueID}))(t))
	if n := strings.Count(text, "hello"); n == 0 {
		t.Errorf("the transcript is %s", text)
	}
	testkit.Must(p.DialogueTerminate(p.ctx, api.DialogueTerminateParams{DialogueID: d.DialogueID}))(t)
	if r := testkit.Must(p.RuntimePrune(p.ctx, api.RuntimePruneParams{}))(t); len(r.Removed)+len(r.Pending) > 0 {
		t.Errorf("the dialogue left %+v", r)
	}
}

// agentDir is the directory of the fake agent.
func agentDir(t *testing.T) string {
	return filepath.Dir(testkit.Must(trltest.FakeAgentPath())(t))
}
