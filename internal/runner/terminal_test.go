package runner_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/terminal"
	"github.com/trl-dev/trl/internal/testkit"
)

// onTerminal asks for a script of sh on a terminal.
func onTerminal(text string) api.SessionCreateParams {
	return api.SessionCreateParams{Kind: api.KindTerminal, Command: []string{"sh", "-c", text}}
}

func (d *daemon) screen() api.SessionScreenResult {
	d.t.Helper()
	var res api.SessionScreenResult
	if _, err := d.conn.Call(context.Background(), link.Screen.With(&api.SessionScreenParams{}, nil, &res)); err != nil {
		d.t.Fatalf("screen: %v", err)
	}
	return res
}

// keys presses keys after typing text.
func (d *daemon) keys(text string, keys ...string) {
	d.t.Helper()
	if _, err := d.typed(link.SessionInputParams{Keys: keys}, text); err != nil {
		d.t.Fatalf("keys: %v", err)
	}
}

func (d *daemon) follow(p link.FollowParams) (link.FollowResult, string) {
	d.t.Helper()
	var res link.FollowResult
	body, err := d.conn.Call(context.Background(), link.Follow.With(&p, nil, &res))
	if err != nil {
		d.t.Fatalf("follow: %v", err)
	}
	return res, string(body)
}

func TestTerminalLife(t *testing.T) {
	d := launch(t)
	d.news = make(chan struct{}, 1)
	p := onTerminal(`echo $TERM $COLORTERM "<$COLUMNS$LINES$TMUX>" $PWD; stty size; printf '\033]0;a title\007name? '; read name; echo "hello $name"; trap "" HUP; sleep 1000 & exit 3`)
	p.Name, p.WorkingDir, p.Cols, p.Rows = "screen", "/usr", ptr(50), ptr(7)
	info, err := d.create(p, "")
	if err != nil {
		t.Fatal(err)
	}
	if info.State != api.SessionRunning || info.Kind != api.KindTerminal || info.ExecID != d.one() || info.Terminal == nil || info.Terminal.Cols != 50 || info.Terminal.Rows != 7 ||
		info.Terminal.Recording != nil || !alive(info.ShellPID) || info.Command[0] != "sh" || info.Shell != "" {
		t.Errorf("%s", text(info))
	}
	res := d.waits(api.SessionWaitParams{Text: `name\?$`}, api.WaitText)
	if res.Version == 0 || res.Cursor == nil || res.Cursor.X != len("name? ") {
		t.Errorf("%s", text(res))
	}
	want := "xterm-256color truecolor <> /usr\n7 50\nname?"
	if s := d.screen(); strings.TrimSpace(s.Text) != want || s.State != api.SessionRunning || s.SessionID != d.id {
		t.Errorf("%s", text(s))
	}
	testkit.Eventually(t, "the title is told", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.last.Terminal != nil && d.last.Terminal.Title == "a title"
	})
	if x := d.info(d.one()); x.State != api.ExecRunning || !x.StdinOpen || x.QuietMS == nil || !strings.HasPrefix(x.Command, "sh -c 'echo $TERM") {
		t.Errorf("%s", text(x))
	}
	if p, err := d.await(t.Context(), d.one()); err != nil || p == nil || p.PID != info.ShellPID {
		t.Errorf("exec.await: %+v, %v", p, err)
	}
	d.keys("you", "enter")
	out, oc := d.read(d.one(), nil)
	if !strings.HasSuffix(out, "hello you\r\n") || oc.ExitCode != 3 || oc.Cancelled || len(oc.Killed) != 1 || alive(oc.Killed[0].PID) || oc.StdoutBytes != int64(len(out)) {
		t.Errorf("%q, %s", out, text(oc))
	}
	end := d.terminated()
	if *end.ExitCode != 3 || end.Cause != "the program exited with status 3" || end.Terminal == nil || end.Terminal.Title != "a title" || end.ExecID != d.one() {
		t.Errorf("%s", text(end))
	}
	// The last screen can be read, and nothing else be done.
	if s := d.screen(); !strings.Contains(s.Text, "hello you") || s.State != api.SessionTerminated {
		t.Errorf("%s", text(s))
	}
	if res := d.waits(api.SessionWaitParams{Cursor: &api.CursorAt{X: ptr(49)}}, api.WaitExit); *res.ExitCode != 3 {
		t.Errorf("%s", text(res))
	}
	for call, params := range map[string]any{link.Input.Name: link.SessionInputParams{Keys: []string{"enter"}}, link.Resize.Name: link.ResizeParams{Cols: 20, Rows: 10}} {
		if _, err := d.conn.Call(context.Background(), untyped(call, params)); !errors.Is(err, api.ErrSessionTerminated) || !strings.Contains(err.Error(), "exited with status 3") {
			t.Errorf("%s after the end: %v", call, err)
		}
	}
	var states []string
	d.mu.Lock()
	for _, e := range d.events {
		states = append(states, string(e.State))
	}
	d.mu.Unlock()
	if got := strings.Join(states, " "); got != "queued running exited closed" {
		t.Errorf("told: %s", got)
	}
}

// A terminal without a command runs the shell, which is interactive.
func TestTerminalShell(t *testing.T) {
	for _, sh := range []string{"dash", "ash", "bash", "zsh", "fish"} {
		if !installed(sh) {
			t.Logf("NOT TESTED: %s is not installed", sh)
			continue
		}
		for _, login := range []bool{false, true} {
			home := t.TempDir()
			touch(t, home+"/.zshrc") // or it asks what shall be in there
			d := start(t, api.SessionCreateParams{Kind: api.KindTerminal, Shell: sh, Login: login, Env: map[string]string{"HOME": home, "PS1": "ready> "}})
			info := d.details()
			if info.ShellFamily != sh || len(info.Command) != 1 || info.Command[0] != info.Shell || !filepath.IsAbs(info.Shell) {
				t.Errorf("%s", text(info.SessionInfo))
			}
			argv0, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(info.ShellPID), "cmdline"))
			if first, _, _ := strings.Cut(string(argv0), "\x00"); err == nil && strings.HasPrefix(first, "-") != login {
				t.Errorf("%s: started as %q", sh, first)
			}
			d.waits(api.SessionWaitParams{WaitingForInput: true}, api.WaitInput)
			product := "echo $((6*7))"
			if sh == "fish" {
				product = "math 6 x 7"
			}
			d.keys(product, "enter")
			d.waits(api.SessionWaitParams{Text: "^42"}, api.WaitText)
			if t.Failed() {
				t.Fatalf("%s: %q", sh, d.screen().Text)
			}
			d.keys("exit 5", "enter")
			if end := d.terminated(); *end.ExitCode != 5 {
				t.Errorf("%s: %s", sh, text(end))
			}
		}
	}
}

// A program that floods its terminal without a viewer ends, and its last screen is right.
func TestTerminalFloods(t *testing.T) {
	d := start(t, onTerminal("seq 1 300000"))
	d.terminated()
	x := d.info(d.one())
	if want := int64(1988895 + 300000); x.StdoutBytes != want { // with a carriage return in each line
		t.Errorf("%d bytes, want %d", x.StdoutBytes, want)
	}
	if s := d.screen(); !strings.HasSuffix(strings.TrimSpace(s.Text), "299999\n300000") || s.Offset != x.StdoutBytes || s.ScrollbackLines != api.DefaultScrollback {
		t.Errorf("%q, %d, %d", s.Text, s.Offset, s.ScrollbackLines)
	}
}

func TestTerminalFollow(t *testing.T) {
	d := start(t, onTerminal("stty -echo; echo up; read x; printf 'é and more'; read x; exit 6"))
	d.waits(api.SessionWaitParams{Text: "up"}, api.WaitText)
	var snap link.SnapshotResult
	data, err := d.conn.Call(context.Background(), link.Snapshot.With(&link.SnapshotParams{Scrollback: -1}, nil, &snap))
	if err != nil || snap.Cols != 80 || snap.Rows != 24 || len(data) == 0 {
		t.Fatalf("%+v, %v", snap, err)
	}
	if s := terminal.Restore(data, snap).Screen(api.SessionScreenParams{}); strings.TrimSpace(s.Text) != "up" {
		t.Errorf("%s", text(s))
	}
	var size link.ResizeResult
	if _, err := d.conn.Call(context.Background(), link.Resize.With(&link.ResizeParams{Cols: 100, Rows: 30}, nil, &size)); err != nil || size.Offset != snap.Offset {
		t.Errorf("%+v, %v", size, err)
	}
	d.keys("", "enter")
	at, seen, out, resized := snap.Offset, snap.Resizes, "", 0
	for {
		res, body := d.follow(link.FollowParams{Offset: at, Limit: 1 << 20, Wait: true, Resizes: seen, Backlog: 1 << 20})
		at += int64(len(body))
		out, seen = out+body, res.Resizes
		if res.Resize != nil {
			resized = res.Resize.Cols
		}
		if out == "é and more" && resized == 100 {
			d.keys("", "enter")
			out += "|"
		}
		if res.Outcome != nil {
			if res.Outcome.ExitCode != 6 || body != "" {
				t.Errorf("%q, %s", body, text(res))
			}
			break
		}
	}
	if out != "é and more|" || resized != 100 || d.details().Terminal.Cols != 100 {
		t.Errorf("%q, %d columns", out, resized)
	}
}

func TestTerminalInput(t *testing.T) {
	d := start(t, onTerminal("stty raw -echo; echo up; exec cat -u"))
	d.waits(api.SessionWaitParams{Text: "up"}, api.WaitText)
	for i := range 3 {
		if res, err := d.typed(link.SessionInputParams{WriteID: "a"}, "once"); err != nil || res.Repeated != (i > 0) || res.Written != 4 {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if res, err := d.input(link.InputParams{ExecID: d.one(), WriteID: "b"}, " more"); err != nil || res.StdinBytes != 9 || res.ExecID != d.one() {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := d.input(link.InputParams{ExecID: d.one(), WriteID: "b"}, " more"); err != nil || !res.Repeated {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := d.input(link.InputParams{ExecID: d.one(), Close: true}, ""); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("close: %v", err)
	}
	if _, err := d.typed(link.SessionInputParams{Keys: []string{"no-such-key"}}, ""); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("a key: %v", err)
	}
	d.read(d.one(), func(out string) bool { return strings.HasSuffix(out, "once more") })
	for _, c := range []struct {
		call   string
		params any
	}{
		{link.ExecRun.Name, link.ExecParams{ExecParams: api.ExecParams{Command: "true"}}},
		{link.ExecStart.Name, link.ExecParams{ExecParams: api.ExecParams{Command: "true"}}},
	} {
		_, err := d.conn.Call(context.Background(), untyped(c.call, c.params))
		if e := api.AsError(err); e == nil || e.Code != api.CodeInvalidParams || !strings.Contains(e.Message, "is a terminal; it takes session.input, not commands") || e.Details["kind"] != "terminal" {
			t.Errorf("%s: %v", c.call, err)
		}
	}
	info, err := d.cancel(api.ExecCancelParams{ExecID: d.one(), Signal: "INT"})
	if err != nil || !info.Outcome.Cancelled || info.Outcome.Signal != "SIGINT" {
		t.Errorf("%s, %v", text(info), err)
	}
	if end := d.terminated(); end.Signal != "SIGINT" || end.Cause != "its program was cancelled" {
		t.Errorf("%s", text(end))
	}
}

// A terminal whose program does not read accepts input only up to a limit.
func TestTerminalDoesNotRead(t *testing.T) {
	was := limits
	defer func() { limits = was }()
	limits.MaxStdinBytes = 1 << 20
	d := start(t, onTerminal("stty raw -echo; echo up; sleep 1000"))
	d.waits(api.SessionWaitParams{Text: "up"}, api.WaitText)
	before := descriptors(t, d)
	if _, err := d.typed(link.SessionInputParams{}, strings.Repeat("x", 1<<20+1)); api.AsError(err).Code != api.CodeRequestTooLarge {
		t.Errorf("%v", err)
	}
	var err error
	for range 3 {
		if _, err = d.typed(link.SessionInputParams{}, strings.Repeat("x", 1<<20)); err != nil {
			break
		}
	}
	if err == nil || api.AsError(err).Code != api.CodeResourcePressure {
		t.Errorf("%v", err)
	}
	if s := d.screen(); strings.TrimSpace(s.Text) != "up" {
		t.Errorf("%q", s.Text)
	}
	if _, err := d.cancel(api.ExecCancelParams{ExecID: d.one()}); err != nil {
		t.Fatal(err)
	}
	d.terminated()
	if now := descriptors(t, d); now >= before {
		t.Errorf("%d descriptors, before its end %d", now, before)
	}
}

// Real programs, driven by keys.
func TestTerminalPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("NOT TESTED: python3 is not installed")
	}
	d := start(t, api.SessionCreateParams{Kind: api.KindTerminal, Command: []string{python, "-q"}})
	d.waits(api.SessionWaitParams{Text: "^>>>$"}, api.WaitText)
	d.keys("print(6*7)", "enter")
	d.waits(api.SessionWaitParams{Text: "^42$"}, api.WaitText)
	d.keys("exit(9)", "enter")
	if end := d.terminated(); *end.ExitCode != 9 {
		t.Errorf("%s", text(end))
	}
}
