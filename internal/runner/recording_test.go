package runner_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/testkit"
)

func TestTerminalRecording(t *testing.T) {
	dir := t.TempDir()
	p := onTerminal("stty -echo; echo shown; read x; echo end")
	p.Record = true
	d := launch(t)
	file := dir + "/" + d.id + ".cast"
	info, err := d.create(p, dir)
	if err != nil {
		t.Fatal(err)
	}
	if r := info.Terminal.Recording; r == nil || r.Path != "" || r.Input || r.Stopped != "" {
		t.Errorf("%s", text(info.Terminal))
	}
	if fi, err := os.Stat(file); err != nil || fi.Mode() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	d.waits(api.SessionWaitParams{Text: "shown"}, api.WaitText)
	d.keys("secret", "enter")
	d.terminated()
	cast, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(cast, []byte(`{"version":3`)) || !bytes.Contains(cast, []byte("shown")) || bytes.Contains(cast, []byte("secret")) || !bytes.Contains(cast, []byte("end")) {
		t.Errorf("%s, %v", cast, err)
	}
	if r := d.details().Terminal.Recording; r == nil || r.Bytes != int64(len(cast)) {
		t.Errorf("%s, the file has %d bytes", text(r), len(cast))
	}
	// The daemon has the file, so the runner does not wait until it has fetched it.
	var res link.DestroyResult
	if _, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{}, nil, &res)); err != nil {
		t.Error(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("the runner: %v", err)
	}
}

// A file that is there is not written over, and a program that does not start leaves none.
func TestTerminalRecordingIsNew(t *testing.T) {
	dir, p := t.TempDir(), onTerminal("echo shown")
	p.Record = true
	d := launch(t)
	file := dir + "/" + d.id + ".cast"
	touch(t, file)
	if _, err := d.create(p, dir); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(file); len(text) != 0 || err != nil {
		t.Errorf("the recording has changed: %q, %v", text, err)
	}
	d, p.Command = launch(t), []string{"./none"}
	file = dir + "/" + d.id + ".cast"
	if _, err := d.create(p, dir); err == nil || exists(file) {
		t.Errorf("%v, the file exists: %v", err, exists(file))
	}
}

// recording reads the recording from its beginning, in pieces of that size.
func (d *daemon) recording(limit int) []byte {
	d.t.Helper()
	var all []byte
	for {
		var r link.RecordingResult
		piece, err := d.conn.Call(context.Background(), link.Recording.With(&link.RecordingParams{Offset: int64(len(all)), Limit: limit}, nil, &r))
		if err != nil || len(piece) > limit {
			d.t.Fatalf("%d bytes, %v", len(piece), err)
		}
		if all = append(all, piece...); len(piece) == 0 || int64(len(all)) == r.Total {
			return all
		}
	}
}

// fetched says that the daemon has so many bytes of the recording.
func (d *daemon) fetched(size int) {
	d.t.Helper()
	p := link.RecordingParams{Offset: int64(size), Fetched: true}
	if _, err := d.conn.Call(context.Background(), link.Recording.With(&p, nil, &link.RecordingResult{})); err != nil {
		d.t.Error(err)
	}
}

// In a place that shares no directory with the daemon, the recording has no name, is read over the
// link, and the runner lives until the daemon has it.
func TestRecordingInPlace(t *testing.T) {
	for _, exports := range []bool{false, true} {
		for _, first := range []string{"recording", "export"} {
			p := onTerminal("stty -echo; echo shown; read x; echo end")
			p.Record = true
			d := start(t, p)
			d.waits(api.SessionWaitParams{Text: "shown"}, api.WaitText)
			testkit.Eventually(t, "the recording has the output", func() bool { return bytes.Contains(d.recording(7), []byte("shown")) })
			d.fetched(len(d.recording(1 << 20))) // the session lives, so this means nothing
			d.keys("", "enter")
			d.terminated()
			if !exports {
				var res link.DestroyResult
				if _, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{}, nil, &res)); err != nil || res.Export != nil {
					t.Errorf("%+v, %v", res.Export, err)
				}
			} else {
				d.destroyAndFetch()
				if first == "export" {
					if _, err := d.conn.Call(context.Background(), link.Export.With(&struct{}{}, nil, &link.ExportResult{})); err != nil {
						t.Error(err)
					}
				}
			}
			cast := d.recording(1 << 20)
			if !bytes.HasPrefix(cast, []byte(`{"version":3`)) || !bytes.Contains(cast, []byte(`"end`)) || !bytes.HasSuffix(cast, []byte("\"0\"]\n")) {
				t.Errorf("%s", cast)
			}
			d.fetched(len(cast) - 1) // not everything
			if got := d.recording(100); !bytes.Equal(got, cast) {
				t.Errorf("%d bytes, then %d", len(cast), len(got))
			}
			d.fetched(len(cast))
			if exports && first == "recording" {
				d.safe()
			} else if err := d.cmd.Wait(); err != nil {
				t.Errorf("the runner: %v", err)
			}
			if exists(d.dir) {
				t.Error("the runner left its directory")
			}
		}
	}
}

// When the session ends and no daemon is there, the recording waits for the next one, although
// nothing else is kept; also when that daemon dies before it has fetched everything.
func TestRecordingWaitsForADaemon(t *testing.T) {
	was := limits
	defer func() { limits = was }()
	for _, retention := range []float64{0, -1} {
		for _, ephemeral := range []bool{false, true} {
			limits.RetentionS = retention
			d := untilGo(t, api.SessionCreateParams{Kind: api.KindTerminal, Record: true, Ephemeral: ephemeral})
			d.endAlone(t)
			for range 3 {
				d.connect()
				if _, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{}, nil, &link.DestroyResult{})); err != nil {
					t.Fatal(err)
				}
				if cast := d.recording(1000); !bytes.Contains(cast, []byte("last words")) {
					t.Errorf("%s", cast)
				}
				d.leave()
			}
			d.connect()
			d.fetched(len(d.recording(1000)))
			if err := d.cmd.Wait(); err != nil {
				t.Errorf("the runner: %v", err)
			}
		}
	}
}
