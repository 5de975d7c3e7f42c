package dialogue_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// unparsedIn are the lines of a dialogue that said nothing.
func unparsedIn(events []api.DialogueEvent) (list []api.DialogueUnparsed) {
	for _, ev := range events {
		if ev.Type == api.DialogueEventUnparsed {
			list = append(list, *ev.Unparsed)
		}
	}
	return list
}

// TestOddLines: after any line of a program, its next good line is understood.
func TestOddLines(t *testing.T) {
	w := start(t)
	tee := filepath.Join(t.TempDir(), "tee")
	d := w.create(fake("-tee", tee))
	end := w.says(d.DialogueID, "garbage; blank; raw just words; raw []; raw 42; raw null; raw {}; raw {\"type\":7}; unknown-type; "+
		"raw {\"type\":\"assistant\"}; raw {\"type\":\"system\",\"subtype\":\"from_the_future\"}; raw \u001b[?25h; crlf said with an end of its own; blank; say done")
	if end.Turn.Outcome != "completed" || end.Turn.Text != "done" {
		t.Errorf("%+v", end.Turn)
	}
	events := w.events(d.DialogueID)
	why := map[string]int{}
	for _, u := range unparsedIn(events) {
		why[u.Why]++
		if u.Bytes == 0 || u.Text == "" || len(u.Text) > 3*int(u.Bytes) {
			t.Errorf("%+v", u)
		}
	}
	if why["not_json"] < 3 || why["unknown_type"] < 1 || why["unknown_subtype"] < 1 || len(unparsedIn(events)) < 9 {
		t.Errorf("%v:\n%s", why, brief(events))
	}
	texts := 0
	for _, item := range w.transcript(d.DialogueID).Items {
		if item.Kind == "agent" {
			texts++
		}
	}
	if texts != 2 {
		t.Errorf("%d texts", texts)
	}
	w.terminate(d.DialogueID)
	w.wroteExactly(d.DialogueID, tee)
}

// wroteExactly compares dialogue.raw with what the program wrote.
func (w *world) wroteExactly(id, tee string) {
	w.Helper()
	want, err := os.ReadFile(tee)
	if err != nil {
		w.Fatal(err)
	}
	if got := w.raw(id, 0, ""); !bytes.Equal(got, want) {
		w.Errorf("the program wrote %d bytes, kept are %d others", len(want), len(got))
	}
}

// TestRawInPieces: what was written can be read from any byte, while it grows too.
func TestRawInPieces(t *testing.T) {
	w := start(t)
	tee, heard := filepath.Join(t.TempDir(), "tee"), filepath.Join(t.TempDir(), "heard")
	d := w.create(fake("-tee", tee, "-heard", heard))
	w.says(d.DialogueID, "garbage; say ünïcödé €😀; lines 50")
	whole := w.raw(d.DialogueID, 0, "")
	for _, limit := range []int64{1, 7, 1000} {
		var got []byte
		for len(got) < min(len(whole), int(limit)*300) {
			r := testkit.Must(w.DialogueRaw(w.ctx, api.DialogueRawParams{DialogueID: d.DialogueID, Offset: int64(len(got)), Limit: &limit}))(w)
			data := api.Data(r.Data, r.DataBase64)
			if len(data) == 0 || len(data) > int(limit) || r.Complete || r.Epoch != 1 {
				t.Fatalf("%+v", r)
			}
			got = append(got, data...)
		}
		if !bytes.HasPrefix(whole, got) {
			t.Errorf("pieces of %d are not what was written", limit)
		}
	}
	w.terminate(d.DialogueID)
	w.wroteExactly(d.DialogueID, tee)
	said, _ := os.ReadFile(heard)
	if got := w.raw(d.DialogueID, 1, "stdin"); !bytes.Equal(got, said) {
		t.Errorf("the program was sent\n%s\nand heard\n%s", got, said)
	}
	r := testkit.Must(w.DialogueRaw(w.ctx, api.DialogueRawParams{DialogueID: d.DialogueID, Offset: int64(len(whole))}))(w)
	if !r.Complete || r.Total < int64(len(whole)) {
		t.Errorf("%+v", r)
	}
	_, err := w.DialogueRaw(w.ctx, api.DialogueRawParams{DialogueID: d.DialogueID, Offset: r.Total + 1})
	testkit.WantError(t, err, api.CodeInvalidParams, "offset")
	_, err = w.DialogueRaw(w.ctx, api.DialogueRawParams{DialogueID: d.DialogueID, Epoch: 2})
	testkit.WantError(t, err, api.CodeInvalidParams, "epoch")
}

// trl runs a command of the program against the daemon. It is not slowed down by the race
// detector, as this process may be.
func (w *world) trl(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.ctx, plain(), append([]string{"--socket", w.daemon.Socket}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// printed is a line of trl dialogue events --json, without its long texts.
type printed struct {
	kind  api.DialogueEventType
	bytes int
	text  []byte // its beginning
}

// readTurn reads what trl dialogue events prints, up to the end of a turn.
func (w *world) readTurn(out io.Reader) (list []printed) {
	w.Helper()
	in := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			w.Fatalf("after %d events: %v", len(list), err)
		}
		p := printed{bytes: len(line)}
		if _, rest, ok := bytes.Cut(line, []byte(`"event":{`)); ok {
			_, rest, _ = bytes.Cut(rest, []byte(`"type":"`))
			kind, _, _ := bytes.Cut(rest, []byte(`"`))
			p.kind = api.DialogueEventType(kind)
		}
		if _, rest, ok := bytes.Cut(line, []byte(`"text":"`)); ok {
			p.text = bytes.Clone(rest[:min(len(rest), 20)])
		}
		list = append(list, p)
		if p.kind == api.DialogueEventTurnEnded {
			return list
		}
	}
}

// TestLongLines: one of 64 MiB is understood; one that is longer is kept and told, and what
// comes behind it is understood.
func TestLongLines(t *testing.T) {
	w := start(t, trltest.Use(plain()))
	tee := filepath.Join(t.TempDir(), "tee")
	d := w.create(fake("-tee", tee))
	follow := w.trl("dialogue", "events", d.DialogueID, "-f", "--json")
	out, _ := follow.StdoutPipe()
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	w.send(d.DialogueID, "line 64MiB; say between; line 64MiB+1; line 66MiB; say behind")
	long, unparsed, said := 0, 0, ""
	for _, p := range w.readTurn(out) {
		switch {
		case p.kind == api.DialogueEventItem && p.bytes > 64<<20-1000:
			long++
		case p.kind == api.DialogueEventUnparsed && p.bytes < 10<<10:
			unparsed++
		case p.kind == api.DialogueEventTurnEnded:
			said = string(p.text)
		}
	}
	if long != 1 || unparsed != 2 || !strings.HasPrefix(said, `behind"`) {
		t.Errorf("%d long ones, %d that were too long, %s", long, unparsed, said)
	}
	w.terminate(d.DialogueID)
	_, _ = io.Copy(io.Discard, out)
	if err := follow.Wait(); err != nil {
		t.Error(err)
	}
	raw, err := w.trl("dialogue", "raw", d.DialogueID).Output()
	want, _ := os.ReadFile(tee)
	if err != nil || len(want) < 190<<20 || !bytes.Equal(raw, want) {
		t.Errorf("the program wrote %d bytes, kept are %d others: %v", len(want), len(raw), err)
	}
}

// TestLineBytes is set by the daemon.
func TestLineBytes(t *testing.T) {
	w := start(t, trltest.Args("--dialogue-line-bytes", "10000"))
	d := w.create(fake())
	w.says(d.DialogueID, "line 10000; line 10001; say x")
	if list := unparsedIn(w.events(d.DialogueID)); len(list) != 1 || list[0].Why != "too_long" || list[0].Bytes != 10001 {
		t.Errorf("%+v", list)
	}
}

// TestFlood: nothing of much is lost, for a reader that does not read until all is over;
// the agent does not wait for it, and the daemon does not grow.
func TestFlood(t *testing.T) {
	w := start(t, trltest.Use(plain()))
	d := w.create(fake())
	slow := w.trl("dialogue", "events", d.DialogueID, "-f", "--json")
	out, _ := slow.StdoutPipe()
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	const all, line = 200_000_000, 1 << 20
	w.send(d.DialogueID, fmt.Sprintf("flood %d %d; say done", all, line))
	testkit.Eventually(t, "the agent is done", func() bool {
		info := w.info(d.DialogueID)
		return info.Turns == 1 && info.State == api.DialogueIdle
	})
	t.Logf("the daemon uses %d MB", testkit.Must(w.SystemStats(w.ctx, api.SystemStatsParams{}))(w).MemoryRSSBytes>>20)
	n := 0
	for _, p := range w.readTurn(out) {
		if p.kind == api.DialogueEventItem && p.bytes > line {
			if !bytes.HasPrefix(p.text, fmt.Appendf(nil, "%08d x", n)) || p.bytes > line+1000 {
				t.Fatalf("line %d is %s…, %d bytes", n, p.text, p.bytes)
			}
			n++
		}
	}
	if n != (all+line-1)/line {
		t.Errorf("%d lines", n)
	}
	w.terminate(d.DialogueID)
	_, _ = io.Copy(io.Discard, out)
	if err := slow.Wait(); err != nil {
		t.Error(err)
	}
}

// TestEventsFromAnywhere: a client that reconnects with the number of its last event gets the events
// after it, and none twice; also without deltas.
func TestEventsFromAnywhere(t *testing.T) {
	w := start(t)
	p := fake()
	p.Policy = allowAll
	d := w.create(p)
	w.says(d.DialogueID, "lines 100; "+everything)
	w.terminate(d.DialogueID)
	all := w.events(d.DialogueID)
	for after := int64(0); after <= int64(len(all)); after += 1 + after/10 {
		f := w.follow(d.DialogueID, after)
		f.drain()
		if len(f.events) != len(all)-int(after) {
			t.Errorf("after %d: %d events", after, len(f.events))
		}
		f.close()
	}
	_, err := w.DialogueEvents(w.ctx, api.DialogueEventsParams{DialogueID: d.DialogueID, AfterSeq: int64(len(all)) + 1})
	testkit.WantError(t, err, api.CodeInvalidParams, "after_seq")

	s := testkit.Must(w.DialogueEvents(w.ctx, api.DialogueEventsParams{DialogueID: d.DialogueID, NoDeltas: true}))(w)
	defer s.Close()
	n, last := 0, int64(0)
	for {
		push := testkit.Must(s.Recv())(w)
		if push.Type == api.EventEnd {
			break
		}
		if push.Event.Type == api.DialogueEventDelta || push.Seq <= last {
			t.Errorf("%+v", push.Event)
		}
		n, last = n+1, push.Seq
	}
	if deltas := count(all, api.DialogueEventDelta); deltas == 0 || n != len(all)-deltas {
		t.Errorf("%d events without pieces, %d in all, %d pieces", n, len(all), deltas)
	}
}

// TestFollowersThroughRestarts: a stream goes on over the end of the daemon, as clients
// reconnect, without a gap and without a repetition.
func TestFollowersThroughRestarts(t *testing.T) {
	w := start(t)
	g := newGates(t)
	d := w.create(fake("-gates", g.dir))
	f := w.follow(d.DialogueID, 0) // of the first client, which lives through all
	script := "say begin"
	for i := range 4 {
		script += fmt.Sprintf("; gate g%d; lines 20; split h%d across; say %d", i, i, i)
	}
	w.send(d.DialogueID, script)
	for i := range 4 {
		for _, gate := range []string{fmt.Sprintf("g%d", i), fmt.Sprintf("h%d", i)} {
			g.reached(gate)
			w.restart(nil)
			g.open(gate)
		}
	}
	f.until(api.DialogueEventTurnEnded)
	f.state(api.DialogueIdle)
	if got, _ := json.Marshal(f.events); !bytes.Equal(got, testkit.Must(json.Marshal(w.events(d.DialogueID)))(w)) {
		t.Error("who followed has not heard what is recorded")
	}
}

// TestMultipleFollowers leave whenever they want.
func TestMultipleFollowers(t *testing.T) {
	w := start(t)
	d := w.create(fake())
	all, gone := []*follower{}, map[int]bool{}
	for i := range 20 {
		all = append(all, w.follow(d.DialogueID, 0))
		w.send(d.DialogueID, fmt.Sprintf("lines %d", i+1))
		if i%3 == 0 {
			all[i/2].close()
			gone[i/2] = true
		}
	}
	for range 20 {
		all[19].until(api.DialogueEventTurnEnded)
	}
	all[19].state(api.DialogueIdle)
	w.terminate(d.DialogueID)
	last := w.info(d.DialogueID).Seq
	for i, f := range all {
		if gone[i] {
			continue
		}
		f.drain()
		if f.after != last {
			t.Errorf("follower %d ended at %d of %d", i, f.after, last)
		}
	}
}
