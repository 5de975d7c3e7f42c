package session_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

// shelf is where an archive is.
type shelf struct{ dir, keys string }

// machineStart is before the time in which a bubble begins.
var machineStart = time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)

func newShelf(t *testing.T) shelf {
	keys, err := os.MkdirTemp("/dev/shm", "trl-test-")
	if err != nil {
		t.Skip(err) // nothing is in memory here
	}
	t.Cleanup(func() { os.RemoveAll(keys) })
	return shelf{filepath.Join(t.TempDir(), "past"), filepath.Join(keys, "past")}
}

func (s shelf) open(t *testing.T) *archive.Archive {
	t.Helper()
	a, err := archive.Open(archive.Config{Dir: s.dir, KeyDir: s.keys, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Clock: func() time.Duration { return time.Since(machineStart) }})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// files is how many there are, of both kinds.
func (s shelf) files() int {
	a, _ := os.ReadDir(s.dir)
	b, _ := os.ReadDir(s.keys)
	return len(a) + len(b)
}

// speak is a command that writes on both streams.
func speak(_ context.Context, x *sessiontest.Exec) int {
	x.Stdout("out ")
	x.Stderr("err")
	x.Stdout(x.Params.Command)
	return 3
}

// readAll reads a command to its end.
func readAll(t *testing.T, s *session.Session, id string) (string, error) {
	t.Helper()
	r, text, err := s.Read(t.Context(), link.ReadParams{ExecID: id, Limit: 1 << 20, Wait: true})
	if err == nil && (r.Outcome == nil || r.Outcome.ExitCode != 3) {
		t.Errorf("outcome of %s: %+v", id, r.Outcome)
	}
	return string(text), err
}

func TestPastIsReadableUntilTheRetentionIsOver(t *testing.T) {
	place := newShelf(t)
	in(t, session.Config{Retention: time.Hour, Archive: place.open(t)}, &sessiontest.Runtime{Command: speak}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		r, err := w.get(id).Run(t.Context(), api.ExecParams{Command: "words"})
		if err != nil {
			t.Fatal(err)
		}
		w.destroy(id)
		time.Sleep(time.Hour - time.Second)
		s := w.get(id)
		if text, err := readAll(t, s, r.ExecID); text != "out errwords" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		o, err := s.OutputBytes(t.Context(), api.ExecOutputParams{ExecID: r.ExecID, Offset: 4}, true)
		if string(o.Bytes) != "words" || err != nil || !o.Complete || o.TotalBytes != 9 {
			t.Errorf("%+v, %v", o, err)
		}
		info, err := s.ExecInfo(t.Context(), r.ExecID)
		if err != nil || info.AgeMS < time.Hour.Milliseconds()-2000 || *info.QuietMS < time.Hour.Milliseconds()-2000 {
			t.Errorf("%+v, %v", info, err)
		}
		if p, err := s.AwaitInput(t.Context(), r.ExecID); p != nil || err != nil {
			t.Errorf("a process that waits for input: %v, %v", p, err)
		}
		if _, err := s.Input(t.Context(), link.InputParams{ExecID: r.ExecID}, nil); !errors.Is(err, api.ErrSessionTerminated) {
			t.Errorf("input: %v", err)
		}
		if _, err := s.Run(t.Context(), api.ExecParams{Command: "x"}); !errors.Is(err, api.ErrSessionTerminated) {
			t.Errorf("run: %v", err)
		}
		if _, err := readAll(t, s, "x-none"); !errors.Is(err, api.ErrExecNotFound) {
			t.Errorf("another command: %v", err)
		}
		if place.files() != 2 {
			t.Errorf("%d files", place.files())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, err := w.Get(id); !errors.Is(err, api.ErrSessionNotFound) {
			t.Errorf("after the retention: %v", err)
		}
		if _, err := readAll(t, s, r.ExecID); !errors.Is(err, api.ErrSessionTerminated) {
			t.Errorf("after the retention: %v", err)
		}
		if place.files() != 0 {
			t.Errorf("%d files after the retention", place.files())
		}
	})
}

func TestPastOfAnEarlierDaemon(t *testing.T) {
	place := newShelf(t)
	synctest.Test(t, func(t *testing.T) {
		rt := &sessiontest.Runtime{Command: speak}
		w := world{newRegistry(session.Config{Retention: time.Hour, Archive: place.open(t)}, rt), rt, t}
		id := w.create(api.SessionCreateParams{Name: "build"}).SessionID
		r, err := w.get(id).Run(t.Context(), api.ExecParams{Command: "words"})
		if err != nil {
			t.Fatal(err)
		}
		w.destroy(id)
		ended := *w.get(id).Info().TerminatedAt
		w.Leave()

		time.Sleep(50 * time.Minute)
		w = world{newRegistry(session.Config{Retention: time.Hour, Archive: place.open(t)}, rt), rt, t}
		if err := w.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if list := w.Past(); len(list) != 1 || list[0].ID() != id || len(w.List()) != 0 {
			t.Fatalf("%d sessions", len(list))
		}
		s := w.get(id)
		d, err := s.Details(t.Context())
		if err != nil || d.Name != "build" || d.State != api.SessionTerminated || d.Cause != "destroyed" || d.RunnerPID != 0 || d.TerminatedAt.Sub(ended).Abs() > time.Second {
			t.Errorf("%+v, %v", d, err)
		}
		if text, err := readAll(t, s, r.ExecID); text != "out errwords" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if list, err := s.ExecList(t.Context()); err != nil || len(list) != 1 || list[0].Outcome.ExitCode != 3 {
			t.Errorf("%+v, %v", list, err)
		}
		w.destroy(id) // is nothing new
		w.create(api.SessionCreateParams{Name: "build"})
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if len(w.Past()) != 0 || place.files() != 0 {
			t.Errorf("%d sessions and %d files after the retention", len(w.Past()), place.files())
		}
		w.Close(nil)
		if place.files() != 0 {
			t.Errorf("%d files after Close", place.files())
		}
	})
}

func TestWhatIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		retention time.Duration
		params    api.SessionCreateParams
	}{
		"no retention": {-1, api.SessionCreateParams{}},
		"ephemeral":    {time.Hour, api.SessionCreateParams{Ephemeral: true}},
	} {
		t.Run(name, func(t *testing.T) {
			place := newShelf(t)
			rt := &sessiontest.Runtime{Command: speak}
			in(t, session.Config{Retention: c.retention, Archive: place.open(t)}, rt, func(t *testing.T, w world) {
				info, err := w.Create(api.WithConn(t.Context(), t.Context()), c.params)
				if err != nil {
					t.Fatal(err)
				}
				id := info.SessionID
				s := w.get(id)
				r, err := s.Run(t.Context(), api.ExecParams{Command: "words"})
				if err != nil {
					t.Fatal(err)
				}
				w.destroy(id)
				if place.files() != 0 {
					t.Errorf("%d files", place.files())
				}
				if _, err := readAll(t, s, r.ExecID); !errors.Is(err, api.ErrSessionTerminated) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

func TestASessionThatEndsByItselfIsKept(t *testing.T) {
	place := newShelf(t)
	rt := &sessiontest.Runtime{Command: speak}
	in(t, session.Config{Retention: time.Hour, Archive: place.open(t)}, rt, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		s := w.get(id)
		r, err := s.Run(t.Context(), api.ExecParams{Command: "words"})
		if err != nil {
			t.Fatal(err)
		}
		rt.Runner(id).Say(func(info *api.SessionInfo) { info.State, info.Cause = api.SessionTerminated, "the shell is gone" })
		<-s.Done()
		if info := s.Info(); info.Cause != "the shell is gone" {
			t.Errorf("%+v", info)
		}
		if text, err := readAll(t, s, r.ExecID); text != "out errwords" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	})
}

// TestEndWhileTheLinkIsBroken: the runner's report of the end is lost with the connection. The next
// connection finds that the session has ended.
func TestEndWhileTheLinkIsBroken(t *testing.T) {
	place := newShelf(t)
	rt := &sessiontest.Runtime{Command: speak}
	in(t, session.Config{Retention: time.Hour, Archive: place.open(t)}, rt, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		s, runner := w.get(id), rt.Runner(id)
		r, err := s.Run(t.Context(), api.ExecParams{Command: "words"})
		if err != nil {
			t.Fatal(err)
		}
		runner.Deny(true)
		runner.Break()
		synctest.Wait()
		runner.Say(func(info *api.SessionInfo) { info.State, info.Cause = api.SessionTerminated, "the shell is gone" })
		runner.Deny(false)
		time.Sleep(time.Minute)
		if info := s.Info(); info.State != api.SessionTerminated || info.Cause != "the shell is gone" {
			t.Fatalf("%+v", info)
		}
		if text, err := readAll(t, s, r.ExecID); text != "out errwords" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	})
}

// TestOutputIsLeftToTheNextDaemon: the daemon leaves while it fetches the output of a session that
// ended by itself. The runner lives, and the next daemon fetches the output.
func TestOutputIsLeftToTheNextDaemon(t *testing.T) {
	place := newShelf(t)
	synctest.Test(t, func(t *testing.T) {
		rt := &sessiontest.Runtime{Command: speak, OnStart: func(r *sessiontest.Runner) error { r.Stubborn = true; return nil }}
		w := world{newRegistry(session.Config{Retention: time.Hour, Archive: place.open(t)}, rt), rt, t}
		id := w.create(api.SessionCreateParams{}).SessionID
		r, err := w.get(id).Run(t.Context(), api.ExecParams{Command: "words"})
		if err != nil {
			t.Fatal(err)
		}
		rt.Runner(id).Say(func(info *api.SessionInfo) { info.State, info.Cause = api.SessionTerminated, "the shell is gone" })
		synctest.Wait()
		w.Leave()
		if rt.Runner(id) == nil {
			t.Fatal("the runner is gone")
		}
		rt.Runner(id).Stubborn = false

		w = world{newRegistry(session.Config{Retention: time.Hour, Archive: place.open(t)}, rt), rt, t}
		if err := w.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s := w.get(id)
		<-s.Done()
		if text, err := readAll(t, s, r.ExecID); text != "out errwords" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if info := s.Info(); info.Cause != "the shell is gone" {
			t.Errorf("%+v", info)
		}
		w.Close(nil)
	})
}

// TestOutputOfARunnerThatExits: an earlier daemon archived the output and was killed before the runner
// had exited, so the next daemon takes the session for a live one.
func TestOutputOfARunnerThatExits(t *testing.T) {
	place := newShelf(t)
	synctest.Test(t, func(t *testing.T) {
		rt := &sessiontest.Runtime{Command: speak}
		w := world{newRegistry(session.Config{Retention: time.Hour, Archive: place.open(t)}, rt), rt, t}
		id := w.create(api.SessionCreateParams{Name: "build"}).SessionID
		r, err := w.get(id).Run(t.Context(), api.ExecParams{Command: "words"})
		if err != nil {
			t.Fatal(err)
		}
		runner := rt.Runner(id)
		runner.LoseRequest(link.Export.Name) // by which the daemon confirms that it has the output
		runner.Deny(true)
		runner.Say(func(info *api.SessionInfo) { // it was renamed, but the record of it was not
			info.Name, info.State, info.Cause = "test", api.SessionTerminated, "the shell is gone"
		})
		synctest.Wait()
		w.Leave()
		if rt.Runner(id) == nil || place.files() != 2 {
			t.Fatalf("runner %v, %d files", rt.Runner(id), place.files())
		}

		w = world{newRegistry(session.Config{Retention: time.Hour, Archive: place.open(t)}, rt), rt, t}
		if err := w.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s := w.get(id)
		runner.Crash("")
		<-s.Done()
		if text, err := readAll(t, s, r.ExecID); text != "out errwords" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if info := s.Info(); info.Cause != "the shell is gone" || info.Name != "test" {
			t.Errorf("%+v", info)
		}
		if list, err := s.ExecList(t.Context()); err != nil || len(list) != 1 || list[0].Outcome.ExitCode != 3 {
			t.Errorf("%+v, %v", list, err)
		}
		for _, name := range []string{"build", "test"} {
			w.create(api.SessionCreateParams{Name: name})
		}
		w.Close(nil)
		if place.files() != 0 {
			t.Errorf("%d files after Close", place.files())
		}
	})
}

// TestOutputOfARunnerThatExitsIsNotKept: as before, but the next daemon keeps no output.
func TestOutputOfARunnerThatExitsIsNotKept(t *testing.T) {
	place := newShelf(t)
	synctest.Test(t, func(t *testing.T) {
		rt := &sessiontest.Runtime{Command: speak}
		w := world{newRegistry(session.Config{Retention: time.Hour, Archive: place.open(t)}, rt), rt, t}
		id := w.create(api.SessionCreateParams{}).SessionID
		runner := rt.Runner(id)
		runner.LoseRequest(link.Export.Name)
		runner.Deny(true)
		runner.Say(func(info *api.SessionInfo) { info.State, info.Cause = api.SessionTerminated, "the shell is gone" })
		synctest.Wait()
		w.Leave()
		if place.files() != 2 {
			t.Fatalf("%d files", place.files())
		}

		w = world{newRegistry(session.Config{Retention: -1, Archive: place.open(t)}, rt), rt, t}
		if err := w.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s := w.get(id)
		runner.Crash("")
		<-s.Done()
		if place.files() != 0 {
			t.Errorf("%d files", place.files())
		}
		w.Close(nil)
	})
}

func TestTotalOutputIsBounded(t *testing.T) {
	place := newShelf(t)
	rt := &sessiontest.Runtime{Command: speak}
	kept := place.open(t)
	in(t, session.Config{Retention: time.Hour, Archive: kept, TotalOutput: 1000_000}, rt, func(t *testing.T, w world) {
		ended := w.create(api.SessionCreateParams{}).SessionID
		if _, err := w.get(ended).Run(t.Context(), api.ExecParams{Command: "words"}); err != nil {
			t.Fatal(err)
		}
		w.destroy(ended)
		var ids []string
		for range 3 {
			ids = append(ids, w.create(api.SessionCreateParams{}).SessionID)
		}
		say := func(i int, n int64) {
			rt.Runner(ids[i]).Say(func(info *api.SessionInfo) { info.OutputBytes = n })
			synctest.Wait()
		}
		say(0, 200_000)
		say(1, 700_000)
		if kept.Size() == 0 || len(rt.Runner(ids[1]).Trims()) != 0 {
			t.Fatal("output was dropped too early")
		}
		say(2, 600_000) // 1.5 million
		if kept.Size() != 0 || len(w.Past()) != 1 {
			t.Errorf("%d bytes of ended sessions are kept, of %d", kept.Size(), len(w.Past()))
		}
		total := int64(0)
		for _, id := range ids {
			total += w.get(id).Info().OutputBytes
		}
		if total > 900_000 || total < 800_000 {
			t.Errorf("%d bytes are kept", total)
		}
		if a, b, c := rt.Runner(ids[0]).Trims(), rt.Runner(ids[1]).Trims(), rt.Runner(ids[2]).Trims(); len(a) != 0 || len(b) != 1 || len(c) != 1 {
			t.Errorf("trimmed: %v %v %v", a, b, c)
		}
		// What a session kept is free when it ends.
		w.destroy(ids[1])
		say(0, 500_000)
		if len(rt.Runner(ids[0]).Trims()) != 0 {
			t.Error("the ended session still counts")
		}
	})
}

func (w world) destroy(id string) {
	w.t.Helper()
	if _, err := w.Destroy(context.Background(), id, false); err != nil {
		w.t.Fatal(err)
	}
}

// TestTotalOutputAfterALostLink: a session writes too much while its runner cannot be reached. The
// next connection enforces the limit.
func TestTotalOutputAfterALostLink(t *testing.T) {
	in(t, session.Config{TotalOutput: 1000_000}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		runner := w.rt.Runner(id)
		runner.Deny(true)
		runner.Break()
		synctest.Wait()
		runner.Say(func(info *api.SessionInfo) { info.OutputBytes = 3000_000 })
		runner.Deny(false)
		time.Sleep(time.Minute)
		if got := w.get(id).Info().OutputBytes; got > 1000_000 {
			t.Errorf("%d bytes are kept", got)
		}
	})
}
