package runner_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/export"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/terminal"
)

func TestTerminalEnds(t *testing.T) {
	for _, c := range []struct {
		script string
		code   int
		signal string
	}{
		{"exit 0", 0, ""}, {"exit 200", 200, ""}, {"kill -9 $$", 137, "SIGKILL"}, {"kill -HUP $$", 129, "SIGHUP"},
		{"exec <&- >&- 2>&-; exit 4", 4, ""},
	} {
		d := start(t, onTerminal(c.script))
		res := d.waits(api.SessionWaitParams{Exit: true}, api.WaitExit)
		if res.ExitCode == nil || *res.ExitCode != c.code || res.Signal != c.signal {
			t.Errorf("%q: %s", c.script, text(res))
		}
		if end := d.terminated(); *end.ExitCode != c.code || end.Signal != c.signal {
			t.Errorf("%q: %s", c.script, text(end))
		}
	}
}

// An interactive shell ignores SIGTERM: it is hung up, not waited for.
func TestTerminalDestroyed(t *testing.T) {
	was := limits
	defer func() { limits = was }()
	limits.KillGraceS = 1000
	for _, sh := range []string{"dash", "bash", "zsh", "fish"} {
		if !installed(sh) {
			continue
		}
		d := start(t, api.SessionCreateParams{Kind: api.KindTerminal, Shell: sh, Env: map[string]string{"HOME": t.TempDir()}})
		d.waits(api.SessionWaitParams{WaitingForInput: true}, api.WaitInput)
		pid := d.details().ShellPID
		var res link.DestroyResult
		if _, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Cause: "test"}, nil, &res)); err != nil {
			t.Fatal(err)
		}
		if err := d.cmd.Wait(); err != nil {
			t.Error(err)
		}
		if alive(pid) || res.Info.State != api.SessionTerminated || !res.Execs[0].Outcome.Cancelled || res.Execs[0].State != api.ExecClosed {
			t.Errorf("%s: %s", sh, text(res))
		}
	}
	// A process that left the group, ignores all signals and holds the terminal dies too.
	limits.KillGraceS = 0.1
	d := start(t, onTerminal(`setsid sh -c 'trap "" TERM HUP; echo up; while :; do sleep 1; done'; sleep 1000`))
	d.read(d.one(), func(out string) bool { return strings.Contains(out, "up") })
	var res link.DestroyResult
	if _, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Cause: "test"}, nil, &res)); err != nil {
		t.Fatal(err)
	}
	for _, k := range res.Killed {
		if alive(k.PID) {
			t.Errorf("%+v lives", k)
		}
	}
	if len(res.Killed) == 0 {
		t.Errorf("%s", text(res))
	}
	_ = d.cmd.Wait()
}

// The export of a terminal has its last screen.
func TestTerminalExport(t *testing.T) {
	d := start(t, onTerminal(`printf '\033[1mbold\033[0m\r\n'; seq 1 100; printf '\033]2;title\007last'; exit 1`))
	d.terminated()
	shown := d.screen()
	_, exported := d.destroyAndFetch()
	d.safe()
	past, err := export.Open(bytes.NewReader(exported), int64(len(exported)))
	if err != nil {
		t.Fatal(err)
	}
	last, err := past.Screen()
	if err != nil || last == nil || last.Cols != 80 || last.Rows != 24 || last.Offset != shown.Offset {
		t.Fatalf("%+v, %v", last, err)
	}
	s := terminal.Restore(last.Data, last.SnapshotResult).Screen(api.SessionScreenParams{})
	if s.Text != shown.Text || s.Cursor != shown.Cursor || s.Title != shown.Title || s.Title != "title" || s.ScrollbackLines != shown.ScrollbackLines || s.Offset != shown.Offset {
		t.Errorf("%s, was %s", text(s), text(shown))
	}
	if info := past.Result.Info; info.Terminal == nil || info.Terminal.Title != "title" || *info.ExitCode != 1 || info.ExecID != d.one() {
		t.Errorf("%s", text(info))
	}
	for at := range exported { // nothing that is cut off is taken for a whole
		if at%997 == 0 {
			if _, err := export.Open(bytes.NewReader(exported[:at]), int64(at)); err == nil {
				t.Errorf("%d bytes of it open", at)
			}
		}
	}
}

// Between the end of the program and the end of the processes that it left running, nothing is
// reported twice, and no reader wakes up without a reason.
func TestTerminalReadersWait(t *testing.T) {
	was := limits
	defer func() { limits = was }()
	limits.KillGraceS = 0.3
	d := start(t, onTerminal(`trap "" HUP TERM; (echo up; while :; do sleep 1; done) & read x; exit 8`))
	d.waits(api.SessionWaitParams{Text: "up"}, api.WaitText)
	d.waits(api.SessionWaitParams{WaitingForInput: true}, api.WaitInput)
	read := make(chan int)
	go func() {
		var r link.ReadResult
		after := d.info(d.one()).LastSeq
		for r.Outcome == nil {
			body, err := d.conn.Call(context.Background(), link.ExecRead.With(&link.ReadParams{ExecID: d.one(), AfterSeq: after, Limit: 1000, Wait: true}, nil, &r))
			if err != nil || len(r.Chunks) == 0 && r.Outcome == nil {
				t.Errorf("an answer that tells nothing: %q, %+v, %v", body, r, err)
				close(read)
				return
			}
			for _, c := range r.Chunks {
				after = c.Seq
			}
		}
		read <- r.Outcome.ExitCode
	}()
	followed := make(chan int)
	go func() {
		at := d.info(d.one()).StdoutBytes
		for {
			res, body := d.follow(link.FollowParams{Offset: at, Limit: 1000, Wait: true, Resizes: -1})
			if at += int64(len(body)); res.Outcome != nil {
				followed <- res.Outcome.ExitCode
				return
			}
			if body == "" {
				t.Error("an answer that tells nothing")
			}
		}
	}()
	d.keys("", "enter")
	if a, b := <-read, <-followed; a != 8 || b != 8 {
		t.Errorf("ended with %d and %d", a, b)
	}
}
