package chat

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// TestFaultError: the hint fits the reason; a fault that ends by itself needs no hint.
func TestFaultError(t *testing.T) {
	ch := &conversation{info: api.DialogueInfo{DialogueID: "d-1"}}
	for reason, want := range map[string]string{
		"unreachable":   "`trl dialogue retry d-1` tries again",
		"refused":       "`trl dialogue retry d-1` tries again",
		"auth_rejected": "renew the credentials, then `trl dialogue retry d-1`",
		"session_gone":  "`trl chat --resume d-1` starts the agent again",
		"disk":          "",
	} {
		fault := api.DialogueFault{Code: "reconnect_failed", Reason: reason, Message: "why"}
		if reason == "disk" {
			fault.Code = recordFailed
		}
		err := ch.faultError(fault)
		if got := ui.HintFor(err); got != want || !strings.Contains(err.Error(), "why") || ui.StatusOf(err) != ui.ExitBroken {
			t.Errorf("%s: %s, status %d, hint %q, want %q", reason, err, ui.StatusOf(err), got, want)
		}
	}
}

// TestReportFault: a full disk neither ends the agent nor the wait for it, and is reported once.
// An agent that cannot be reached keeps running, for a later retry.
func TestReportFault(t *testing.T) {
	shows := shown(t, false, false, func(p *ui.Printer) {
		r := (&conversation{streams: ui.Streams{Stdout: p, Stderr: p}, ours: true}).newReply()
		full, lost := &api.DialogueFault{Code: recordFailed, Message: "no space"}, &api.DialogueFault{Code: "reconnect_failed", Reason: "refused"}
		idle := api.DialogueEvent{Type: api.DialogueEventState, State: api.DialogueIdle}
		if r.recovers(idle) || r.reportFault(nil) != nil || r.reportFault(full) != nil || r.reportFault(full) != nil || !r.ours || !r.recovers(api.DialogueEvent{Type: api.DialogueEventDelta}) || r.recovers(idle) {
			t.Error("a full disk is taken for something else")
		}
		if r.reportFault(lost) == nil || r.ours || r.recovers(api.DialogueEvent{Type: api.DialogueEventDelta}) || !r.recovers(idle) {
			t.Error("an agent out of reach is taken for something else")
		}
	})
	if strings.Count(shows, "no space") != 1 {
		t.Errorf("tells %s", shows)
	}
}

// TestTalkReplies: a line that comes while an answer is on its way is a message if the daemon
// takes the answer, and is dropped if it refuses the answer: the line may have been meant as
// either. A line that the person began before a question came is no answer to it.
func TestTalkReplies(t *testing.T) {
	var talking *talk
	now := time.Now()
	at := func(later time.Duration, text string) { talking.handleLine(typedLine{text: text, at: now.Add(later)}) }
	begin := func(p *ui.Printer) {
		talking = &talk{conversation: &conversation{streams: ui.Streams{Stdout: p}}, view: newView(p), askTimer: time.NewTimer(time.Hour), calls: make(chan call, 8)}
		talking.progress.requests = []api.DialogueRequest{{RequestID: "r", Kind: "permission", Tool: "Bash"}}
		talking.askNext()
	}
	for _, c := range []struct {
		name   string
		err    error
		closed bool // another client answers meanwhile
		calls  int
		asks   bool
		shows  string
	}{
		{"taken", nil, false, 2, false, ""},
		{"too late", api.Errorf(api.CodeConflict, "is closed"), false, 2, false, "is closed"},
		{"refused", api.Errorf(api.CodeInvalidParams, "no"), false, 1, true, "came again: meanwhile"},
		{"refused and closed", api.Errorf(api.CodeInvalidParams, "no"), true, 2, false, "no"},
	} {
		shows := shown(t, true, false, func(p *ui.Printer) {
			begin(p)
			at(time.Minute, "y")
			at(time.Minute, "meanwhile")
			if len(talking.calls) != 1 {
				t.Errorf("%s: %d calls", c.name, len(talking.calls))
			}
			if c.closed {
				talking.answered(api.DialogueRequest{RequestID: "r", How: "withdrawn"})
			}
			talking.replied(c.err)
			if len(talking.calls) != c.calls || (talking.asking != nil) != c.asks || talking.answering != nil || talking.held != nil {
				t.Errorf("%s: %d calls, asks %v", c.name, len(talking.calls), talking.asking)
			}
			if c.asks { // another line from before the question
				at(0, "y")
				if len(talking.calls) != c.calls {
					t.Errorf("%s: an old line is an answer", c.name)
				}
			}
		})
		if !strings.Contains(shows, c.shows) {
			t.Errorf("%s: shows %s, want %s", c.name, shows, c.shows)
		}
	}
	shown(t, true, false, func(p *ui.Printer) {
		begin(p)
		talking.asking.shown = now
		at(-time.Second, "y")
		if len(talking.calls) != 1 || talking.asking == nil || talking.awaited == "" {
			t.Error("what was typed before the question is not taken as a message")
		}
	})
}

// TestBeginNotices: a person at a terminal learns that the agent takes a while to start, and what the
// first Ctrl-C does; the output of a program stays as it is. The second Ctrl-C does not wait.
func TestBeginNotices(t *testing.T) {
	const starting, ending = "· the agent is starting\n", "· ending the agent as soon as it has started; Ctrl-C again leaves at once\n"
	for _, tty := range []bool{true, false} {
		for _, c := range []struct {
			name  string
			after time.Duration // how long the agent takes to start
			keys  int           // how often Ctrl-C is pressed before it has started
			shows string
		}{
			{"soon", ui.NoticeTime - time.Millisecond, 0, ""},
			{"late", ui.NoticeTime + time.Millisecond, 0, starting},
			{"very late", 10 * ui.NoticeTime, 0, starting},
			{"late, interrupted", ui.NoticeTime + time.Millisecond, 1, starting + ending},
			{"soon, interrupted", ui.NoticeTime - time.Millisecond, 1, ending},
			{"interrupted twice", ui.NoticeTime + time.Millisecond, 2, starting + ending},
		} {
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			synctest.Test(t, func(t *testing.T) {
				ch := &conversation{streams: ui.Streams{Stderr: &ui.Printer{File: out, TTY: tty}}}
				started, signals := make(chan struct{}), make(chan os.Signal)
				ch.Open = func(context.Context) (api.DialogueInfo, error) {
					<-started
					return api.DialogueInfo{DialogueID: "d-1"}, nil
				}
				type outcome struct {
					interrupted bool
					err         error
				}
				left := make(chan outcome, 1)
				go func() {
					interrupted, err := ch.beginOrInterrupt(t.Context(), signals)
					left <- outcome{interrupted, err}
				}()
				time.Sleep(c.after)
				for range c.keys {
					signals <- unix.SIGINT
					synctest.Wait()
				}
				if at := len(left); at != c.keys/2 {
					t.Errorf("%s: returned: %d", c.name, at)
				}
				close(started)
				got := <-left
				if got.interrupted != (c.keys > 0) || (c.keys < 2) != (got.err == nil) || c.keys == 2 && ui.StatusOf(got.err) != 130 {
					t.Errorf("%s: %+v", c.name, got)
				}
			})
			want := c.shows
			if !tty {
				want = ""
			}
			if got, err := os.ReadFile(out.Name()); string(got) != want || err != nil {
				t.Errorf("%s, terminal %v: prints %q, want %q, %v", c.name, tty, got, want, err)
			}
		}
	}
}
