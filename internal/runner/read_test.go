package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

func (d *daemon) output(p link.OutputParams) (link.OutputResult, string, error) {
	var res link.OutputResult
	body, err := d.conn.Call(context.Background(), link.ExecOutput.With(&p, nil, &res))
	return res, string(body), err
}

func (d *daemon) readAfter(id string, after int64, wait bool) (link.ReadResult, string, error) {
	var res link.ReadResult
	body, err := d.conn.Call(context.Background(), link.ExecRead.With(&link.ReadParams{ExecID: id, AfterSeq: after, Limit: 1 << 20, Wait: wait}, nil, &res))
	return res, string(body), err
}

func TestOutput(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	e := d.run("printf 0123456789; echo error >&2")
	for _, c := range []struct {
		p      link.OutputParams
		offset int64
		want   string
		ends   bool
	}{
		{link.OutputParams{Limit: 100}, 0, "0123456789", true},
		{link.OutputParams{Limit: 4}, 0, "0123", false},
		{link.OutputParams{Offset: 4, Limit: 4}, 4, "4567", false},
		{link.OutputParams{Offset: 8, Limit: 4}, 8, "89", true},
		{link.OutputParams{Offset: 10, Limit: 4}, 10, "", true},
		{link.OutputParams{Offset: 3}, 3, "", false},
		{link.OutputParams{Tail: 3, Limit: 100}, 7, "789", true},
		{link.OutputParams{Tail: 100, Limit: 100}, 0, "0123456789", true},
		{link.OutputParams{Stream: api.EventStderr, Limit: 100}, 0, "error\n", true},
	} {
		for _, wait := range []bool{false, true} {
			c.p.ExecID, c.p.Wait = e.ExecID, wait
			if c.p.Stream == "" {
				c.p.Stream = api.EventStdout
			}
			res, body, err := d.output(c.p)
			if err != nil || body != c.want || res.Offset != c.offset || res.Complete != c.ends || res.Gap != nil || res.NextGap != nil || res.State != api.ExecClosed {
				t.Errorf("%+v: %+v %q, %v", c.p, res, body, err)
			}
		}
	}
	for _, p := range []link.OutputParams{
		{Offset: 11, Stream: api.EventStdout}, {Offset: -1, Stream: api.EventStdout}, {Limit: -1, Stream: api.EventStdout}, {Stream: "stdin"}, {Offset: 11, Wait: true, Stream: api.EventStdout},
	} {
		p.ExecID = e.ExecID
		if res, _, err := d.output(p); !errors.Is(err, api.ErrInvalidParams) || !strings.HasPrefix(err.Error(), "params.") {
			t.Errorf("%+v: %+v, %v", p, res, err)
		}
	}
	if _, _, err := d.output(link.OutputParams{ExecID: "x-1", Stream: api.EventStdout}); !errors.Is(err, api.ErrExecNotFound) {
		t.Errorf("%v", err)
	}
}

// TestOutputFollows: a reader by offset gets every byte of a running command, and
// learns when there will be no more.
func TestOutputFollows(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	e := d.open("cat; cat >&2")
	var got strings.Builder
	for i := range 20 {
		line := fmt.Sprintf("line %d\n", i)
		d.write(e.ExecID, line, false)
		for want := got.String() + line; got.String() != want; {
			res, body, err := d.output(link.OutputParams{ExecID: e.ExecID, Stream: api.EventStdout, Offset: int64(got.Len()), Limit: 100, Wait: true})
			if err != nil || body == "" || res.Complete || res.State != api.ExecRunning || res.Offset != int64(got.Len()) {
				t.Fatalf("%+v %q, %v", res, body, err)
			}
			got.WriteString(body)
		}
	}
	// At the end without waiting; beyond it there is nothing to wait for.
	if res, body, err := d.output(link.OutputParams{ExecID: e.ExecID, Stream: api.EventStdout, Offset: int64(got.Len()), Limit: 100}); err != nil || body != "" || res.Complete || res.Total != int64(got.Len()) {
		t.Errorf("%+v %q, %v", res, body, err)
	}
	if _, _, err := d.output(link.OutputParams{ExecID: e.ExecID, Stream: api.EventStdout, Offset: int64(got.Len()) + 1, Limit: 100, Wait: true}); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("%v", err)
	}
	end := make(chan link.OutputResult)
	go func() {
		res, body, err := d.output(link.OutputParams{ExecID: e.ExecID, Stream: api.EventStdout, Offset: int64(got.Len()), Limit: 100, Wait: true})
		if err != nil || body != "" {
			t.Errorf("%q, %v", body, err)
		}
		end <- res
	}()
	d.write(e.ExecID, "", true)
	if res := <-end; !res.Complete || res.State != api.ExecClosed {
		t.Errorf("%+v", res)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e = d.open("cat")
	if _, err := d.conn.Call(ctx, link.ExecOutput.With(&link.OutputParams{ExecID: e.ExecID, Stream: api.EventStdout, Limit: 1, Wait: true}, nil, &link.OutputResult{})); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestOutputGap: dropped bytes are reported as gaps, before and after the body, and everything else
// is there byte for byte.
func TestOutputGap(t *testing.T) {
	old := limits
	defer func() { limits = old }()
	limits.OutputBytes = 512 << 10
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	const lines = 300_000
	e := d.run(fmt.Sprintf("seq -f %%07.0f 1 %d", lines))
	want := make([]byte, 0, 8*lines)
	for i := range lines {
		want = fmt.Appendf(want, "%07d\n", i+1)
	}
	var gap *api.Span
	for at := int64(0); at < int64(len(want)); {
		res, body, err := d.output(link.OutputParams{ExecID: e.ExecID, Stream: api.EventStdout, Offset: at, Limit: 100_000})
		if err != nil || res.Total != int64(len(want)) {
			t.Fatalf("at %d: %+v, %v", at, res, err)
		}
		if res.Gap != nil {
			if gap != nil || res.Gap.From != at || res.Gap.To != res.Offset {
				t.Fatalf("gap %+v at %d, then %d", res.Gap, at, res.Offset)
			}
			gap = res.Gap
		} else if gap == nil && (res.NextGap == nil || res.NextGap.From < at+int64(len(body))) || gap != nil && res.NextGap != nil {
			t.Fatalf("at %d: next gap %+v", at, res.NextGap)
		}
		if !bytes.Equal([]byte(body), want[res.Offset:res.Offset+int64(len(body))]) {
			t.Fatalf("other bytes at %d", res.Offset)
		}
		at = res.Offset + int64(len(body))
		if res.Complete != (at == res.Total) {
			t.Errorf("complete at %d of %d: %v", at, res.Total, res.Complete)
		}
	}
	if gap == nil {
		t.Fatal("2.4 MB are kept though half a megabyte may be")
	}
	res, body, err := d.output(link.OutputParams{ExecID: e.ExecID, Stream: api.EventStdout})
	if err != nil || body != "" || res.NextGap == nil || *res.NextGap != *gap {
		t.Errorf("with limit 0: %+v, %v", res, err)
	}
	res, body, err = d.output(link.OutputParams{ExecID: e.ExecID, Stream: api.EventStdout, Offset: gap.From + 5, Limit: 8, Wait: true})
	if err != nil || *res.Gap != (api.Span{From: gap.From + 5, To: gap.To}) || body != string(want[gap.To:gap.To+8]) {
		t.Errorf("from within the gap: %+v %q, %v", res, body, err)
	}
}

// TestReadNumbers: a reader may come back with any number it was given, and with no other.
func TestReadNumbers(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	e := d.run("echo out")
	last := d.info(e.ExecID).LastSeq
	for after := range last + 1 {
		for _, wait := range []bool{false, true} {
			res, body, err := d.readAfter(e.ExecID, after, wait)
			if err != nil || res.Outcome == nil || res.Seq != last || (body == "out\n") != (after == 0) {
				t.Errorf("after %d: %+v %q, %v", after, res, body, err)
			}
		}
	}
	for _, wait := range []bool{false, true} {
		if _, _, err := d.readAfter(e.ExecID, last+1, wait); !errors.Is(err, api.ErrInvalidParams) || !strings.HasPrefix(err.Error(), "params.after_seq: ") {
			t.Errorf("%v", err)
		}
	}
	running := d.open("cat")
	if _, _, err := d.readAfter(running.ExecID, 1, true); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("a number of the future: %v", err)
	}
}

// TestReadStopsAtExit: what is written after the end is in the log, not in the stream;
// and who has the exit waits for nothing.
func TestReadStopsAtExit(t *testing.T) {
	old := limits
	defer func() { limits = old }()
	limits.OutputBytes = 64 << 10
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	late := func(command, what string) (id string, mark int64) {
		t.Helper()
		file := d.dir + "/go" + what[:1]
		r := d.run("{ while [ ! -e " + file + " ]; do sleep 0.01; done; " + what + "; } & " + command)
		res, _, err := d.readAfter(r.ExecID, 0, true)
		if err != nil || res.Outcome == nil {
			t.Fatalf("%+v, %v", res, err)
		}
		touch(t, file)
		d.run("wait")
		for d.info(r.ExecID).State != api.ExecClosed {
		}
		return r.ExecID, res.Seq
	}
	id, mark := late("echo early", "pwd")
	if last := d.info(id).LastSeq; last <= mark {
		t.Fatalf("the log ends at %d, the exit is %d", last, mark)
	}
	for after := range d.info(id).LastSeq + 1 {
		res, body, err := d.readAfter(id, after, true)
		if err != nil || res.Outcome == nil || res.Seq != mark || len(body) > len("early\n") || after >= mark && len(res.Chunks) > 0 {
			t.Errorf("after %d: %+v %q, %v", after, res, body, err)
		}
	}
	// A gap that ends after the exit is reported with its full length.
	id, mark = late("seq 1 20000", "yes|head -n200000")
	early := d.info(id).Outcome.StdoutBytes
	var end int64
	for after := int64(0); ; {
		res, _, err := d.readAfter(id, after, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range res.Chunks {
			if c.Offset != end || c.Seq <= after || c.Seq >= mark {
				t.Fatalf("%+v after %d, at byte %d, exit %d", c, after, end, mark)
			}
			after, end = c.Seq, c.Offset+c.Len
		}
		if res.Outcome != nil {
			break
		}
	}
	if end != early {
		t.Errorf("the stream tells of %d bytes, the command wrote %d", end, early)
	}
}
