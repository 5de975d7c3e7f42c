package session_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestRecordings: their place, what is read of them, and which go when there are too many.
func TestRecordings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	path := func(id string) string { return filepath.Join(dir, id+".cast") }
	rt := &sessiontest.Runtime{Command: talk}
	in(t, session.Config{RecordingsDir: dir, TotalRecordings: 1000}, rt, func(t *testing.T, w world) {
		record := func(size int) string {
			t.Helper()
			p := terminal("")
			p.Record = true
			id := w.create(p).SessionID
			if to := rt.Runner(id).Created().RecordTo; to != path(id) {
				t.Errorf("recorded to %q", to)
			}
			if err := os.WriteFile(path(id), make([]byte, size), 0o600); err != nil {
				t.Fatal(err)
			}
			return id
		}
		if plain := w.create(terminal("")); rt.Runner(plain.SessionID).Created().RecordTo != "" {
			t.Error("recorded, and nobody asked for it")
		} else {
			_, _, _, err := w.get(plain.SessionID).Recording(0, 10)
			testkit.WantError(t, err, api.CodeInvalidParams, "is not recorded; create it with record: true")
		}
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
		if data, total, info, err := w.get(b).Recording(100, 50); len(data) != 50 || total != 400 || err != nil || info.State != api.SessionTerminated {
			t.Errorf("%d of %d, %v", len(data), total, err)
		}
		_, _, _, err := w.get(b).Recording(401, 50)
		testkit.WantError(t, err, api.CodeInvalidParams, "params.offset: 401 is beyond the end, which is 400")
		d := record(300) // 1200; the oldest lives
		w.destroy(d)
		synctest.Wait()
		for id, want := range map[string]bool{a: true, b: false, c: true, d: true} {
			if _, err := os.Stat(path(id)); (err == nil) != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("recording of %s: %v", id, err)
			}
		}
		_, _, _, err = w.get(b).Recording(0, 50)
		testkit.WantError(t, err, api.CodeConflict, "its recording was removed")
	})
	if left, _ := os.ReadDir(dir); len(left) != 3 {
		t.Errorf("%d recordings after the end", len(left))
	}
}

// TestRecordingOfNothing: when the session cannot be made, its recording goes too.
func TestRecordingOfNothing(t *testing.T) {
	dir := t.TempDir()
	rt := &sessiontest.Runtime{OnStart: func(r *sessiontest.Runner) error {
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
