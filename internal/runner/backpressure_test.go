package runner_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// paced is a named reader of a command's output, for which the command may wait.
type paced struct {
	d      *daemon
	id     string
	reader string
	after  int64
	bytes  int64 // bytes received
	lost   int64 // bytes that gaps report as lost
	owner  bool
}

// next reads once, and reports whether the command has ended.
func (p *paced) next() bool {
	p.d.t.Helper()
	var res link.ReadResult
	params := link.ReadParams{ExecID: p.id, AfterSeq: p.after, Limit: 256 << 10, Wait: true, Reader: p.reader}
	if _, err := p.d.conn.Call(context.Background(), link.ExecRead.With(&params, nil, &res)); err != nil {
		p.d.t.Fatal(err)
	}
	p.owner = res.Owner
	for _, c := range res.Chunks {
		p.after = c.Seq
		if c.Gap {
			p.lost += c.Len
		} else {
			p.bytes += c.Len
		}
	}
	return res.Outcome != nil
}

// flood is far more than the log keeps.
const flood = 50_000_000

// flooding starts a command that waits for the stream that started it.
func flooding(d *daemon) (id string) {
	d.t.Helper()
	return d.begin(api.ExecParams{Command: fmt.Sprintf("head -c %d /dev/zero", flood), Backpressure: new(true), Detach: new(true)}).ExecID
}

// stuck waits until the command waits for its reader: the log holds as much unread output as it
// may, and gets no more.
func stuck(d *daemon, id string) {
	d.t.Helper()
	for before := int64(-1); ; time.Sleep(20 * time.Millisecond) {
		info := d.info(id)
		if info.Outcome != nil {
			d.t.Fatalf("the command ended without its reader: %+v", info)
		}
		if info.StdoutBytes == before && before > 0 {
			return
		}
		before = info.StdoutBytes
	}
}

// TestPaceWaits: the command waits for its reader, and another reader that is faster makes
// no difference to it.
func TestPaceWaits(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	id := flooding(d)
	stuck(d, id)
	other := &paced{d: d, id: id, reader: id + "/1"}
	other.next()
	stuck(d, id)
	own := &paced{d: d, id: id, reader: id}
	for !own.next() {
		if !own.owner {
			t.Fatal("the stream that started the command is not its reader")
		}
	}
	if own.bytes != flood || own.lost != 0 {
		t.Errorf("read %d bytes of %d, %d are lost", own.bytes, flood, own.lost)
	}
	if other.owner {
		t.Error("the command waits for another reader")
	}
	if in := d.run("echo next"); in.stdout != "next\n" {
		t.Errorf("%q", in.stdout)
	}
}

// TestPaceLapses: a reader that reads nothing for too long, closes its stream or never came blocks
// the command for a bounded time, and then sees a gap.
func TestPaceLapses(t *testing.T) {
	old := limits
	defer func() { limits = old }()
	limits.ReaderStallS = 0.2
	for _, how := range []string{"takes nothing", "stops", "gives up"} {
		t.Run(how, func(t *testing.T) {
			if how == "gives up" {
				limits.ReaderStallS = 0
			}
			d := start(t, api.SessionCreateParams{Shell: "sh"})
			id := flooding(d)
			own := &paced{d: d, id: id, reader: id}
			switch how {
			case "stops":
				own.next()
			case "gives up":
				stuck(d, id)
				params := link.ReadParams{ExecID: id, Reader: id, Release: true}
				var res link.ReadResult
				if _, err := d.conn.Call(context.Background(), link.ExecRead.With(&params, nil, &res)); err != nil || len(res.Chunks) > 0 {
					t.Fatalf("release: %+v, %v", res, err)
				}
			}
			var ended link.AwaitResult
			if _, err := d.conn.Call(context.Background(), link.ExecAwait.With(&api.ExecInfoParams{ExecID: id}, nil, &ended)); err != nil {
				t.Fatal(err)
			}
			for !own.next() {
			}
			if own.lost == 0 || own.bytes+own.lost != flood {
				t.Errorf("read %d bytes of %d, %d are lost", own.bytes, flood, own.lost)
			}
		})
	}
}

// TestPaceNextDaemon: the reader of the next daemon goes on in place of the one that was
// lost, and misses nothing.
func TestPaceNextDaemon(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	id := flooding(d)
	own := &paced{d: d, id: id, reader: id}
	own.next()
	d.leave()
	d.connect()
	stuck(d, id)
	own.reader = id + "/1"
	for !own.next() {
		if !own.owner {
			t.Fatal("the command does not wait for the new reader")
		}
	}
	if own.bytes != flood || own.lost != 0 {
		t.Errorf("read %d bytes of %d, %d are lost", own.bytes, flood, own.lost)
	}
}

// TestPaceLateReads: reads that a lost daemon has left behind end while the next one connects. The
// command waits for the reader of the next daemon all the same.
func TestPaceLateReads(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	id := flooding(d)
	stuck(d, id)
	for n := range 60 {
		reader := fmt.Sprintf("%s/%d", id, n)
		conn, calls := d.conn, sync.WaitGroup{}
		for range 40 {
			calls.Go(func() {
				params, res := link.ReadParams{ExecID: id, Limit: 256 << 10, Reader: reader}, link.ReadResult{}
				_, _ = conn.Call(context.Background(), link.ExecRead.With(&params, nil, &res))
			})
		}
		d.leave()
		calls.Wait()
		d.connect()
		next := &paced{d: d, id: id, reader: fmt.Sprintf("%s/next%d", id, n)}
		if next.next(); !next.owner {
			t.Fatalf("round %d: the command waits for a reader of the lost daemon", n)
		}
	}
}
