package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/journal"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

// published lists the events after a number in a readable form.
func published(j *journal.Journal, after int64) []string {
	var list []string
	events, _ := j.Read(after, 1<<20)
	for _, ev := range events {
		line := fmt.Sprint(ev.Seq, " ", ev.Type, " ", ev.Name)
		if ev.ExecID != "" {
			line += " " + ev.ExecID[strings.LastIndexByte(ev.ExecID, '-')+1:]
		}
		if ev.ExecOutcome != nil {
			line += fmt.Sprint(" exit ", ev.ExitCode)
		}
		if ev.Cause != "" {
			line += " (" + ev.Cause + ")"
		}
		list = append(list, line)
	}
	return list
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func open(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestEventsOfALife(t *testing.T) {
	rt := &sessiontest.Runtime{Command: func(ctx context.Context, x *sessiontest.Exec) int {
		return untilCancelled(ctx, x) + 7
	}}
	in(t, session.Config{}, rt, func(t *testing.T, w world) {
		s := w.get(w.create(api.SessionCreateParams{Name: "build"}).SessionID)
		if _, err := s.Run(t.Context(), api.ExecParams{Command: "true"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(t, published(w.Journal(), 0),
			"1 session.created build", "2 session.running build", "3 exec.running build 1",
			"4 session.idle build", "5 exec.exited build 1 exit 7", "6 exec.closed build 1")
		if _, err := s.Start(t.Context(), api.ExecParams{Command: "hang"}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Destroy(t.Context(), "build", false); err != nil {
			t.Fatal(err)
		}
		want(t, published(w.Journal(), 6),
			"7 session.running build", "8 exec.running build 2", "9 session.idle build",
			"10 exec.exited build 2 exit 130", "11 exec.closed build 2", "12 session.terminated build (destroyed)")
		s = w.get(w.create(api.SessionCreateParams{Name: "crash"}).SessionID)
		if _, err := s.Start(t.Context(), api.ExecParams{Command: "hang"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.rt.Runner(s.ID()).Crash("killed by SIGKILL")
		<-s.Done()
		want(t, published(w.Journal(), 12),
			"13 session.created crash", "14 session.running crash", "15 exec.running crash 1",
			"16 exec.closed crash 1 (its runner died: killed by SIGKILL)",
			"17 session.terminated crash (its runner died: killed by SIGKILL)")
	})
}

// TestChangedSettingsArePublished: with the new name, and not for a session that has ended.
func TestChangedSettingsArePublished(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		s := w.get(w.create(api.SessionCreateParams{Name: "build"}).SessionID)
		synctest.Wait()
		before := w.Journal().Last()
		name, tags := "other", []string{"ci"}
		if _, err := w.Set(t.Context(), s, api.SessionSetParams{Name: &name}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Set(t.Context(), s, api.SessionSetParams{Tags: &tags}); err != nil {
			t.Fatal(err)
		}
		want(t, published(w.Journal(), before), "2 session.updated other", "3 session.updated other")
		taken := "taken"
		w.create(api.SessionCreateParams{Name: taken})
		synctest.Wait()
		before = w.Journal().Last()
		if _, err := w.Set(t.Context(), s, api.SessionSetParams{Name: &taken}); err == nil {
			t.Fatal("the name was taken")
		}
		want(t, published(w.Journal(), before))
	})
}

// TestDecisionsWhileTheLinkIsBroken: what the network policy of a session decides while its link is broken,
// or while no daemon runs, is published by the next connection, once.
func TestDecisionsWhileTheLinkIsBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	synctest.Test(t, func(t *testing.T) {
		rt := &sessiontest.Runtime{}
		w := world{newRegistry(session.Config{Journal: open(t, path)}, rt), rt, t}
		id := w.create(api.SessionCreateParams{}).SessionID
		runner := rt.Runner(id)
		total := int64(0)
		decide := func(port int, dropped int64) {
			total += dropped + 1
			runner.Decide(link.NetworkEvent{At: time.Now(), Total: total, NetworkDecision: api.NetworkDecision{Host: "a.example", Port: port, Count: 1}})
			synctest.Wait()
		}
		wantPorts := func(want string) {
			t.Helper()
			time.Sleep(time.Minute)
			var got []string
			events, _ := w.Journal().Read(0, 1<<20)
			for _, ev := range events {
				if ev.Network != nil {
					got = append(got, fmt.Sprintf("%d*%d", ev.Network.Port, ev.Network.Count))
				}
			}
			if text := strings.Join(got, " "); text != want {
				t.Errorf("got %s, want %s", text, want)
			}
		}
		decide(1, 0)
		runner.Deny(true)
		runner.Break()
		synctest.Wait()
		decide(2, 0)
		runner.Deny(false)
		wantPorts("1*1 2*1")
		w.Leave()
		decide(3, 5) // the runner has dropped five before it
		w.Registry = newRegistry(session.Config{Journal: open(t, path)}, rt)
		if err := w.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		wantPorts("1*1 2*1 0*5 3*1")
		runner.Break()
		wantPorts("1*1 2*1 0*5 3*1")
		w.Close(nil)
	})
}

// TestSessionThatNeverWasIsNotPublished: a subscriber never sees the end of a session without its
// beginning.
func TestSessionThatNeverWasIsNotPublished(t *testing.T) {
	rt := &sessiontest.Runtime{OnStart: func(r *sessiontest.Runner) error {
		r.CreateError = errors.New("no")
		return nil
	}}
	in(t, session.Config{}, rt, func(t *testing.T, w world) {
		if _, err := w.Create(t.Context(), api.SessionCreateParams{}); err == nil {
			t.Fatal("created")
		}
		want(t, published(w.Journal(), 0))
	})
}

// TestEventsSurviveTheDaemon: the next daemon publishes once what happened while none ran.
func TestEventsSurviveTheDaemon(t *testing.T) {
	finish := make(chan struct{})
	rt := &sessiontest.Runtime{Command: func(ctx context.Context, x *sessiontest.Exec) int {
		if x.Params.Command == "wait" {
			<-finish
		}
		return untilCancelled(ctx, x)
	}}
	path := filepath.Join(t.TempDir(), "events")
	synctest.Test(t, func(t *testing.T) {
		finish = make(chan struct{})
		first := newRegistry(session.Config{Journal: open(t, path)}, rt)
		ids := map[string]string{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			info, err := first.Create(t.Context(), api.SessionCreateParams{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			ids[name] = info.SessionID
		}
		for name, command := range map[string]string{"b": "wait", "c": "hang"} {
			s, _ := first.Get(name)
			if _, err := s.Start(t.Context(), api.ExecParams{Command: command}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		first.Leave()
		before := first.Journal().Last()
		rt.Runner(ids["a"]).Kill()
		rt.Runner(ids["d"]).Refuse = errors.New("too old")
		rt.Runner(ids["e"]).Mute = true
		close(finish) // the command of b ends
		synctest.Wait()

		for range 2 { // the second time there is no news
			next := newRegistry(session.Config{Journal: open(t, path)}, rt)
			if next.Journal().Last() != before {
				t.Errorf("the journal goes on after %d, it ended with %d", next.Journal().Last(), before)
			}
			if err := next.Recover(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			got := published(next.Journal(), 9)
			slices.Sort(got)
			for i, line := range got { // sessions are taken over at the same time
				_, got[i], _ = strings.Cut(line, " ")
			}
			slices.Sort(got)
			want(t, got, "exec.closed b 1", "exec.exited b 1 exit 0", "session.idle b",
				"session.terminated a (its runner died while no daemon was running)",
				"session.unreachable e (its runner has not answered this daemon yet)")
			before = next.Journal().Last()
			next.Leave()
		}
		for _, r := range rt.Runners() {
			r.Kill()
			r.Wait()
		}
	})
}

// TestBrokenLinkLosesNoEvent breaks the connection while a command ends.
func TestBrokenLinkLosesNoEvent(t *testing.T) {
	var runner *sessiontest.Runner
	rt := &sessiontest.Runtime{
		OnStart: func(r *sessiontest.Runner) error { runner = r; return nil },
		Command: func(_ context.Context, x *sessiontest.Exec) int {
			if x.Params.Command == "break" {
				runner.Break()
			}
			return 3
		},
	}
	in(t, session.Config{}, rt, func(t *testing.T, w world) {
		s := w.get(w.create(api.SessionCreateParams{}).SessionID)
		if _, err := s.Start(t.Context(), api.ExecParams{Command: "break"}); err != nil && !errors.Is(err, api.ErrRuntimeUnavailable) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		got := strings.Join(published(w.Journal(), 0), "\n")
		for _, line := range []string{"exec.running  1", "exec.exited  1 exit 3", "exec.closed  1"} {
			if strings.Count(got, line) != 1 {
				t.Errorf("%q is not published once:\n%s", line, got)
			}
		}
	})
}

func TestJournalReads(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		j := w.Journal()
		if events, first := j.Read(0, 10); len(events) != 0 || first != 1 {
			t.Errorf("empty: %d events, first %d", len(events), first)
		}
		gave := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { gave <- j.Wait(ctx, 0) }()
		synctest.Wait()
		cancel()
		if err := <-gave; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		go func() { gave <- j.Wait(t.Context(), 0) }()
		synctest.Wait()
		s := w.get(w.create(api.SessionCreateParams{Name: "build"}).SessionID)
		if err := <-gave; err != nil {
			t.Error(err)
		}
		if id, ok := j.Find("build"); !ok || id != s.ID() {
			t.Errorf("find = %q %v", id, ok)
		}
		if _, ok := j.Find(""); ok {
			t.Error("found nobody")
		}
	})
}

// TestJournalFile: what was read is in the file; the file is private, and free of what a
// command is and does.
func TestJournalFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	rt := &sessiontest.Runtime{Command: func(ctx context.Context, x *sessiontest.Exec) int {
		x.Stdout("SECRET")
		return untilCancelled(ctx, x)
	}}
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(session.Config{Journal: open(t, path)}, rt)
		_, err := r.Create(t.Context(), api.SessionCreateParams{Name: "build", Env: map[string]string{"A": "SECRET"}, WorkingDir: "/SECRET"})
		if err != nil {
			t.Fatal(err)
		}
		size := func() int64 {
			fi, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if fi.Mode().Perm() != 0o600 {
				t.Errorf("it has mode %s", fi.Mode())
			}
			return fi.Size()
		}
		empty := size()
		j := r.Journal()
		if published(j, 0); size() == empty {
			t.Error("read and not written")
		}
		before := size()
		s, _ := r.Get("build")
		run := func() {
			if _, err := s.Run(t.Context(), api.ExecParams{Command: "SECRET", Env: map[string]string{"B": "SECRET"}}); err != nil {
				t.Fatal(err)
			}
		}
		run()
		synctest.Wait()
		if size() != before {
			t.Error("written while nobody reads")
		}
		time.Sleep(2 * time.Second)
		if size() == before {
			t.Error("never written")
		}
		running, err := s.Start(t.Context(), api.ExecParams{Command: "hang"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.Leave()
		last := j.Last()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("SECRET")) {
			t.Error("the file has what it must not have")
		}

		next := newRegistry(session.Config{Journal: open(t, path)}, rt)
		if err := next.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if got := next.Journal().Last(); got != last {
			t.Errorf("%d events after %d were published again: %s", got-last, last, published(next.Journal(), last))
		}
		if events, first := next.Journal().Read(0, 1<<20); first != 1 || events[len(events)-1].ExecID != running.ExecID {
			t.Errorf("%d events, first %d", len(events), first)
		}
		next.Close(nil)
	})
}

// TestTornJournal cuts the file anywhere: it can be read, and goes on with higher numbers.
func TestTornJournal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "events")
	var whole []byte
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(session.Config{Journal: open(t, path)}, &sessiontest.Runtime{})
		for i := range 3 {
			if _, err := r.Create(t.Context(), api.SessionCreateParams{Name: fmt.Sprint("n", i)}); err != nil {
				t.Fatal(err)
			}
		}
		r.Close(nil)
		var err error
		if whole, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	})
	for cut := range whole {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		lines := max(0, bytes.Count(whole[:cut], []byte("\n"))-1)
		synctest.Test(t, func(t *testing.T) {
			j := open(t, path)
			if j.Last() != int64(lines) {
				t.Fatalf("cut at %d: last %d, want %d", cut, j.Last(), lines)
			}
			r := newRegistry(session.Config{Journal: j}, &sessiontest.Runtime{})
			if _, err := r.Create(t.Context(), api.SessionCreateParams{Name: "new"}); err != nil {
				t.Fatal(err)
			}
			r.Leave()
			again := open(t, path)
			defer again.Close()
			if got := published(again, int64(lines)); len(got) != 1 || got[0] != fmt.Sprint(lines+1, " session.created new") {
				t.Fatalf("cut at %d: %v", cut, got)
			}
		})
	}
}
