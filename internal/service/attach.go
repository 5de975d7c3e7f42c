package service

import (
	"context"
	"io"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

const (
	// viewerScrollback is how many lines above the screen a viewer gets when it does not say.
	viewerScrollback = 1000
	// viewerBacklog is how far a viewer may be behind the program before it gets a new
	// snapshot instead of what it missed.
	viewerBacklog = 1 << 20
	// slowBacklog is the same for a viewer that does not keep up: it takes long for what is
	// under way already.
	slowBacklog = 64 << 10
	// resumeBacklog is the same for a viewer that comes back for what it missed while it
	// was away.
	resumeBacklog = 4 << 20
)

// SessionAttach pushes what a terminal shows, and then everything its program writes.
func (s *Service) SessionAttach(ctx context.Context, p api.SessionAttachParams) (api.Stream, error) {
	if err := s.hold(ctx); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	found, err := s.sessionOfKind(ctx, "session.attach", p.SessionID, api.KindTerminal)
	if err != nil {
		return nil, err
	}
	viewer, err := found.Attach(ctx, p)
	if err != nil {
		return nil, err
	}
	v := &view{
		viewer: viewer, scrollback: viewerScrollback,
		start: api.StreamStart{StreamID: found.ID() + "/" + viewer.ID(), SessionID: found.ID(), ViewerID: viewer.ID()},
	}
	if p.Scrollback != nil {
		v.scrollback = min(*p.Scrollback, api.MaxScrollback)
	}
	v.ctx, v.cancel = context.WithCancel(ctx)
	context.AfterFunc(v.ctx, viewer.Leave)
	if err := v.begin(found, p.FromOffset); err != nil {
		v.cancel()
		return nil, err
	}
	return v, nil
}

// view is the stream of one viewer. It has no goroutine: Recv follows the output of the
// terminal from the viewer's offset, so a viewer that does not read holds one piece of
// output and delays no other viewer. Only one goroutine at a time may call Recv; Close may
// be called at any time.
type view struct {
	ctx        context.Context
	cancel     context.CancelFunc
	viewer     *session.Viewer
	start      api.StreamStart
	scrollback int

	// Used by Recv alone.
	ready   []api.StreamEvent // what is to be pushed, in order
	seq     int64             // of the last push
	offset  int64             // up to where it has the output
	pace    pace
	fetched time.Time // when something was fetched last
	last    int       // how many bytes that were
	resizes int64     // how many changes of size it knows; -1 before it is known
	owed    int64     // up to where it may be behind, because it was away
	cols    int       // of the terminal at offset
	rows    int       // see cols
	owner   string    // who owns the size, as it was told
	ended   bool
}

// Start is the immediate answer.
func (v *view) Start() api.StreamStart { return v.start }

// Close ends the viewing.
func (v *view) Close() error {
	v.cancel()
	return nil
}

// begin makes the first pushes: a snapshot, or what is there behind an offset.
func (v *view) begin(found *session.Session, from *int64) error {
	if from == nil {
		return v.snapshot()
	}
	x, err := found.ExecInfo(v.ctx, found.Info().ExecID)
	if err != nil {
		return err
	}
	if *from > x.StdoutBytes {
		return invalid("from_offset", "%d is beyond the end, which is %d", *from, x.StdoutBytes)
	}
	v.offset, v.resizes, v.owed = *from, -1, x.StdoutBytes
	v.owner = v.viewer.Owner()
	if x.StdoutBytes-*from > resumeBacklog {
		return v.snapshot()
	}
	return v.pull(false)
}

// Recv returns the next push, and io.EOF after the one that tells the exit.
func (v *view) Recv() (api.StreamEvent, error) {
	for len(v.ready) == 0 {
		if v.ended {
			return api.StreamEvent{}, io.EOF
		}
		if owner := v.viewer.Owner(); owner != v.owner {
			v.owner = owner
			v.resize()
			continue
		}
		if err := v.pull(true); err != nil {
			return api.StreamEvent{}, err
		}
	}
	if err := v.ctx.Err(); err != nil {
		return api.StreamEvent{}, err
	}
	ev := v.ready[0]
	v.ready[0] = api.StreamEvent{}
	v.ready = v.ready[1:]
	return ev, nil
}

// pull fetches what follows; with wait it waits for it.
func (v *view) pull(wait bool) error {
	backlog := v.backlog() + max(0, v.owed-v.offset)
	r, data, err := v.viewer.Follow(v.ctx, link.FollowParams{
		Offset: v.offset, Limit: v.pace.next(), Backlog: backlog, Wait: wait, Resizes: v.resizes,
	})
	if err != nil {
		return err
	}
	v.pace.fetched()
	v.taken(len(data))
	if r.Behind {
		return v.snapshot()
	}
	if v.cols == 0 && r.Cols > 0 && r.Resize == nil { // who comes back is told the size and whose it is
		v.cols, v.rows = r.Cols, r.Rows
		v.resize()
	}
	if len(data) > 0 {
		ev := api.StreamEvent{Type: api.EventOutput}
		ev.Data, ev.DataBase64 = api.Text(data)
		v.push(v.offset, ev)
		v.offset += int64(len(data))
	}
	if v.resizes = r.Resizes; r.Resize != nil {
		v.cols, v.rows = r.Resize.Cols, r.Resize.Rows
		v.resize()
	}
	if r.Outcome != nil {
		outcome := *r.Outcome
		session.FillLists(&outcome)
		v.push(v.offset, api.StreamEvent{Type: api.EventExit, ExecOutcome: &outcome})
		v.ended = true
	}
	return nil
}

// snapshot makes a push of what the terminal shows now. What the viewer has not got
// before is in it.
func (v *view) snapshot() error {
	r, data, err := v.viewer.Snapshot(v.ctx, v.scrollback)
	if err != nil {
		return err
	}
	v.offset, v.resizes, v.cols, v.rows, v.owner = r.Offset, r.Resizes, r.Cols, r.Rows, v.viewer.Owner()
	ev := api.StreamEvent{Type: api.EventSnapshot, ViewerEvent: &api.ViewerEvent{Cols: r.Cols, Rows: r.Rows, OwnerID: v.owner, Version: r.Version}}
	ev.Data, ev.DataBase64 = api.Text(data)
	v.push(r.Offset, ev)
	v.taken(len(data))
	return nil
}

// taken notes that so many bytes were fetched for the viewer.
func (v *view) taken(n int) { v.fetched, v.last = time.Now(), n }

// backlog is how far the viewer may be behind. One that took long for what was fetched
// last may be behind by what it takes in half a second.
func (v *view) backlog() int64 {
	took := time.Since(v.fetched)
	if v.fetched.IsZero() || took < keepsUp {
		return viewerBacklog
	}
	return min(max(int64(v.last)*int64(time.Second/2)/int64(took), slowBacklog), viewerBacklog)
}

// resize tells the size of the terminal from where the viewer is, and whose it is.
func (v *view) resize() {
	v.push(v.offset, api.StreamEvent{Type: api.EventResize, ViewerEvent: &api.ViewerEvent{Cols: v.cols, Rows: v.rows, OwnerID: v.owner}})
}

func (v *view) push(offset int64, ev api.StreamEvent) {
	v.seq++
	ev.StreamID, ev.Seq, ev.Offset = v.start.StreamID, v.seq, &offset
	v.ready = append(v.ready, ev)
}
