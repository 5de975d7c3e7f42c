package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/testkit"
)

// program asks for a program on pipes.
func program(command ...string) api.SessionCreateParams {
	return api.SessionCreateParams{Kind: api.KindProgram, Command: command}
}

// script is a program that is a script of sh.
func script(text string) api.SessionCreateParams { return program("sh", "-c", text) }

// one is the id of the session's one exec.
func (d *daemon) one() string { return "x-" + strings.TrimPrefix(d.id, "s-") + "-1" }

// typed is session.input.
func (d *daemon) typed(p link.SessionInputParams, data string) (api.SessionInputResult, error) {
	var res api.SessionInputResult
	_, err := d.conn.Call(context.Background(), link.Input.With(&p, []byte(data), &res))
	return res, err
}

func TestProgramLife(t *testing.T) {
	d := launch(t)
	d.news = make(chan struct{}, 1)
	p := program("cat", "-u", "-")
	p.Name, p.WorkingDir, p.Env, p.Tags = "talk", "/usr", map[string]string{"A": "b"}, []string{"x"}
	info, err := d.create(p, "")
	if err != nil {
		t.Fatal(err)
	}
	if info.State != api.SessionRunning || info.Kind != api.KindProgram || info.ExecID != d.one() || info.WorkingDir != "/usr" || info.TimeoutS != 0 ||
		strings.Join(info.Command, " ") != "cat -u -" || info.ShellPID == 0 || !alive(info.ShellPID) || info.Terminal != nil || info.ExitCode != nil || info.CommandCount != 1 {
		t.Errorf("%s", text(info))
	}
	x := d.info(d.one())
	if x.State != api.ExecRunning || x.Command != "cat -u -" || !x.StdinOpen || x.StartedAt == nil || !x.Detach || x.TimeoutS != 0 {
		t.Errorf("%s", text(x))
	}
	if res, err := d.typed(link.SessionInputParams{}, "hello\n"); err != nil || res.Bytes != 6 || res.Written != 6 || res.Repeated {
		t.Errorf("%+v, %v", res, err)
	}
	d.read(d.one(), func(out string) bool { return out == "hello\n" })
	// exec.input is the same.
	if res := d.write(d.one(), "more\n", false); res.StdinBytes != 11 {
		t.Errorf("%+v", res)
	}
	if res, err := d.typed(link.SessionInputParams{Close: true}, "end"); err != nil || res.Written != 14 {
		t.Errorf("%+v, %v", res, err)
	}
	out, oc := d.read(d.one(), nil)
	if out != "hello\nmore\nend" || oc.ExitCode != 0 || oc.Signal != "" || oc.Cancelled || len(oc.Killed) != 0 || oc.StdoutBytes != 14 || oc.WorkingDir != "/usr" {
		t.Errorf("%q, %s", out, text(oc))
	}
	end := d.terminated()
	if end.ExitCode == nil || *end.ExitCode != 0 || end.Signal != "" || end.ExecID != d.one() || end.Cause != "the program exited with status 0" || end.TerminatedAt == nil {
		t.Errorf("%s", text(end))
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
	// Until a daemon takes it over everything can be read, and nothing written.
	if x := d.info(d.one()); x.State != api.ExecClosed || x.StdinOpen || x.EndedAt == nil {
		t.Errorf("%s", text(x))
	}
	if _, err := d.typed(link.SessionInputParams{}, "x"); !errors.Is(err, api.ErrSessionTerminated) {
		t.Errorf("input after the end: %v", err)
	}
	if det := d.details(); det.ShellPID != 0 || len(det.Processes) != 0 || det.State != api.SessionTerminated {
		t.Errorf("%s", text(det))
	}
}

// A program need not read what is written to it.
func TestProgramDoesNotRead(t *testing.T) {
	d := start(t, script("echo up; sleep 1000"))
	d.read(d.one(), running)
	before := descriptors(t, d)
	if _, err := d.typed(link.SessionInputParams{}, strings.Repeat("x", int(limits.MaxStdinBytes)+1)); api.AsError(err).Code != api.CodeRequestTooLarge {
		t.Errorf("%v", err)
	}
	for i := range 3 { // the second and third are repetitions
		res, err := d.typed(link.SessionInputParams{WriteID: "w"}, strings.Repeat("x", int(limits.MaxStdinBytes)))
		if err != nil || res.Repeated != (i > 0) || res.Written != limits.MaxStdinBytes {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	if _, err := d.typed(link.SessionInputParams{}, strings.Repeat("x", 1<<20)); api.AsError(err).Code != api.CodeResourcePressure {
		t.Errorf("%v", err)
	}
	info, err := d.cancel(api.ExecCancelParams{SessionID: d.id})
	if err != nil || !info.Outcome.Cancelled || info.Outcome.ExitCode != api.ExitCancelled || info.Outcome.Signal != "SIGTERM" || len(info.Outcome.Killed) != 2 {
		t.Errorf("%s, %v", text(info), err)
	}
	end := d.terminated()
	if end.Cause != "its program was cancelled" || *end.ExitCode != api.ExitCancelled || end.Signal != "SIGTERM" {
		t.Errorf("%s", text(end))
	}
	if now := descriptors(t, d); now > before-3 {
		t.Errorf("%d descriptors, before its end %d", now, before)
	}
}

// A program that has closed its stdin, or reads it late.
func TestProgramInput(t *testing.T) {
	d := start(t, script("exec <&-; echo up; sleep 1000"))
	d.read(d.one(), running)
	if _, err := d.typed(link.SessionInputParams{}, "x"); !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), "its stdin is closed") {
		t.Errorf("%v", err)
	}
	if d.info(d.one()).StdinOpen {
		t.Error("its stdin is open")
	}
	p := script(`read go; wc -c`)
	d = start(t, p)
	if _, err := d.typed(link.SessionInputParams{}, "go\n"); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, err := d.typed(link.SessionInputParams{}, strings.Repeat("y", 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.typed(link.SessionInputParams{Close: true}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := d.typed(link.SessionInputParams{}, "x"); err == nil {
		t.Error("written after its end")
	}
	if out, oc := d.read(d.one(), nil); strings.TrimSpace(out) != "8388608" || oc.ExitCode != 0 {
		t.Errorf("%q, %s", out, text(oc))
	}
}

func TestProgramWriteID(t *testing.T) {
	d := start(t, program("cat"))
	for i := range 3 {
		if res, err := d.typed(link.SessionInputParams{WriteID: "a"}, "once "); err != nil || res.Repeated != (i > 0) || res.Written != 5 {
			t.Errorf("%+v, %v", res, err)
		}
	}
	// They are those of exec.input.
	if res, err := d.input(link.InputParams{ExecID: d.one(), WriteID: "a"}, "once "); err != nil || !res.Repeated {
		t.Errorf("%+v, %v", res, err)
	}
	d.leave()
	d.connect()
	if res, err := d.typed(link.SessionInputParams{WriteID: "a"}, "once "); err != nil || !res.Repeated {
		t.Errorf("another daemon: %+v, %v", res, err)
	}
	if _, err := d.typed(link.SessionInputParams{WriteID: "b", Close: true}, "end"); err != nil {
		t.Fatal(err)
	}
	if out, _ := d.read(d.one(), nil); out != "once end" {
		t.Errorf("%q", out)
	}
	d.terminated()
	if res, err := d.typed(link.SessionInputParams{WriteID: "b", Close: true}, "end"); err != nil || !res.Repeated || res.Written != 8 {
		t.Errorf("a repetition after the end: %+v, %v", res, err)
	}
}

func TestProgramNotThere(t *testing.T) {
	dir := t.TempDir()
	plain, broken := dir+"/plain", dir+"/broken"
	touch(t, plain)
	if err := os.WriteFile(broken, []byte("not a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []api.SessionKind{api.KindProgram, api.KindTerminal} {
		for _, c := range []struct {
			program string
			code    api.Code
			message string
		}{
			{"no-such-program", api.CodeShellNotFound, `program "no-such-program": not found`},
			{dir + "/none", api.CodeShellNotFound, `program "` + dir + `/none": not found`},
			{"./none", api.CodeShellNotFound, `program "./none": not found`},
			{plain, api.CodeShellFailed, `program "` + plain + `": not an executable file`},
			{"./plain", api.CodeShellFailed, `program "./plain": not an executable file`},
			{dir, api.CodeShellFailed, `program "` + dir + `": not an executable file`},
			{broken, api.CodeShellFailed, `exec format error`},
		} {
			d := launch(t)
			_, err := d.create(api.SessionCreateParams{Kind: kind, Command: []string{c.program}, WorkingDir: dir}, "")
			if e := api.AsError(err); e == nil || e.Code != c.code || !strings.Contains(e.Message, c.message) {
				t.Errorf("%s %s: %v", kind, c.program, err)
			}
			d.leave() // the runner goes, for nothing is there
			if err := d.cmd.Wait(); err != nil {
				t.Errorf("%s %s: the runner: %v", kind, c.program, err)
			}
		}
	}
}

// A program is found by the session's own PATH and from its directory.
func TestProgramFound(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/mine", []byte("#!/bin/sh\necho \"mine $1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, p := range []api.SessionCreateParams{
		{Command: []string{"./mine", "it's"}, WorkingDir: dir},
		{Command: []string{"mine", "it's"}, Env: map[string]string{"PATH": dir + ":" + os.Getenv("PATH")}},
	} {
		p.Kind = api.KindProgram
		d := start(t, p)
		if out, _ := d.read(d.one(), nil); out != "mine it's\n" {
			t.Errorf("%v: %q", p.Command, out)
		}
		if got := d.info(d.one()).Command; got != p.Command[0]+` 'it'\''s'` {
			t.Errorf("shown as %s", got)
		}
	}
}

// Each call is refused by sessions of the wrong kind, which then go on.
func TestWrongKind(t *testing.T) {
	sh, cat := start(t, api.SessionCreateParams{Shell: "sh", Name: "one"}), start(t, program("cat"))
	for _, c := range []struct {
		d      *daemon
		call   string
		params any
		words  string
	}{
		{sh, link.Input.Name, link.SessionInputParams{}, `session "one": is a shell; it takes commands`},
		{sh, link.Resize.Name, link.ResizeParams{Cols: 80, Rows: 24}, "is a shell"},
		{sh, link.Screen.Name, api.SessionScreenParams{}, "is a shell"},
		{sh, link.Wait.Name, api.SessionWaitParams{Exit: true}, "is a shell"},
		{sh, link.Snapshot.Name, link.SnapshotParams{}, "is a shell"},
		{sh, link.Follow.Name, link.FollowParams{}, "is a shell"},
		{cat, link.Resize.Name, link.ResizeParams{Cols: 80, Rows: 24}, "is a program; it has no screen"},
		{cat, link.Screen.Name, api.SessionScreenParams{}, "is a program"},
		{cat, link.Snapshot.Name, link.SnapshotParams{}, "is a program"},
		{cat, link.Follow.Name, link.FollowParams{}, "is a program"},
		{cat, link.Wait.Name, api.SessionWaitParams{Cursor: &api.CursorAt{X: ptr(1)}}, "is a program; it has no cursor"},
		{cat, link.Wait.Name, api.SessionWaitParams{Text: "("}, "params.text: "},
		{cat, link.Input.Name, link.SessionInputParams{Keys: []string{"enter"}}, "is a program; it takes text"},
		{cat, link.Input.Name, link.SessionInputParams{Paste: true}, "is a program; it takes text"},
		{cat, link.ExecRun.Name, link.ExecParams{ExecParams: api.ExecParams{Command: "true"}}, `session "` + cat.id + `": is a program; it takes session.input, not commands`},
		{cat, link.ExecStart.Name, link.ExecParams{ExecParams: api.ExecParams{Command: "true", Wait: true}}, "is a program; it takes session.input"},
	} {
		_, err := c.d.conn.Call(context.Background(), untyped(c.call, c.params))
		if e := api.AsError(err); e == nil || e.Code != api.CodeInvalidParams || !strings.Contains(e.Message, c.words) || e.Details == nil {
			t.Errorf("%s: %v, want %q", c.call, err, c.words)
		}
	}
	if r := sh.run("echo on"); r.stdout != "on\n" {
		t.Errorf("%q", r.stdout)
	}
	if x := cat.info(cat.one()); x.State != api.ExecRunning {
		t.Errorf("%s", text(x))
	}
}

// TestForbiddenDirectory: a directory that the user may not enter is the caller's mistake, and not a
// fault of the shell.
func TestForbiddenDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may enter every directory")
	}
	dir := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(dir, 0); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []api.SessionKind{api.KindShell, api.KindProgram} {
		p := api.SessionCreateParams{Kind: kind, WorkingDir: dir}
		if kind == api.KindProgram {
			p.Command = []string{"true"}
		}
		d := launch(t)
		_, err := d.create(p, "")
		testkit.WantError(t, err, api.CodeInvalidParams, "closed\": permission denied")
	}
}
