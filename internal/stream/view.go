package stream

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

const (
	// viewerScrollback is how many lines above the screen a viewer gets by default.
	viewerScrollback = 1000
	// viewerBacklog is how many bytes a viewer may be behind the program before it gets a new
	// snapshot instead of the missed output.
	viewerBacklog = 1 << 20
	// slowBacklog is the same for a viewer that does not keep up: the output that is under way
	// already takes it long.
	slowBacklog = 64 << 10
	// resumeBacklog is the same for a viewer that reconnects.
	resumeBacklog = 4 << 20
)

// NewView attaches a viewer to a terminal. Its stream begins with a snapshot, or with the output
// from p.FromOffset, and continues with the output of the program.
func NewView(ctx context.Context, found *session.Session, p api.SessionAttachParams) (api.Stream, error) {
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
	if p.Modes {
		v.modes = &api.TerminalModes{}
	}
	v.watches = p.Viewers
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
	watches    bool // it pushes viewers

	// Used by Recv alone.
	ready   []api.StreamEvent // the next pushes, in order
	seq     int64             // the number of the last push
	offset  int64             // the viewer has the output up to here
	pace    pace
	fetched time.Time          // the time of the last fetch
	last    int                // how many bytes it brought
	resizes int64              // how many changes of size the viewer has; -1 if unknown
	owed    int64              // the viewer may be behind up to here, because it reconnected
	cols    int                // of the terminal at offset
	rows    int                // see cols
	owner   string             // the owner of the size in the last push
	viewers []api.Viewer       // in the last push of them
	modes   *api.TerminalModes // in the last push of them, zero before it; nil if they are not wanted
	ended   bool
}

// Start is the immediate answer.
func (v *view) Start() api.StreamStart { return v.start }

// Close ends the stream.
func (v *view) Close() error {
	v.cancel()
	return nil
}

// begin makes the first pushes: a snapshot, or the output from an offset on.
func (v *view) begin(found *session.Session, from *int64) error {
	if from == nil {
		return v.snapshot()
	}
	x, err := found.ExecInfo(v.ctx, found.Info().ExecID)
	if err != nil {
		return err
	}
	if *from > x.StdoutBytes {
		return api.InvalidParam("from_offset", "%d is beyond the end, which is %d", *from, x.StdoutBytes)
	}
	v.offset, v.resizes, v.owed = *from, -1, x.StdoutBytes
	v.owner = v.viewer.Owner()
	if x.StdoutBytes-*from > resumeBacklog {
		return v.snapshot()
	}
	return v.pull(false)
}

// Recv returns the next push, and io.EOF after that of the exit.
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
		if v.pushViewers() {
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

// pushViewers pushes the viewers of the terminal, if they are wanted and have changed.
func (v *view) pushViewers() bool {
	if !v.watches {
		return false
	}
	list := v.viewer.Viewers()
	if slices.Equal(list, v.viewers) {
		return false
	}
	v.viewers = list
	v.push(v.offset, api.StreamEvent{Type: api.EventViewers, Viewers: list})
	return true
}

// pull fetches the next output; with wait it waits for it.
func (v *view) pull(wait bool) error {
	backlog := v.backlog() + max(0, v.owed-v.offset)
	r, data, err := v.viewer.Follow(v.ctx, link.FollowParams{
		Offset: v.offset, Limit: v.pace.next(), Backlog: backlog, Wait: wait, Resizes: v.resizes, Modes: v.modes,
	})
	if err != nil {
		return err
	}
	v.pace.fetched()
	v.taken(len(data))
	if r.Behind {
		return v.snapshot()
	}
	if v.cols == 0 && r.Cols > 0 && r.Resize == nil { // a viewer that reconnects gets the size and its owner
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
	if r.Modes != nil && v.modes != nil {
		v.modes = r.Modes
		v.push(v.offset, api.StreamEvent{Type: api.EventModes, Modes: r.Modes})
	}
	if r.Outcome != nil {
		outcome := *r.Outcome
		session.FillLists(&outcome)
		v.push(v.offset, api.StreamEvent{Type: api.EventExit, ExecOutcome: &outcome})
		v.ended = true
	}
	return nil
}

// snapshot pushes the present screen, which includes everything that the viewer has missed.
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

// taken notes a fetch of n bytes for the viewer.
func (v *view) taken(n int) { v.fetched, v.last = time.Now(), n }

// backlog returns how many bytes the viewer may be behind. A slow viewer may be behind by as much
// as it takes in half a second.
func (v *view) backlog() int64 {
	took := time.Since(v.fetched)
	if v.fetched.IsZero() || took < keepsUp {
		return viewerBacklog
	}
	return min(max(int64(v.last)*int64(time.Second/2)/int64(took), slowBacklog), viewerBacklog)
}

// resize pushes the size of the terminal at the viewer's offset, and the owner of the size.
func (v *view) resize() {
	v.push(v.offset, api.StreamEvent{Type: api.EventResize, ViewerEvent: &api.ViewerEvent{Cols: v.cols, Rows: v.rows, OwnerID: v.owner}})
}

func (v *view) push(offset int64, ev api.StreamEvent) {
	v.seq++
	ev.StreamID, ev.Seq, ev.Offset = v.start.StreamID, v.seq, &offset
	v.ready = append(v.ready, ev)
}
