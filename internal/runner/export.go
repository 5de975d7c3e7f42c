package runner

import (
	"context"
	"io"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/export"
	"github.com/trl-dev/trl/internal/link"
)

// exportPiece is how many bytes of an export one answer has.
const exportPiece = 1 << 20

// fetch is an export that the daemon is fetching. A goroutine writes the export, as fast as the
// daemon fetches it.
type fetch struct {
	r    *io.PipeReader
	over bool // the last piece is on its way; guarded by the runner's mu
}

// dismissed is destroy. If the daemon wants an export, the answer has its first piece, and the
// runner lives until the daemon says that it has everything, also the recording.
func (r *Runner) dismissed(_ context.Context, q *link.Request[*link.DestroyParams, *link.DestroyResult]) error {
	p := *q.Params
	r.mu.Lock()
	r.wanted = r.wanted || p.Export && r.created
	r.mu.Unlock()
	res := r.destroy(p, false)

	screen := r.lastScreen()
	r.mu.Lock()
	r.loneTimer.Stop()
	fetching := r.fetch != nil
	if r.wanted && !fetching && p.Export {
		pr, pw := io.Pipe()
		r.fetch = &fetch{r: pr}
		execs := make([]*export.Exec, 0, len(r.order))
		for _, e := range r.order {
			execs = append(execs, &e.Exec)
		}
		go func() { _ = pw.CloseWithError(export.Write(pw, res, execs, screen)) }()
	}
	x, over := r.fetch, !r.hasRemainsLocked()
	r.mu.Unlock()
	switch {
	case over:
		q.Answer(&res, nil)
		r.exit()
		return nil
	case fetching || x == nil: // another call fetches the export, or the daemon wants only the recording
		q.Answer(&res, nil)
		return nil
	}
	piece, result, err := r.piece(x)
	if err != nil { // the receipt is better than nothing
		q.Answer(&res, nil)
		r.exportIsOver()
		return nil
	}
	res.Export = &result
	q.Answer(&res, piece)
	return nil
}

// exportIsOver ends the runner, unless the daemon still has to fetch the recording.
func (r *Runner) exportIsOver() {
	r.mu.Lock()
	r.wanted = false
	over := !r.hasRemainsLocked()
	r.mu.Unlock()
	if over {
		r.exit()
	}
}

// piece reads the next piece of an export.
func (r *Runner) piece(x *fetch) ([]byte, link.ExportResult, error) {
	buf := make([]byte, exportPiece)
	n, err := io.ReadFull(x.r, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		r.mu.Lock()
		x.over = true
		r.mu.Unlock()
		return buf[:n], link.ExportResult{}, nil
	}
	return buf[:n], link.ExportResult{More: true}, err
}

// continueExport is export: it answers with the next piece, or exits when the daemon has them all.
func (r *Runner) continueExport(_ context.Context, q *link.Request[*struct{}, *link.ExportResult]) error {
	r.mu.Lock()
	x := r.fetch
	safe := x != nil && x.over
	r.mu.Unlock()
	switch {
	case x == nil:
		return api.Errorf(api.CodeInternal, "session %q: there is no export", r.cfg.SessionID)
	case safe:
		q.Answer(&link.ExportResult{}, nil)
		r.exportIsOver()
		return nil
	}
	piece, result, err := r.piece(x)
	if err == nil {
		q.Answer(&result, piece)
	}
	return err
}

// lastScreen returns the screen of the terminal at the end; nil for other sessions.
func (r *Runner) lastScreen() *export.Screen {
	r.mu.Lock()
	p := r.program
	r.mu.Unlock()
	if p == nil || p.terminal == nil {
		return nil
	}
	res, data, err := p.terminal.Snapshot(context.Background(), -1)
	if err != nil {
		return nil
	}
	return &export.Screen{SnapshotResult: res, Data: data}
}

// linger ends a runner whose daemon left while the session was ending. If it has
// remains, the runner first waits for the next daemon, which may fetch them.
func (r *Runner) linger(e *ending) {
	<-e.done
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.conn != nil: // another daemon has connected
	case r.hasRemainsLocked() || e.own:
		r.waitThenExitLocked(r.patienceLocked())
	default:
		r.waitThenExitLocked(0)
	}
}
