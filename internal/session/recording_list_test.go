package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestKeptRecordings: recordings are listed, read and deleted when their sessions are not known.
func TestKeptRecordings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	id := func(n int) string { return fmt.Sprintf("s-%010d", n) }
	total := 0
	for n := range 5 {
		text := fmt.Sprintf(`{"version":3,"term":{"cols":80,"rows":2%d},"timestamp":%d,"command":"make é","input":%t}`+"\n", n, 1000+n, n == 2)
		if n != 1 { // that one broke off
			text += "[0.5, \"x\", \"0\"]\n"
		}
		write(id(n)+".cast", text)
		total += len(text)
	}
	write("s-00000000ff.cast", "no recording")
	write("other.txt", "something else")
	total += len("no recording")
	in(t, session.Config{RecordingsDir: dir}, &sessiontest.Runtime{Command: talk, RecordDir: dir}, func(t *testing.T, w world) {
		var got []string
		p := api.RecordingListParams{Limit: 2}
		for {
			r := testkit.Must(w.Registry.Recordings(p))(t)
			for _, one := range r.Recordings {
				if one.Cols != 80 || one.Live || one.Command != "make é" || one.StartedAt.Unix() != int64(980+one.Rows) || one.ChangedAt.IsZero() {
					t.Errorf("%+v", one)
				}
				if n := one.Rows - 20; one.Input != (n == 2) {
					t.Errorf("%+v", one)
				}
				got = append(got, one.RecordingID)
			}
			if r.TotalBytes != int64(total) || len(r.Recordings) > 2 {
				t.Errorf("%+v, want %d bytes", r, total)
			}
			if p.Before = r.NextBefore; p.Before == "" {
				break
			}
		}
		if want := []string{id(4), id(3), id(2), id(1), id(0)}; !slices.Equal(got, want) {
			t.Errorf("listed %v, want %v", got, want)
		}
		r := testkit.Must(w.Registry.ReadRecording(t.Context(), api.RecordingReadParams{RecordingID: id(3), Offset: 1, Limit: num(9)}))(t)
		if r.Data != `"version"` || r.Complete || r.RecordingID != id(3) {
			t.Errorf("%+v", r)
		}
		if r = testkit.Must(w.Registry.ReadRecording(t.Context(), api.RecordingReadParams{RecordingID: id(3)}))(t); !r.Complete || int64(len(r.Data)) != r.Total {
			t.Errorf("%+v", r)
		}
		_, err := w.Registry.ReadRecording(t.Context(), api.RecordingReadParams{RecordingID: id(3), Offset: 1 << 20})
		testkit.WantError(t, err, api.CodeInvalidParams, "is beyond the end")
		if d := testkit.Must(w.Registry.DeleteRecording(id(3)))(t); d.Bytes != r.Total {
			t.Errorf("%+v", d)
		}
		_, err = w.Registry.ReadRecording(t.Context(), api.RecordingReadParams{RecordingID: id(3)})
		testkit.WantError(t, err, api.CodeSessionNotFound, "not found")
		_, err = w.Registry.DeleteRecording(id(3))
		testkit.WantError(t, err, api.CodeSessionNotFound, "not found")
		_, err = w.Registry.Recordings(api.RecordingListParams{Before: id(3)})
		testkit.WantError(t, err, api.CodeInvalidParams, "begin again without before")
		// A header is read once.
		write(id(4)+".cast", "")
		if r := testkit.Must(w.Registry.Recordings(api.RecordingListParams{Limit: 1}))(t); r.Recordings[0].Command != "make é" || r.Recordings[0].Bytes != 0 {
			t.Errorf("%+v", r)
		}
		plain := w.create(terminal("")).SessionID
		_, err = w.Registry.ReadRecording(t.Context(), api.RecordingReadParams{RecordingID: plain})
		testkit.WantError(t, err, api.CodeSessionNotFound, fmt.Sprintf("recording %q: not found", plain))
		live := terminal("")
		live.Record = true
		lives := w.create(live).SessionID
		write(lives+".cast", `{"version":3,"term":{"cols":80,"rows":24},"timestamp":2000}`+"\n")
		_, err = w.Registry.DeleteRecording(lives)
		testkit.WantError(t, err, api.CodeConflict, "its session lives")
		if r := testkit.Must(w.Registry.Recordings(api.RecordingListParams{Limit: 1}))(t); r.Recordings[0].RecordingID != lives || !r.Recordings[0].Live {
			t.Errorf("%+v", r)
		}
		testkit.Must(w.Registry.Destroy(t.Context(), lives, true))(t)
		testkit.Must(w.Registry.DeleteRecording(lives))(t)
		_, err = w.Registry.ReadRecording(t.Context(), api.RecordingReadParams{RecordingID: lives})
		testkit.WantError(t, err, api.CodeSessionNotFound, "not found")
		// A directory that cannot be read is no empty list.
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if r := testkit.Must(w.Registry.Recordings(api.RecordingListParams{}))(t); len(r.Recordings) != 0 {
			t.Errorf("%+v", r)
		}
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = w.Registry.Recordings(api.RecordingListParams{})
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, "recordings: ")
	})
}
