package dialogue_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestDaemonDiesAnywhere: at any moment, and however often a daemon is killed, the next one continues
// the record as if nothing had happened.
func TestDaemonDiesAnywhere(t *testing.T) {
	t.Parallel()
	w := start(t)
	script := "say begin"
	for i := range 12 {
		script += fmt.Sprintf("; silence 15ms; say part %d; tool Bash ls; ask Bash rm %d; lines 5; think so", i, i)
	}
	script += "; subagent; background-task; say end"
	random := testkit.Random(t)
	run := func(kills int) tale {
		p := fake("-seed", "anywhere")
		p.Policy = allowAll
		d := w.create(p)
		testkit.Must(w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Text: script, MessageID: messageID}))(w)
		for range kills {
			time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond) // a moment, not a wait
			w.restart(nil)
		}
		f := w.follow(d.DialogueID, 0)
		f.until(api.DialogueEventTurnEnded, func(ev *api.DialogueEvent) bool { return ev.Turn.TurnID == "t1.2" })
		f.state(api.DialogueIdle)
		got := w.tale(d.DialogueID)
		w.terminate(d.DialogueID)
		return got
	}
	want := run(0)
	for range 4 {
		run(5).equals(t, "killed 5 times", want)
	}
}

// TestDaemonEnds in a regular way: with it end the agents, unless it is to keep them or
// another program takes its place.
func TestDaemonEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []trltest.Option
		end  func(w *world)
		goes bool // the agent goes on
	}{
		{"ends", nil, func(w *world) { w.daemon.Restart(w.T) }, false},
		{"keeps", []trltest.Option{trltest.Args("--keep-sessions"), trltest.KeepsProcesses()}, func(w *world) {
			w.daemon.Signal(w.T, syscall.SIGTERM)
			<-w.daemon.Exited()
			w.daemon.Restart(w.T)
		}, true},
		{"is replaced", []trltest.Option{trltest.Args("--log-level", "info")}, func(w *world) {
			w.daemon.Signal(w.T, syscall.SIGUSR2)
			testkit.Eventually(w.T, "the next one has begun", func() bool { return strings.Count(w.daemon.Stderr(), `"msg":"daemon started"`) == 2 })
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, c.opts...)
			g := newGates(t)
			d := w.create(fake("-gates", g.dir))
			r := w.send(d.DialogueID, "say hello; split line across; gate a; ask Bash rm; say end")
			g.reached("line")
			f := w.follow(d.DialogueID, r.Seq)
			c.end(w)
			w.Client = w.daemon.Client(t)
			if !c.goes {
				f.drain() // the client came back for it
				w.ended(d, "closed")
				info := testkit.Must(w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID}))(w)
				if info.Epoch != 2 {
					t.Errorf("%+v", info)
				}
				return
			}
			g.open("line")
			g.reached("a")
			g.open("a")
			request := f.until(api.DialogueEventRequestOpened).Request
			if err := w.respond(d.DialogueID, request.RequestID, "allow"); err != nil {
				t.Error(err)
			}
			if end := f.until(api.DialogueEventTurnEnded).Turn; end.Text != "end" || end.Outcome != "completed" {
				t.Errorf("%+v", end)
			}
			w.terminate(d.DialogueID)
			f.drain()
			w.ended(d, "closed")
		})
	}
}

// TestRecordIsPrivate: what is kept can be read by its owner alone, and has nothing of the
// environment in it.
func TestRecordIsPrivate(t *testing.T) {
	w := start(t)
	p := fake()
	p.Env = map[string]string{"API_KEY": "sk-very-secret"}
	d := w.create(p)
	w.says(d.DialogueID, "say hello")
	w.terminate(d.DialogueID)
	testkit.Must(w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID, Env: map[string]string{"API_KEY": "sk-also-secret"}}))(w)
	w.says(d.DialogueID, "say hello again")
	files := 0
	err := filepath.WalkDir(filepath.Join(w.daemon.StateDir, "dialogues"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %s", path, info.Mode())
		}
		if !e.IsDir() {
			files++
			text, _ := os.ReadFile(path)
			if strings.Contains(string(text), "-secret") {
				t.Errorf("%s has a secret", path)
			}
		}
		return nil
	})
	if err != nil || files < 4 {
		t.Errorf("%d files, %v", files, err)
	}
	if strings.Contains(w.daemon.Stderr(), "-secret") {
		t.Error("the log has a secret")
	}
}

// TestRecordsAreBounded: those of dialogues that have ended go, the oldest first; never
// that of one that lives.
func TestRecordsAreBounded(t *testing.T) {
	w := start(t, trltest.Args("--dialogues-total-bytes", "1MB"))
	var ids []string
	lives := w.create(fake())
	w.says(lives.DialogueID, "line 600KiB")
	for range 4 {
		d := w.create(fake())
		w.says(d.DialogueID, "line 100KiB")
		w.terminate(d.DialogueID)
		ids = append(ids, d.DialogueID)
	}
	testkit.Eventually(t, "the old ones are gone", func() bool {
		return len(testkit.Must(w.DialogueList(w.ctx, api.DialogueListParams{}))(w).Dialogues) <= 2
	})
	_, err := w.DialogueTranscript(w.ctx, api.DialogueTranscriptParams{DialogueID: ids[0]})
	testkit.WantError(t, err, api.CodeDialogueNotFound, ids[0])
	if end := w.says(lives.DialogueID, "say still here").Turn; end.Text != "still here" {
		t.Errorf("%+v", end)
	}
	left, _ := filepath.Glob(filepath.Join(w.daemon.StateDir, "dialogues", "d-*"))
	if len(left) > 2 {
		t.Errorf("%q", left)
	}
}

// TestRecordIsDamaged: a daemon starts with any files, and offers the records that it can read.
func TestRecordIsDamaged(t *testing.T) {
	w := start(t)
	var list []api.DialogueInfo
	for i := range 5 {
		p := fake()
		p.Name = fmt.Sprintf("n%d", i)
		d := w.create(p)
		w.says(d.DialogueID, "lines 20; say last")
		if i != 3 {
			w.terminate(d.DialogueID)
		}
		list = append(list, w.info(d.DialogueID))
	}
	dir := func(i int) string { return filepath.Join(w.daemon.StateDir, "dialogues", list[i].DialogueID) }
	w.restart(func() {
		cut := func(path string, n int64) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, max(0, info.Size()-n)); err != nil {
				t.Fatal(err)
			}
		}
		cut(filepath.Join(dir(0), "events.jsonl"), 10)                       // the last line is cut
		cut(filepath.Join(dir(3), "events.jsonl"), 10)                       // of one that lives
		_ = os.WriteFile(filepath.Join(dir(1), "dialogue.json"), nil, 0o600) // nothing is known of it
		_ = os.RemoveAll(dir(2))
		_ = os.MkdirAll(filepath.Join(w.daemon.StateDir, "dialogues", "d-0000000000"), 0o700)
	})
	if got := w.transcript("n4"); len(got.Items) != 22 || got.State != api.DialogueEnded {
		t.Errorf("the one that was left alone: %d items, %s", len(got.Items), got.State)
	}
	if got := w.transcript("n0"); len(got.Items) < 21 {
		t.Errorf("the one whose end is cut off: %d items", len(got.Items))
	}
	if end := w.says("n3", "say go on").Turn; end.Text != "go on" {
		t.Errorf("the one that lives: %+v", end)
	}
	if got := w.events("n3"); got[len(got)-1].Seq != int64(len(got)) {
		t.Errorf("%s", brief(got))
	}
	for _, d := range testkit.Must(w.DialogueList(w.ctx, api.DialogueListParams{}))(w).Dialogues {
		if d.DialogueID == "d-0000000000" || d.DialogueID == list[2].DialogueID {
			t.Errorf("%+v", d)
		}
	}
}

// TestFloodWithoutDaemon: the output of an agent without a daemon waits for the next daemon. Output
// beyond the limit is reported as missing, and the dialogue continues.
func TestFloodWithoutDaemon(t *testing.T) {
	for _, c := range []struct {
		name, keep string
		whole      bool
	}{{"kept", "256MiB", true}, {"too much", "1MiB", false}} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, trltest.Use(plain()), trltest.Args("--dialogue-output-bytes", c.keep))
			g := newGates(t)
			tee := filepath.Join(g.dir, "tee")
			d := w.create(fake("-gates", g.dir, "-tee", tee))
			w.send(d.DialogueID, "gate a; flood 30MB 100000; gate b; say behind")
			g.reached("a")
			w.restart(func() {
				g.open("a")
				if c.whole {
					g.reached("b")
				} else { // it is full before
					testkit.Eventually(t, "much is written", func() bool {
						info, err := os.Stat(tee)
						return err == nil && info.Size() > 3<<20
					})
				}
			})
			g.open("b")
			f := w.follow(d.DialogueID, 0)
			if end := f.until(api.DialogueEventTurnEnded).Turn; end.Text != "behind" {
				t.Errorf("%+v", end)
			}
			gaps, lines := 0, 0
			for _, ev := range f.events {
				if ev.Type == api.DialogueEventUnparsed && ev.Unparsed.Why == "gap" {
					gaps++
				}
				if ev.Type == api.DialogueEventItem && ev.Item.Kind == "agent" && len(ev.Item.Parts) > 0 && len(ev.Item.Parts[0].Text) > 100_000 {
					lines++
				}
			}
			if (gaps == 0) != c.whole || (lines == 300) != c.whole {
				t.Errorf("%d gaps, %d lines", gaps, lines)
			}
			w.terminate(d.DialogueID)
			if raw, err := w.trl("dialogue", "raw", d.DialogueID).Output(); c.whole {
				want, _ := os.ReadFile(tee)
				if err != nil || !bytes.Equal(raw, want) {
					t.Errorf("the program wrote %d bytes, kept are %d others: %v", len(want), len(raw), err)
				}
			}
		})
	}
}
