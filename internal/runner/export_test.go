package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/export"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// destroyAndFetch ends the session and returns its export, without saying that it is safe.
func (d *daemon) destroyAndFetch() (link.DestroyResult, []byte) {
	d.t.Helper()
	var res link.DestroyResult
	exported, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Cause: "over", Export: true}, nil, &res))
	if err != nil || res.Export == nil {
		d.t.Fatalf("destroy: %+v, %v", res.Export, err)
	}
	for more := res.Export.More; more; {
		var r link.ExportResult
		piece, err := d.conn.Call(context.Background(), link.Export.With(&struct{}{}, nil, &r))
		if err != nil {
			d.t.Fatalf("export: %v", err)
		}
		exported, more = append(exported, piece...), r.More
	}
	return res, exported
}

// safe lets the runner go, and waits for it.
func (d *daemon) safe() {
	d.t.Helper()
	if _, err := d.conn.Call(context.Background(), link.Export.With(&struct{}{}, nil, &link.ExportResult{})); err != nil {
		d.t.Errorf("the last export: %v", err)
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("the runner: %v", err)
	}
	if _, err := os.Stat(d.dir); err == nil {
		d.t.Error("the runner left its directory")
	}
}

func TestExportHasEverything(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh", Name: "builder"})
	commands := []string{
		"echo one; echo two >&2; echo three",
		"exit 3",
		"printf '\\303'; sleep 0.1; printf '\\251'; echo; printf '\\377\\376' >&2",
		"head -c 5000000 /dev/zero | tr '\\0' 'x'; echo end", // more than is kept
		"for i in 1 2 3 4 5; do echo $i; echo $i >&2; done",
	}
	type reads struct {
		read   link.ReadResult
		output link.OutputResult
		bodies string
	}
	before := map[string]reads{}
	look := func(read func(link.ReadParams) (link.ReadResult, []byte, error), output func(link.OutputParams) (link.OutputResult, []byte, error), id string) reads {
		t.Helper()
		var r reads
		var body, more []byte
		var err error
		if r.read, body, err = read(link.ReadParams{ExecID: id, AfterSeq: 1, Limit: 1 << 20, Wait: true}); err != nil {
			t.Fatalf("read %s: %v", id, err)
		}
		if r.output, more, err = output(link.OutputParams{ExecID: id, Stream: "stdout", Tail: 100_000, Limit: 200_000}); err != nil {
			t.Fatalf("output %s: %v", id, err)
		}
		r.bodies = string(body) + "|" + string(more)
		return r
	}
	var ids []string
	for _, c := range commands {
		id := d.run(c).ExecID
		ids = append(ids, id)
		before[id] = look(
			func(p link.ReadParams) (r link.ReadResult, body []byte, err error) {
				body, err = d.conn.Call(context.Background(), link.ExecRead.With(&p, nil, &r))
				return r, body, err
			},
			func(p link.OutputParams) (r link.OutputResult, body []byte, err error) {
				body, err = d.conn.Call(context.Background(), link.ExecOutput.With(&p, nil, &r))
				return r, body, err
			}, id)
	}
	running := d.begin(api.ExecParams{Command: "echo up; sleep 100"})
	d.read(running.ExecID, func(out string) bool { return out != "" })

	res, exported := d.destroyAndFetch()
	d.safe()
	past, err := export.Open(bytes.NewReader(exported), int64(len(exported)))
	if err != nil {
		t.Fatal(err)
	}
	if info := past.Result.Info; info.Name != "builder" || info.State != api.SessionTerminated || info.Cause != "over" || info.TerminatedAt == nil {
		t.Errorf("%+v", info)
	}
	if len(past.Result.Execs) != len(commands)+1 || text(past.Result.Execs) != text(res.Execs) {
		t.Errorf("%d commands, the receipt has %d", len(past.Result.Execs), len(res.Execs))
	}
	store := output.NewStore(output.StoreConfig{MemoryBytes: 1 << 20, Dir: t.TempDir()})
	for _, id := range ids {
		x, err := past.Load(store, id)
		if err != nil {
			t.Fatalf("load %s: %v", id, err)
		}
		after := look(
			func(p link.ReadParams) (link.ReadResult, []byte, error) { return x.Read(t.Context(), p, nil) },
			func(p link.OutputParams) (link.OutputResult, []byte, error) { return x.Output(t.Context(), p) }, id)
		if b := before[id]; text(b.read)+text(b.output) != text(after.read)+text(after.output) {
			t.Errorf("%s: %s %s, before %s %s", id, text(after.read), text(after.output), text(b.read), text(b.output))
		}
		if after.bodies != before[id].bodies {
			t.Errorf("%s: other bytes", id)
		}
		x.Log.Release()
	}
	x, err := past.Load(store, running.ExecID)
	if err != nil {
		t.Fatal(err)
	}
	r, body, err := x.Read(t.Context(), link.ReadParams{ExecID: running.ExecID, Limit: 1 << 20, Wait: true}, nil)
	if err != nil || !strings.HasPrefix(string(body), "up\n") || r.Outcome == nil || !r.Outcome.Cancelled {
		t.Errorf("the one that was running: %+v, %q, %v", r, body, err)
	}
	x.Log.Release()
	if store.Kept() != 0 {
		t.Errorf("%d bytes stay", store.Kept())
	}
	if _, err := past.Load(store, "x-none"); err == nil {
		t.Error("a command that is not there")
	}
}

// A daemon that dies in the middle loses nothing: the next one fetches it again.
func TestExportSurvivesTheDaemon(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	id := d.run("head -c 3000000 /dev/zero | tr '\\0' 'x'").ExecID
	var res link.DestroyResult
	if _, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Cause: "over", Export: true}, nil, &res)); err != nil || !res.Export.More {
		t.Fatalf("destroy: %+v, %v", res.Export, err)
	}
	d.conn.Close()
	<-d.done
	d.connect()
	if info := d.details(); info.State != api.SessionTerminated || info.Cause != "over" {
		t.Fatalf("%+v", info)
	}
	_, exported := d.destroyAndFetch()
	d.conn.Close() // and again, when it has everything but has not confirmed it
	<-d.done
	d.connect()
	_, again := d.destroyAndFetch()
	d.safe()
	if !bytes.Equal(exported, again) {
		t.Error("the exports differ")
	}
	past, err := export.Open(bytes.NewReader(again), int64(len(again)))
	if err != nil || len(past.Result.Execs) != 1 || past.Result.Execs[0].ExecID != id {
		t.Errorf("%+v, %v", past, err)
	}
}

// A daemon that does not ask for an export gets none, and the runner does not wait.
func TestDestroyWithoutExport(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	d.run("echo x")
	var res link.DestroyResult
	body, err := d.conn.Call(context.Background(), link.Destroy.With(&link.DestroyParams{Cause: "over"}, nil, &res))
	if err != nil || res.Export != nil || len(body) > 0 || len(res.Execs) != 1 {
		t.Errorf("%+v, %d bytes, %v", res, len(body), err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A session that ends by itself can be fetched too.
func TestExportOfASessionThatEndedByItself(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	id := d.run("echo last words").ExecID
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, exported := d.destroyAndFetch()
	d.safe()
	past, err := export.Open(bytes.NewReader(exported), int64(len(exported)))
	if err != nil {
		t.Fatal(err)
	}
	x, err := past.Load(output.NewStore(output.StoreConfig{}), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, body, err := x.Read(t.Context(), link.ReadParams{ExecID: id, Limit: 1000}, nil); string(body) != "last words\n" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
}

func TestOutputGoesToAFileAndIsTrimmed(t *testing.T) {
	dir := t.TempDir()
	was := limits
	limits.MemoryBytes, limits.SpillDir, limits.OutputBytes, limits.SessionOutput = 1<<20, dir, 16<<20, 64<<20
	defer func() { limits = was }()
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	const flood = "head -c 12000000 /dev/zero | tr '\\0' 'x'"
	var ids []string
	for range 3 {
		ids = append(ids, d.run(flood).ExecID)
	}
	running := d.begin(api.ExecParams{Command: flood + "; echo up >&2; sleep 100"})
	d.read(running.ExecID, func(out string) bool { return strings.HasSuffix(out, "up\n") })
	if n := d.details().OutputBytes; n < 48_000_000 || n > 52_000_000 {
		t.Errorf("%d bytes are kept", n)
	}
	if rss := residentBytes(t, d.cmd.Process.Pid); rss > 40<<20 {
		t.Errorf("%d bytes of memory", rss)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) > 0 {
		t.Errorf("files with a name: %v", names)
	}
	trim := func(keep int64) {
		t.Helper()
		var info api.SessionInfo
		if _, err := d.conn.Call(context.Background(), link.Trim.With(&link.TrimParams{Keep: keep}, nil, &info)); err != nil {
			t.Fatal(err)
		}
		if info.OutputBytes > keep {
			t.Errorf("trimmed to %d, keeps %d", keep, info.OutputBytes)
		}
	}
	gone := func(id string) int64 {
		t.Helper()
		var r link.OutputResult
		if _, err := d.conn.Call(context.Background(), link.ExecOutput.With(&link.OutputParams{ExecID: id, Stream: "stdout"}, nil, &r)); err != nil {
			t.Fatal(err)
		}
		if r.Total != 12_000_000 {
			t.Errorf("%s has %d bytes", id, r.Total)
		}
		n := int64(0)
		for _, g := range []*api.Span{r.Gap, r.NextGap} {
			if g != nil {
				n += g.To - g.From
			}
		}
		return n
	}
	trim(40 << 20)
	if a, b, c, e := gone(ids[0]), gone(ids[1]), gone(ids[2]), gone(running.ExecID); a != 12_000_000 || b+c+e != 0 {
		t.Errorf("gone: %d %d %d %d; want all of the first", a, b, c, e)
	}
	trim(5 << 20)
	if b, c, e := gone(ids[1]), gone(ids[2]), gone(running.ExecID); b+c != 24_000_000 || e < 6_000_000 || e > 11_000_000 {
		t.Errorf("gone: %d %d %d; want all of the two, and the middle of what runs", b, c, e)
	}
	if info := d.info(ids[0]); info.StdoutBytes != 12_000_000 || info.Outcome == nil {
		t.Errorf("%+v", info)
	}
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// residentBytes is the memory of a process that it shares with no other.
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // not Linux
	}
	var kib int64
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			fmt.Sscan(rest, &kib)
		}
	}
	return kib << 10
}
