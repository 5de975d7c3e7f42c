package terminal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

func (w *world) program(p api.SessionCreateParams, command ...string) api.SessionInfo {
	w.Helper()
	p.Kind, p.Command = api.KindProgram, command
	return testkit.Must(w.SessionCreate(w.ctx, p))(w)
}

// TestProgram speaks with a program on three pipes, over two daemons, to its end.
func TestProgram(t *testing.T) {
	w := start(t)
	info := w.program(api.SessionCreateParams{Name: "p", Env: map[string]string{"WHO": "me"}}, "sh", "-c",
		`echo "to stderr" >&2; while read -r line; do echo "{\"got\":$line,\"who\":\"$WHO\"}"; done; [ -t 0 ] || echo "no terminal"; exit 6`)
	if info.State != api.SessionRunning || info.Terminal != nil || info.ExecID == "" || info.Shell != "" {
		t.Errorf("%+v", info)
	}
	input := func(p api.SessionInputParams) api.SessionInputResult {
		t.Helper()
		p.SessionID = "p"
		return testkit.Must(w.SessionInput(w.ctx, p))(w)
	}
	input(api.SessionInputParams{Text: "1\n", WriteID: "a"})
	if r := input(api.SessionInputParams{Text: "1\n", WriteID: "a"}); !r.Repeated || r.Written != 2 {
		t.Errorf("%+v", r)
	}
	w.shows("p", `^\{"got":1,"who":"me"\}$`)
	w.restart(nil)
	input(api.SessionInputParams{DataBase64: "Mgo="})
	w.shows("p", `"got":2`)
	if r := testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: "p", WaitingForInput: true}))(w); r.Reason != api.WaitInput || r.Process == nil {
		t.Errorf("%+v", r)
	}
	if r := input(api.SessionInputParams{Text: "1\n", WriteID: "a"}); !r.Repeated { // the runner remembers
		t.Errorf("%+v", r)
	}
	wait := make(chan api.ExecWaitResult, 1)
	go func() {
		r, err := w.ExecWait(w.ctx, api.ExecWaitParams{SessionIDs: []string{info.SessionID}})
		if err != nil {
			t.Error(err)
		}
		wait <- r
	}()
	input(api.SessionInputParams{Close: true})
	r := testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: info.SessionID, Exit: true}))(w)
	if r.Reason != api.WaitExit || *r.ExitCode != 6 {
		t.Errorf("%+v", r)
	}
	if got := <-wait; len(got.Happened) != 1 || got.Happened[0].Reason != api.UntilExit || got.Happened[0].Outcome.ExitCode != 6 {
		t.Errorf("%+v", got)
	}
	details := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: info.SessionID}))(w)
	if details.State != api.SessionTerminated || *details.ExitCode != 6 || details.ExecID != info.ExecID || details.CommandCount != 1 {
		t.Errorf("%+v", details)
	}
	for stream, want := range map[string]string{
		"stdout": "{\"got\":1,\"who\":\"me\"}\n{\"got\":2,\"who\":\"me\"}\nno terminal\n", "stderr": "to stderr\n",
	} {
		if out := testkit.Must(w.ExecOutput(w.ctx, api.ExecOutputParams{ExecID: info.ExecID, Stream: stream}))(w); out.Data != want || !out.Complete {
			t.Errorf("%s: %+v", stream, out)
		}
	}
	for _, call := range []func() error{
		func() error {
			_, err := w.SessionScreen(w.ctx, api.SessionScreenParams{SessionID: info.SessionID})
			return err
		},
		func() error {
			_, err := w.SessionAttach(w.ctx, api.SessionAttachParams{SessionID: info.SessionID})
			return err
		},
	} {
		testkit.WantError(t, call(), api.CodeInvalidParams, "is a program; session.")
	}
}

// TestWhatCannotBeStarted: the error names the program, and nothing is left.
func TestWhatCannotBeStarted(t *testing.T) {
	w := start(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []api.SessionKind{api.KindTerminal, api.KindProgram} {
		for command, code := range map[string]api.Code{"no-such-program": api.CodeShellNotFound, "/no/such/program": api.CodeShellNotFound, text: api.CodeShellFailed} {
			_, err := w.SessionCreate(w.ctx, api.SessionCreateParams{Kind: kind, Name: "a", Command: []string{command}, Record: kind == api.KindTerminal})
			testkit.WantError(t, err, code, command)
		}
	}
	if list := testkit.Must(w.SessionList(w.ctx, api.SessionListParams{}))(w); len(list.Sessions) != 0 {
		t.Errorf("%+v", list)
	}
	if files, _ := os.ReadDir(filepath.Join(w.daemon.StateDir, "recordings")); len(files) != 0 {
		t.Errorf("%d recordings", len(files))
	}
	info := w.terminal("a", "true") // which ends at once
	if d := w.ended(info.SessionID); *d.ExitCode != 0 {
		t.Errorf("%+v", d)
	}
}

// TestRulesOfSessions: what holds for sessions holds for these: limits, the end by time,
// by destroy, by the connection, and by the exec.
func TestRulesOfSessions(t *testing.T) {
	w := start(t, trltest.Args("--max-sessions", "2", "--idle-timeout-s", "0.3", "--kill-grace-s", "0.2"))
	w.terminal("one", "cat")
	w.program(api.SessionCreateParams{Name: "other"}, "cat")
	_, err := w.SessionCreate(w.ctx, api.SessionCreateParams{Kind: api.KindTerminal})
	testkit.WantError(t, err, api.CodeMaxSessionsReached, "2 sessions are live")
	testkit.Must(w.SessionDestroy(w.ctx, api.SessionDestroyParams{SessionID: "other"}))(w)

	x := w.program(api.SessionCreateParams{Name: "x"}, "cat")
	if info := testkit.Must(w.ExecCancel(w.ctx, api.ExecCancelParams{ExecID: x.ExecID}))(w); info.Outcome == nil || !info.Outcome.Cancelled {
		t.Errorf("%+v", info)
	}
	if d := w.ended(x.SessionID); d.Signal != "SIGTERM" && d.ExitCode == nil {
		t.Errorf("%+v", d)
	}

	short := w.daemon.Client(t)
	tied := testkit.Must(short.SessionCreate(w.ctx, api.SessionCreateParams{Kind: api.KindTerminal, Ephemeral: true, Command: []string{"cat"}}))(w)
	short.Close()
	if d := w.ended(tied.SessionID); d.Cause != "the connection that owned it closed" {
		t.Errorf("%+v", d)
	}

	w.daemon.Stop(t)
	w = start(t, trltest.Args("--lifetime-s", "5", "--kill-grace-s", "0.2")) // in which sh must come to its trap
	old := w.terminal("old", "sh", "-c", "trap '' TERM HUP; while :; do sleep 1; done")
	d := w.ended(old.SessionID)
	if d.Cause != "lived for 5s (lifetime_s)" || d.Signal != "SIGKILL" {
		t.Errorf("%+v", d)
	}
	if lived := d.TerminatedAt.Sub(d.CreatedAt); lived < 5*time.Second {
		t.Errorf("lived for %s", lived)
	}
	_, err = w.SessionCreate(w.ctx, api.SessionCreateParams{Kind: api.KindTerminal, TimeoutS: new(float64(3))})
	testkit.WantError(t, err, api.CodeInvalidParams, "params.timeout_s")
}

// TestDrivingPrograms uses an editor and an interpreter as an agent does, with these calls alone.
func TestDrivingPrograms(t *testing.T) {
	for _, program := range []string{"vim", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("NOT TESTED:", err)
		}
	}
	w := start(t)
	file := filepath.Join(t.TempDir(), "letter")
	w.terminal("vim", "vim", "-u", "NONE", "-i", "NONE", "-n", file)
	w.shows("vim", `\[New\]|\[New File\]`)
	w.types("vim", "idear reader", "enter")
	w.types("vim", "second line", "esc")
	w.shows("vim", "^second line$")
	w.types("vim", "", "up", "home")
	w.types("vim", "iA ", "esc")
	w.shows("vim", "^A dear reader$")
	if s := w.screen("vim"); !s.Alternate || s.Cursor.Y != 0 {
		t.Errorf("alternate %v, cursor %+v", s.Alternate, s.Cursor)
	}
	w.types("vim", ":wq", "enter")
	r := testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: "vim", Exit: true}))(w)
	if text, err := os.ReadFile(file); err != nil || string(text) != "A dear reader\nsecond line\n" || *r.ExitCode != 0 {
		t.Errorf("%q, %v, %+v", text, err, r)
	}

	testkit.Must(w.SessionCreate(w.ctx, api.SessionCreateParams{
		Kind: api.KindTerminal, Name: "python", Command: []string{"python3", "-q"}, Env: map[string]string{"PYTHON_BASIC_REPL": "1"},
	}))(w)
	w.shows("python", "^>>>")
	w.types("python", "6*7", "enter")
	w.shows("python", "^42$")
	testkit.Must(w.SessionInput(w.ctx, api.SessionInputParams{SessionID: "python", Paste: "name = input('who? ')", Keys: []string{"enter"}}))(w)
	w.shows("python", "^who\\?")
	if r := testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: "python", WaitingForInput: true}))(w); r.Process == nil || !strings.Contains(r.Process.Command, "python3") {
		t.Errorf("%+v", r)
	}
	w.types("python", "bob", "enter")
	w.types("python", "print('hello', name)", "enter")
	w.shows("python", "^hello bob$")
	w.types("python", "import time; print('asleep'); time.sleep(1000)", "enter")
	w.shows("python", "^asleep$")
	w.types("python", "", "ctrl-c")
	w.shows("python", "KeyboardInterrupt")
	w.types("python", "import os; os._exit(9)", "enter") // on ctrl-d it would die of the earlier SIGINT
	if r := testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: "python", Exit: true}))(w); *r.ExitCode != 9 {
		t.Errorf("%+v", r)
	}
}
