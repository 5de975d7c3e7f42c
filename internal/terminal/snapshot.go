package terminal

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

// batchTime is how long a program may take to finish a batch of drawing or an escape sequence.
// After that the screen is read as it is.
var batchTime = 150 * time.Millisecond

// Snapshot returns bytes that make a fresh terminal of that size show the same, with at most
// that many lines above the screen (-1: all), and where to continue reading. It waits for the
// end of a batch of drawing, at most batchTime.
func (t *Terminal) Snapshot(ctx context.Context, scrollback int) (res link.SnapshotResult, data []byte, err error) {
	if err := t.lockBetweenBatches(ctx); err != nil {
		return res, nil, err
	}
	defer t.mu.Unlock()
	t.screen.do(t.offset, func(v *vt.Terminal) {
		data = v.Snapshot(scrollback)
		res.Cols, res.Rows = v.Size()
	})
	res.Offset, res.Version, res.Resizes = t.offset, t.screen.at(), t.resizes.count()
	// The reader that continues from here gets an unfinished character whole: a terminal that
	// receives a character in two pieces may lose it.
	if n := t.tail.unfinished(); !t.complete && bytes.HasSuffix(data, t.tail.bytes[t.tail.n-n:t.tail.n]) {
		data = data[:len(data)-n]
		res.Offset -= int64(n)
	}
	return res, data, nil
}

// Screen reads the screen. It waits as Snapshot does. The caller fills in the id and the state
// of the session.
func (t *Terminal) Screen(p api.SessionScreenParams) (res api.SessionScreenResult) {
	t.lockBetweenBatches(context.Background())
	defer t.mu.Unlock()
	if p.SinceVersion != nil {
		since := t.screen.since(*p.SinceVersion)
		p.SinceVersion = &since
	}
	t.screen.do(t.offset, func(v *vt.Terminal) { res = look(v, p) })
	res.Version, res.Offset = t.screen.at(), t.offset
	return res
}

// lockBetweenBatches takes mu when the program is not in a batch of drawing, or after batchTime.
// After an error mu is not held.
func (t *Terminal) lockBetweenBatches(ctx context.Context) error {
	late := time.NewTimer(batchTime)
	defer late.Stop()
	for over := false; ; {
		t.mu.Lock()
		batch := false
		t.screen.do(t.offset, func(v *vt.Terminal) {
			if over {
				v.EndBatch()
			}
			batch = v.InBatch()
		})
		if !batch {
			return nil
		}
		wake := t.changesLocked()
		t.mu.Unlock()
		select {
		case <-wake:
		case <-late.C:
			over = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Past is the last screen of a terminal, made from its last snapshot. It is safe for concurrent
// use.
type Past struct {
	snapshot link.SnapshotResult

	mu sync.Mutex
	vt *vt.Terminal // guarded by mu
}

// Restore shows a snapshot again.
func Restore(snapshot []byte, r link.SnapshotResult) *Past {
	r.Cols, r.Rows = min(max(r.Cols, api.MinCols), api.MaxCols), min(max(r.Rows, api.MinRows), api.MaxRows)
	p := &Past{snapshot: r}
	p.clear()
	p.do(func() {
		p.vt.Write(snapshot)
		p.vt.EndBatch()
	})
	return p
}

func (p *Past) clear() {
	p.vt = vt.New(vt.Config{Cols: p.snapshot.Cols, Rows: p.snapshot.Rows, Scrollback: api.MaxScrollback})
}

// do calls f, and again on an empty screen if this one breaks, which is better than no answer.
func (p *Past) do(f func()) {
	defer func() {
		if recover() != nil {
			p.clear()
			f()
		}
	}()
	f()
}

// Screen reads the last screen. The caller fills in the id and the state of the session.
func (p *Past) Screen(q api.SessionScreenParams) (res api.SessionScreenResult) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.SinceVersion != nil {
		// The versions of the rows are lost, but no row is newer than the last version.
		since := uint64(0)
		if *q.SinceVersion >= p.snapshot.Version {
			since = p.vt.Version()
		}
		q.SinceVersion = &since
	}
	p.do(func() { res = look(p.vt, q) })
	res.Version, res.Offset = p.snapshot.Version, p.snapshot.Offset
	return res
}

// Snapshot is like that of a Terminal.
func (p *Past) Snapshot(scrollback int) (res link.SnapshotResult, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.do(func() { data = p.vt.Snapshot(scrollback) })
	return p.snapshot, data
}
