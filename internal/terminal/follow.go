package terminal

import (
	"context"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// maxResizes is how many changes of size a terminal remembers.
const maxResizes = 1024

// resize is a change of size. Output from offset on is shown in that size.
type resize struct {
	offset     int64
	cols, rows int
}

// resizes are the newest changes of size. All changes are numbered, from 0.
type resizes struct {
	list      []resize
	forgotten int64 // how many are no longer in the list
	until     int64 // offset of the last of them
}

func (r *resizes) add(s resize) {
	if len(r.list) == maxResizes {
		r.until = r.list[0].offset
		r.forgotten++
		r.list = append(r.list[:0], r.list[1:]...)
	}
	r.list = append(r.list, s)
}

// count returns how many changes there were.
func (r *resizes) count() int64 { return r.forgotten + int64(len(r.list)) }

// next returns the first change that a reader has not seen. The reader is at offset and has seen
// that many changes; -1 if it does not know. known is false if the change may be forgotten.
func (r *resizes) next(offset, seen int64) (s *resize, before int64, known bool) {
	if seen < 0 {
		if r.forgotten > 0 && offset <= r.until {
			return nil, 0, false
		}
		i := 0
		for i < len(r.list) && r.list[i].offset < offset {
			i++
		}
		for i+1 < len(r.list) && r.list[i+1].offset == offset { // only the last one there counts
			i++
		}
		seen = r.forgotten + int64(i)
	}
	switch {
	case seen < r.forgotten:
		return nil, 0, false
	case seen >= r.count():
		return nil, seen, true
	}
	return &r.list[seen-r.forgotten], seen, true
}

// Follow reads output from an offset on; see link.FollowParams. The answer is complete when the
// program has ended and the reader has all its output; the caller fills in the outcome.
func (t *Terminal) Follow(ctx context.Context, p link.FollowParams) (res link.FollowResult, body []byte, complete bool, err error) {
	for {
		t.mu.Lock()
		next, err := t.followableLocked(p)
		var wake <-chan struct{}
		if p.Wait {
			wake = t.changesLocked()
		}
		t.mu.Unlock()
		switch {
		case err != nil:
			return res, nil, false, err
		case next.res.Behind:
			return next.res, nil, false, nil
		case next.to > p.Offset:
			return t.followed(p, next)
		case next.res.Resize != nil || next.res.Modes != nil || next.complete || !p.Wait:
			return next.res, nil, next.complete, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return res, nil, false, context.Cause(ctx)
		}
	}
}

// followable is the part that a reader can get now.
type followable struct {
	to       int64             // the end of the bytes
	res      link.FollowResult // the answer for all of them
	complete bool              // no output follows them
}

// followableLocked finds out how far a reader can go now.
func (t *Terminal) followableLocked(p link.FollowParams) (f followable, err error) {
	if p.Offset < 0 || p.Offset > t.offset {
		return f, api.InvalidParam("from_offset", "%d is beyond the end, which is %d", p.Offset, t.offset)
	}
	end := t.offset
	if !t.complete {
		end -= int64(t.tail.unfinished())
	}
	end = max(end, p.Offset)
	next, seen, known := t.resizes.next(p.Offset, p.Resizes)
	if !known || p.Backlog > 0 && end-p.Offset > p.Backlog {
		f.res.Behind = true
		return f, nil
	}
	now := t.shownLocked()
	if p.Modes != nil {
		if modes := t.modesLocked(); modes != *p.Modes {
			f.res.Modes = &modes
		}
	}
	f.to, f.complete = end, t.complete
	f.res.Resizes, f.res.Cols, f.res.Rows = seen, now.cols, now.rows
	if next != nil {
		f.to, f.complete = min(max(next.offset, p.Offset), end), false
		f.res.Resizes++
		f.res.Resize = &link.ResizeResult{Cols: next.cols, Rows: next.rows, Offset: next.offset}
		f.res.Cols, f.res.Rows = next.cols, next.rows
	}
	return f, nil
}

// minFollow is how many bytes are read at least, so that a character always fits.
const minFollow = 64

// followed reads the bytes of an answer.
func (t *Terminal) followed(p link.FollowParams, f followable) (link.FollowResult, []byte, bool, error) {
	size := min(f.to-p.Offset, int64(max(p.Limit, minFollow)))
	body := make([]byte, size)
	n, gapTo, _ := t.config.Log.ReadAt(output.Stdout, p.Offset, body)
	if gapTo > 0 || n == 0 {
		return link.FollowResult{Behind: true}, nil, false, nil
	}
	body = body[:n]
	if p.Offset+int64(n) < f.to { // more follows: neither the resize nor the end is reached
		if whole := n - unfinished(body); whole > 0 {
			body = body[:whole]
		}
		if f.res.Resize != nil {
			f.res.Resizes--
			f.res.Resize = nil
		}
		f.complete = false
	}
	return f.res, body, f.complete, nil
}
