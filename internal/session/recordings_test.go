package session_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestRecordings: their place, what is read of them, and which go when there are too many.
func TestRecordings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	path := func(id string) string { return filepath.Join(dir, id+".cast") }
	rt := &sessiontest.Runtime{Command: talk, RecordDir: dir}
	in(t, session.Config{RecordingsDir: dir, TotalRecordings: 1000}, rt, func(t *testing.T, w world) {
		record := func(size int) string {
			t.Helper()
			p := terminal("")
			p.Record = true
			id := w.create(p).SessionID
			if to := rt.Runner(id).Created(); to.RecordDir != dir || !to.Params.Record {
				t.Errorf("recorded in %q", to.RecordDir)
			}
			if got := w.get(id).Info().Terminal.Recording.Path; got != path(id) {
				t.Errorf("the recording is said to be %q", got)
			}
			if err := os.WriteFile(path(id), make([]byte, size), 0o600); err != nil {
				t.Fatal(err)
			}
			return id
		}
		plain := w.create(terminal(""))
		_, err := w.get(plain.SessionID).Recording(t.Context(), api.SessionRecordingParams{})
		testkit.WantError(t, err, api.CodeInvalidParams, "is not recorded; create it with record: true")
		a, b, c := record(400), record(400), record(100)
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		now := time.Now()
		for i, id := range []string{a, b, c} {
			if err := os.Chtimes(path(id), now, now.Add(time.Duration(i)*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		w.destroy(b)
		if r, err := w.get(b).Recording(t.Context(), api.SessionRecordingParams{Offset: 100, Limit: num(50)}); err != nil || len(r.Data) != 50 || r.Total != 400 || r.Complete {
			t.Errorf("%d of %d, complete %v, %v", len(r.Data), r.Total, r.Complete, err)
		}
		if r, err := w.get(b).Recording(t.Context(), api.SessionRecordingParams{Offset: 100}); err != nil || len(r.Data) != 300 || !r.Complete {
			t.Errorf("%d of %d, complete %v, %v", len(r.Data), r.Total, r.Complete, err)
		}
		_, err = w.get(b).Recording(t.Context(), api.SessionRecordingParams{Offset: 401})
		testkit.WantError(t, err, api.CodeInvalidParams, "params.offset: 401 is beyond the end, which is 400")
		d := record(300) // 1200; the oldest lives
		w.destroy(d)
		synctest.Wait()
		for id, want := range map[string]bool{a: true, b: false, c: true, d: true} {
			if _, err := os.Stat(path(id)); (err == nil) != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("recording of %s: %v", id, err)
			}
		}
		_, err = w.get(b).Recording(t.Context(), api.SessionRecordingParams{})
		testkit.WantError(t, err, api.CodeConflict, "its recording was removed")
	})
	if left, _ := os.ReadDir(dir); len(left) != 3 {
		t.Errorf("%d recordings after the end", len(left))
	}
}

// TestRecordingOfNothing: when the session cannot be made, its recording goes too.
func TestRecordingOfNothing(t *testing.T) {
	dir := t.TempDir()
	rt := &sessiontest.Runtime{RecordDir: dir, OnStart: func(r *sessiontest.Runner) error {
		r.CreateError = api.Errorf(api.CodeShellNotFound, `program "foo": not found`)
		return os.WriteFile(filepath.Join(dir, r.About().SessionID+".cast"), nil, 0o600)
	}}
	in(t, session.Config{RecordingsDir: dir}, rt, func(t *testing.T, w world) {
		p := terminal("a")
		p.Record = true
		_, err := w.Create(t.Context(), p)
		testkit.WantError(t, err, api.CodeShellNotFound, `session "a": program "foo": not found`)
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("%d recordings", len(left))
		}
	})
}

// far is a place that shares no directory with the daemon, and what its terminal records.
type far struct {
	world
	dir  string
	id   string
	want []byte
}

// inFar runs f with the recorded terminal of a place that shares no directory with the daemon.
func inFar(t *testing.T, c session.Config, p api.SessionCreateParams, f func(*far)) {
	t.Helper()
	c.RecordingsDir = t.TempDir()
	in(t, c, &sessiontest.Runtime{Command: talk}, func(t *testing.T, w world) {
		p.Record = true
		info, err := w.Create(api.WithConn(t.Context(), t.Context()), p)
		if err != nil {
			t.Fatal(err)
		}
		x := &far{world: w, dir: c.RecordingsDir, id: info.SessionID}
		if to := w.rt.Runner(x.id).Created(); to.RecordDir != "" {
			t.Errorf("the runner got the daemon's directory %q", to.RecordDir)
		}
		f(x)
	})
}

// record records some random bytes.
func (x *far) record(size int) {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(len(x.want))}).Read(data)
	for i, b := range data {
		data[i] = 'a' + b%26
	}
	x.want = append(x.want, data...)
	x.rt.Runner(x.id).Record(data)
}

// kept is the daemon's file.
func (x *far) kept() []byte {
	x.t.Helper()
	text, err := os.ReadFile(filepath.Join(x.dir, x.id+".cast"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.t.Fatal(err)
	}
	return text
}

// read reads the recording as session.recording does.
func (x *far) read(offset, limit int64) (api.SessionRecordingResult, error) {
	return x.get(x.id).Recording(x.t.Context(), api.SessionRecordingParams{Offset: offset, Limit: &limit})
}

// isKept checks that the daemon's file has the whole recording, and can be read.
func (x *far) isKept() {
	x.t.Helper()
	if !bytes.Equal(x.kept(), x.want) {
		x.t.Errorf("%d bytes are kept, want all %d", len(x.kept()), len(x.want))
	}
	r, err := x.read(0, 1<<30)
	if r.Data != string(x.want) || r.Total != int64(len(x.want)) || !r.Complete || err != nil {
		x.t.Errorf("%d of %d bytes, complete %v, %v", len(r.Data), r.Total, r.Complete, err)
	}
	if info := x.get(x.id).Info(); info.State != api.SessionTerminated || info.Terminal.Recording.Stopped != "" {
		x.t.Errorf("state %s, recording stopped because of %q", info.State, info.Terminal.Recording.Stopped)
	}
}

// TestFarRecording: it is read by offset while the session lives, and whole after its end, however
// that came.
func TestFarRecording(t *testing.T) {
	inFar(t, session.Config{}, terminal(""), func(x *far) {
		x.record(200 << 10)
		// A piece that does not continue the file is read without what is before it.
		for _, c := range []struct{ offset, limit, file int64 }{
			{1000, 4, 0}, {0, 100, 100}, {50, 100, 150}, {150, 850, 1000}, {1000, 4, 1004}, {0, 10, 1004}, {1005, 10, 1004}, {200<<10 - 1, 10, 1004}, {200 << 10, 4, 1004},
		} {
			r, err := x.read(c.offset, c.limit)
			end := min(c.offset+c.limit, r.Total)
			if err != nil || r.Total != 200<<10 || r.Data != string(x.want[c.offset:end]) || len(x.kept()) != int(c.file) {
				x.t.Errorf("%+v: %d of %d bytes, %d in the file, %v", c, len(r.Data), r.Total, len(x.kept()), err)
			}
		}
		_, err := x.read(300<<10, 10)
		testkit.WantError(x.t, err, api.CodeInvalidParams, "params.offset: 307200 is beyond the end, which is 204800")
		if stat, err := os.Stat(filepath.Join(x.dir, x.id+".cast")); err != nil || stat.Mode().Perm() != 0o600 {
			x.t.Errorf("%v, %v", stat.Mode(), err)
		}
		x.record(5 << 20)
		if r, err := x.read(1<<20, 3<<20); err != nil || r.Data != string(x.want[1<<20:4<<20]) {
			x.t.Errorf("%d bytes of several pieces, %v", len(r.Data), err)
		}
		x.destroy(x.id)
		x.isKept()
	})
	ephemeral := terminal("")
	ephemeral.Ephemeral = true
	for _, p := range []api.SessionCreateParams{terminal(""), ephemeral} {
		inFar(t, session.Config{Archive: newShelf(t).open(t)}, p, func(x *far) { // its program ends
			x.record(3 << 20)
			x.typed(x.id, "exit")
			<-x.get(x.id).Done()
			x.isKept()
		})
	}
}

// TestFarRecordingAndABrokenLink: nothing is lost or doubled when the link breaks while the daemon
// fetches the recording, of a live session or of one that has just ended.
func TestFarRecordingAndABrokenLink(t *testing.T) {
	for _, lose := range []func(*sessiontest.Runner, string){(*sessiontest.Runner).LoseAnswer, (*sessiontest.Runner).LoseRequest} {
		inFar(t, session.Config{Archive: newShelf(t).open(t)}, terminal(""), func(x *far) {
			x.record(10 << 10)
			lose(x.rt.Runner(x.id), link.Recording.Name)
			if r, err := x.read(5, 1<<20); err != nil || r.Data != string(x.want[5:]) {
				x.t.Errorf("%d bytes, %v", len(r.Data), err)
			}
			x.record(20 << 10)
			lose(x.rt.Runner(x.id), link.Recording.Name)
			s := x.get(x.id)
			// The link may break before the answer to the input has arrived: no check of the error.
			_, _ = s.Type(x.t.Context(), link.SessionInputParams{}, []byte("exit"))
			<-s.Done()
			x.isKept()
		})
	}
}

// TestFarRecordingIsMirrored: when a recording grows, the daemon fetches it. If the runner dies,
// little is lost, and the session reports it.
func TestFarRecordingIsMirrored(t *testing.T) {
	inFar(t, session.Config{}, terminal(""), func(x *far) {
		x.record(1000)
		synctest.Wait()
		if len(x.kept()) != 0 {
			x.t.Errorf("the daemon fetched %d bytes without a request", len(x.kept()))
		}
		for range 8 {
			x.record(300 << 10)
			synctest.Wait()
			if !bytes.Equal(x.kept(), x.want) {
				x.t.Errorf("%d bytes are kept, want all %d", len(x.kept()), len(x.want))
			}
		}
		have := len(x.want)
		x.record(1000)
		x.rt.Runner(x.id).Crash("killed by SIGKILL")
		<-x.get(x.id).Done()
		got, err := x.read(0, 1<<30)
		if got.Data != string(x.want[:have]) || got.Total != int64(have) || err != nil {
			x.t.Errorf("%d of %d bytes, %v", len(got.Data), got.Total, err)
		}
		if r := x.get(x.id).Info().Terminal.Recording; r.Bytes != int64(have) || r.Stopped != "its runner died before the daemon had fetched the rest" {
			x.t.Errorf("%+v", r)
		}
	})
}

// TestFarRecordingAndDaemons: a daemon goes on with the file that an earlier one began, also when
// the session ended between them and nothing else of it is kept.
func TestFarRecordingAndDaemons(t *testing.T) {
	for _, ends := range []bool{false, true} {
		for _, retention := range []time.Duration{-1, time.Hour} {
			c := session.Config{Retention: retention, RecordingsDir: t.TempDir()}
			if retention > 0 {
				c.Archive = newShelf(t).open(t)
			}
			synctest.Test(t, func(t *testing.T) {
				rt := &sessiontest.Runtime{Command: func(ctx context.Context, _ *sessiontest.Exec) int {
					if ends {
						time.Sleep(30 * time.Second)
						return 5
					}
					<-ctx.Done()
					return 143
				}}
				w := world{newRegistry(c, rt), rt, t}
				p := terminal("")
				p.Record = true
				x := &far{world: w, dir: c.RecordingsDir, id: w.create(p).SessionID}
				x.record(400 << 10)
				synctest.Wait()
				if len(x.kept()) != 400<<10 {
					t.Fatalf("%d bytes are kept", len(x.kept()))
				}
				x.record(1 << 10)
				x.Leave()
				x.record(2 << 10)
				time.Sleep(time.Minute)
				x.world = world{newRegistry(c, rt), rt, t}
				if err := x.Recover(t.Context(), false); err != nil {
					t.Fatal(err)
				}
				if !ends {
					x.record(3 << 10)
					x.destroy(x.id)
				}
				synctest.Wait()
				if !bytes.Equal(x.kept(), x.want) {
					t.Errorf("ends %v, retention %s: %d bytes are kept, want all %d", ends, retention, len(x.kept()), len(x.want))
				}
				x.Close(nil)
				if left := rt.Runners(); len(left) > 0 {
					t.Errorf("%d runners left after Close", len(left))
				}
			})
		}
	}
}

// TestFarRecordingOfARunnerThatExits: an earlier daemon fetched the whole recording and archived the output, and
// was killed before the runner had exited. The next daemon reports no loss.
func TestFarRecordingOfARunnerThatExits(t *testing.T) {
	place := newShelf(t)
	synctest.Test(t, func(t *testing.T) {
		rt := &sessiontest.Runtime{Command: talk}
		c := session.Config{Retention: time.Hour, RecordingsDir: t.TempDir(), Archive: place.open(t)}
		p := terminal("")
		p.Record = true
		w := world{newRegistry(c, rt), rt, t}
		x := &far{world: w, dir: c.RecordingsDir, id: w.create(p).SessionID}
		x.record(10 << 10)
		runner := rt.Runner(x.id)
		runner.LoseRequest(link.Export.Name) // by which the daemon confirms that it has the output
		runner.Deny(true)
		x.typed(x.id, "exit")
		synctest.Wait()
		x.Leave()
		if place.files() != 2 {
			t.Fatalf("%d files", place.files())
		}

		c.Archive = place.open(t)
		x.world = world{newRegistry(c, rt), rt, t}
		if err := x.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s := x.get(x.id)
		runner.Crash("")
		<-s.Done()
		x.isKept()
		x.Close(nil)
	})
}

// TestFarRecordingAfterALostLink: a recording grows while its runner cannot be reached, and after an
// attempt to fetch it has failed. The next connection fetches it, although nothing more is recorded.
func TestFarRecordingAfterALostLink(t *testing.T) {
	for name, lose := range map[string]func(*sessiontest.Runner){
		"the link is broken":    func(r *sessiontest.Runner) { r.Break(); synctest.Wait() },
		"the request gets lost": func(r *sessiontest.Runner) { r.LoseRequest(link.Recording.Name) },
	} {
		t.Run(name, func(t *testing.T) {
			inFar(t, session.Config{}, terminal(""), func(x *far) {
				runner := x.rt.Runner(x.id)
				runner.Deny(true)
				lose(runner)
				x.record(300 << 10)
				time.Sleep(time.Minute)
				runner.Deny(false)
				time.Sleep(time.Minute)
				if !bytes.Equal(x.kept(), x.want) {
					t.Errorf("%d bytes are kept, want all %d", len(x.kept()), len(x.want))
				}
			})
		})
	}
}
