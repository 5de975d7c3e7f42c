package terminal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

func (w *world) recorded(name string, input bool, command ...string) api.SessionInfo {
	w.Helper()
	return testkit.Must(w.SessionCreate(w.ctx, api.SessionCreateParams{
		Kind: api.KindTerminal, Name: name, Command: command, Record: true, RecordInput: input,
	}))(w)
}

// recording reads a recording in pieces, until it is complete.
func (w *world) recording(id string, limit int64) string {
	w.Helper()
	var text strings.Builder
	for {
		r := testkit.Must(w.SessionRecording(w.ctx, api.SessionRecordingParams{SessionID: id, Offset: int64(text.Len()), Limit: &limit}))(w)
		text.WriteString(r.Data)
		if r.SessionID != id || strings.Contains(r.Data, "\uFFFD") || int64(len(r.Data)) > max(limit, 4) {
			w.Fatalf("%+v", r)
		}
		if r.Complete {
			return text.String()
		}
		if r.Data == "" {
			w.Fatalf("no more at %d of %d", text.Len(), r.Total)
		}
	}
}

// TestRecording: the recording is in a file that only its owner can read. It has the output, the sizes,
// and on request the input, and it outlives the session and the daemon.
func TestRecording(t *testing.T) {
	w := start(t)
	dir := filepath.Join(w.daemon.StateDir, "recordings")
	const program = `stty -echo; read x; echo "tüst 漢字"; read y; exit 2`
	for _, input := range []bool{false, true} {
		info := w.recorded("a", input, "sh", "-c", program)
		path := filepath.Join(dir, info.SessionID+".cast")
		if rec := info.Terminal.Recording; rec == nil || rec.Path != path || rec.Input != input {
			t.Fatalf("%+v", info.Terminal.Recording)
		}
		testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: "a", WaitingForInput: true}))(w)
		w.types("a", "s3cret", "enter")
		w.shows("a", "tüst 漢字")
		testkit.Must(w.SessionResize(w.ctx, api.SessionResizeParams{SessionID: "a", Cols: 100, Rows: 30}))(w)
		if r := testkit.Must(w.SessionRecording(w.ctx, api.SessionRecordingParams{SessionID: "a"}))(w); r.Complete || !strings.Contains(r.Data, "漢字") {
			t.Errorf("while it runs: %+v", r)
		}
		if !input {
			w.restart(nil)
		}
		w.types("a", "", "enter")
		details := w.ended(info.SessionID)
		if details.Terminal.Recording == nil || details.Terminal.Recording.Path != path {
			t.Errorf("%+v", details.Terminal)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int64{1, 7, 4 << 20} {
			if text := w.recording(info.SessionID, limit); text != string(file) {
				t.Errorf("limit %d: %d bytes of %d", limit, len(text), len(file))
			}
		}
		for text, want := range map[string]bool{`"version":3`: true, "漢字": true, "100x30": true, "s3cret": input} {
			if got := strings.Contains(strings.ReplaceAll(string(file), " ", ""), text); got != want {
				t.Errorf("input %v: %q in the recording is %v:\n%s", input, text, got, file)
			}
		}
		for path, mode := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
			if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != mode {
				t.Errorf("%s: %v, %v", path, stat.Mode(), err)
			}
		}
		w.restart(nil)
		if text := w.recording(info.SessionID, 4<<20); text != string(file) {
			t.Errorf("another daemon reads %d bytes of %d", len(text), len(file))
		}
	}
	w.terminal("plain", "sh", "-c", "read x")
	_, err := w.SessionRecording(w.ctx, api.SessionRecordingParams{SessionID: "plain"})
	testkit.WantError(t, err, api.CodeInvalidParams, `session "plain": is not recorded; create it with record: true`)
}

// TestRecordingsAreBounded: a recording that is too large stops, and session.info reports it. The
// oldest recordings are removed, but not those of live sessions.
func TestRecordingsAreBounded(t *testing.T) {
	w := start(t, trltest.Args("--recording-bytes", "20000", "--recordings-total-bytes", "50000"))
	bytes := func(info api.SessionInfo) int64 { // 0 if it was removed
		stat, err := os.Stat(filepath.Join(w.daemon.StateDir, "recordings", info.SessionID+".cast"))
		if err != nil {
			return 0
		}
		return stat.Size()
	}
	flood := []string{"sh", "-c", `i=0; while [ $i -lt 1000 ]; do echo "this is line number $i"; i=$((i+1)); done; [ "$0" = live ] && read x; exit 0`}
	live := w.recorded("live", false, append(flood, "live")...)
	w.shows("live", "line number 999")
	for {
		info := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: "live"}))(w)
		rec := info.Terminal.Recording
		if rec.Stopped != "" && (rec.Bytes < 10000 || rec.Bytes > 20000) {
			t.Errorf("%+v", rec)
		}
		if rec.Stopped != "" {
			break
		}
	}
	if r := testkit.Must(w.SessionRecording(w.ctx, api.SessionRecordingParams{SessionID: "live"}))(w); !r.Complete || r.Total > 20000 {
		t.Errorf("%d bytes, complete %v", r.Total, r.Complete)
	}
	var ended []api.SessionInfo
	for range 6 {
		info := w.recorded("", false, flood...)
		w.ended(info.SessionID)
		ended = append(ended, info)
	}
	for sum := int64(1 << 20); sum > 50000; {
		sum = bytes(live)
		for i, info := range ended {
			if sum += bytes(info); i > 0 && bytes(info) == 0 && bytes(ended[i-1]) > 0 {
				t.Errorf("the recording of %s is gone, an older one is not", info.SessionID)
			}
		}
		if w.ctx.Err() != nil {
			t.Fatalf("%d bytes are kept", sum)
		}
	}
	if bytes(live) == 0 || bytes(ended[5]) == 0 {
		t.Error("too much was removed")
	}
	_, err := w.SessionRecording(w.ctx, api.SessionRecordingParams{SessionID: ended[0].SessionID})
	testkit.WantError(t, err, api.CodeConflict, "its recording was removed")
}
